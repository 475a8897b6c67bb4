// Multicast objects: memory of several cards under one handle.  They can be made, bound to and unbound, and keep what is bound
// to them; they can't be mapped, since no kernel here touches memory.
#include "context.h"
#include "multicast.h"
#include "physical.h"

struct bound {
    struct bound *next;
    uint64_t offset, size;
    unsigned card;
    struct physical *physical;
};

struct multicast {
    CUmulticastObjectProp props;
    uint32_t cards; // bit by bit
    struct bound *bound;
};

struct multicast *multicast_of(CUmemGenericAllocationHandle handle)
{
    return handle_is((void *)(uintptr_t)handle, HANDLE_MULTICAST) ? (struct multicast *)(uintptr_t)handle : NULL;
}

static void drop(struct bound **link)
{
    struct bound *bound = *link;
    *link = bound->next;
    bound->physical->mappings--;
    physical_drop_if_unused(bound->physical);
    free(bound);
}

void multicast_drop(struct multicast *object)
{
    while (object->bound)
        drop(&object->bound);
    handle_remove(object);
    free(object);
}

static bool can_multicast(void)
{
    return sim_model()->major >= 9;
}

CUresult cuMulticastCreate(CUmemGenericAllocationHandle *out, const CUmulticastObjectProp *props)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    if (!can_multicast())
        return leave(CUDA_ERROR_NOT_SUPPORTED);
    if (!out || !props || props->flags || props->numDevices == 0 || props->size == 0 ||
        props->size % PHYSICAL_GRANULARITY)
        return leave(CUDA_ERROR_INVALID_VALUE);
    struct multicast *object = calloc(1, sizeof *object);
    if (!object)
        return leave(CUDA_ERROR_OUT_OF_MEMORY);
    object->props = *props;
    handle_add(object, HANDLE_MULTICAST);
    *out = (CUmemGenericAllocationHandle)(uintptr_t)object;
    return leave(CUDA_SUCCESS);
}

// Enters the driver; only with CUDA_SUCCESS it is entered afterwards.
static CUresult enter_object(CUmemGenericAllocationHandle handle, CUdevice device, struct multicast **object,
                             unsigned *card)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    *object = multicast_of(handle);
    if (!*object)
        return leave(can_multicast() ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_SUPPORTED);
    return device_card(device, card) ? CUDA_SUCCESS : leave(CUDA_ERROR_INVALID_DEVICE);
}

CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle handle, CUdevice device)
{
    unsigned card;
    struct multicast *object;
    CUresult result = enter_object(handle, device, &object, &card);
    if (result != CUDA_SUCCESS)
        return result;
    if (object->cards >> card & 1 || (unsigned)__builtin_popcount(object->cards) == object->props.numDevices)
        return leave(CUDA_ERROR_INVALID_VALUE);
    object->cards |= 1u << card;
    return leave(CUDA_SUCCESS);
}

// With the driver entered.
static CUresult bind(CUmemGenericAllocationHandle handle, uint64_t offset, struct physical *physical, uint64_t size,
                     unsigned long long flags)
{
    struct multicast *object = multicast_of(handle);
    if (!can_multicast())
        return leave(CUDA_ERROR_NOT_SUPPORTED);
    if (!object || !physical || flags || size == 0 || size % PHYSICAL_GRANULARITY || offset % PHYSICAL_GRANULARITY ||
        offset > object->props.size || size > object->props.size - offset)
        return leave(CUDA_ERROR_INVALID_VALUE);
    if ((unsigned)__builtin_popcount(object->cards) < object->props.numDevices ||
        !(object->cards >> physical->card & 1))
        return leave(CUDA_ERROR_INVALID_DEVICE);
    struct bound *bound = malloc(sizeof *bound);
    if (!bound)
        return leave(CUDA_ERROR_OUT_OF_MEMORY);
    *bound = (struct bound){object->bound, offset, size, physical->card, physical};
    object->bound = bound;
    physical->mappings++;
    return leave(CUDA_SUCCESS);
}

CUresult cuMulticastBindMem(CUmemGenericAllocationHandle handle, size_t offset, CUmemGenericAllocationHandle memory,
                            size_t memory_offset, size_t size, unsigned long long flags)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    struct physical *physical = physical_of(memory);
    bool fits = physical && memory_offset <= physical->bytes && size <= physical->bytes - memory_offset;
    return bind(handle, offset, fits ? physical : NULL, size, flags);
}

CUresult cuMulticastBindMem_v2(CUmemGenericAllocationHandle handle, CUdevice device, size_t offset,
                               CUmemGenericAllocationHandle memory, size_t memory_offset, size_t size,
                               unsigned long long flags)
{
    (void)device;
    return cuMulticastBindMem(handle, offset, memory, memory_offset, size, flags);
}

CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle handle, size_t offset, CUdeviceptr address, size_t size,
                             unsigned long long flags)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    const struct allocation *mapping = allocation_at(address);
    bool fits = mapping && mapping->kind == ALLOCATION_MAPPING && size <= mapping->base + mapping->size - address;
    return bind(handle, offset, fits ? mapping->physical : NULL, size, flags);
}

CUresult cuMulticastBindAddr_v2(CUmemGenericAllocationHandle handle, CUdevice device, size_t offset,
                                CUdeviceptr address, size_t size, unsigned long long flags)
{
    (void)device;
    return cuMulticastBindAddr(handle, offset, address, size, flags);
}

CUresult cuMulticastUnbind(CUmemGenericAllocationHandle handle, CUdevice device, size_t offset, size_t size)
{
    unsigned card;
    struct multicast *object;
    CUresult result = enter_object(handle, device, &object, &card);
    if (result != CUDA_SUCCESS)
        return result;
    for (struct bound **link = &object->bound; *link;) {
        bool within =
            (*link)->card == card && (*link)->offset >= offset && (*link)->offset + (*link)->size <= offset + size;
        if (within)
            drop(link);
        else
            link = &(*link)->next;
    }
    return leave(CUDA_SUCCESS);
}

CUresult cuMulticastGetGranularity(size_t *granularity, const CUmulticastObjectProp *props,
                                   CUmulticastGranularity_flags option)
{
    (void)option;
    CUresult result = check_init();
    if (result != CUDA_SUCCESS)
        return result;
    if (!can_multicast())
        return CUDA_ERROR_NOT_SUPPORTED;
    if (!granularity || !props)
        return CUDA_ERROR_INVALID_VALUE;
    *granularity = PHYSICAL_GRANULARITY;
    return CUDA_SUCCESS;
}
