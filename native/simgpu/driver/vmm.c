// Address ranges, and mappings of physical memory into them.
#define _GNU_SOURCE
#include "context.h"
#include "physical.h"

#include <stdint.h>
#include <sys/mman.h>

struct range {
    struct range *next;
    CUdeviceptr base;
    uint64_t bytes;
};

static struct range *ranges;
CUresult cuMemAddressReserve(CUdeviceptr *out, size_t size, size_t alignment, CUdeviceptr wish,
                             unsigned long long flags)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    (void)wish; // only a wish
    if (!out || flags || size == 0 || size % PHYSICAL_GRANULARITY || (alignment & (alignment - 1)) ||
        alignment > 1 << 30)
        return leave(CUDA_ERROR_INVALID_VALUE);
    uint64_t extra = alignment > PHYSICAL_GRANULARITY ? alignment : 0;
    char *base = region_map(size + extra);
    struct range *range = base ? malloc(sizeof *range) : NULL;
    if (!range) {
        if (base)
            region_unmap(base, size + extra);
        return leave(CUDA_ERROR_OUT_OF_MEMORY);
    }
    if (extra) {
        char *aligned = (char *)round_up((uintptr_t)base, alignment);
        if (aligned > base)
            munmap(base, (size_t)(aligned - base));
        munmap(aligned + size, extra - (size_t)(aligned - base));
        base = aligned;
    }
    mprotect(base, size, PROT_NONE);
    *range = (struct range){ranges, (CUdeviceptr)base, size};
    ranges = range;
    *out = range->base;
    return leave(CUDA_SUCCESS);
}

static bool has_mapping(CUdeviceptr base, uint64_t bytes)
{
    for (uint64_t at = 0; at < bytes; at += PHYSICAL_GRANULARITY)
        if (allocation_at(base + at))
            return true;
    return false;
}

CUresult cuMemAddressFree(CUdeviceptr pointer, size_t size)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    struct range **link = &ranges;
    while (*link && (*link)->base != pointer)
        link = &(*link)->next;
    struct range *range = *link;
    if (!range || range->bytes != size || has_mapping(pointer, size))
        return leave(CUDA_ERROR_INVALID_VALUE);
    *link = range->next;
    region_unmap((void *)pointer, size);
    free(range);
    return leave(CUDA_SUCCESS);
}

static bool is_reserved(CUdeviceptr base, uint64_t bytes)
{
    for (const struct range *range = ranges; range; range = range->next)
        if (base >= range->base && base - range->base < range->bytes && bytes <= range->base + range->bytes - base)
            return true;
    return false;
}

CUresult cuMemMap(CUdeviceptr pointer, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    struct physical *physical = physical_of(handle);
    if (!physical || physical->handles == 0 || flags || offset || size == 0 || size % PHYSICAL_GRANULARITY ||
        pointer % PHYSICAL_GRANULARITY || size > physical->bytes || !is_reserved(pointer, size) ||
        has_mapping(pointer, size))
        return leave(CUDA_ERROR_INVALID_VALUE);
    void *at = mmap((void *)pointer, size, PROT_NONE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, physical->file,
                    (off_t)physical->offset);
    struct allocation *mapping = at == MAP_FAILED ? NULL : allocation_add(pointer, size, ALLOCATION_MAPPING);
    if (!mapping)
        return leave(CUDA_ERROR_OUT_OF_MEMORY);
    madvise(at, size, MADV_DONTFORK);
    mapping->card = physical->card;
    mapping->physical = physical;
    physical->mappings++;
    return leave(CUDA_SUCCESS);
}

// The mappings that lie in the range, if they fill it exactly and begin and end with it.
static bool are_whole_mappings(CUdeviceptr pointer, size_t size)
{
    CUdeviceptr at = pointer;
    while (at < pointer + size) {
        const struct allocation *mapping = allocation_starting(at);
        if (!mapping || mapping->kind != ALLOCATION_MAPPING)
            return false;
        at += mapping->size;
    }
    return at == pointer + size;
}

CUresult cuMemUnmap(CUdeviceptr pointer, size_t size)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    if (size == 0 || !are_whole_mappings(pointer, size))
        return leave(CUDA_ERROR_INVALID_VALUE);
    struct context *context = context_current();
    if (context)
        context_drain(context);
    for (CUdeviceptr at = pointer; at < pointer + size;) {
        struct allocation *mapping = allocation_starting(at);
        struct physical *physical = mapping->physical;
        mmap((void *)at, mapping->size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
        at += mapping->size;
        allocation_remove(mapping);
        physical->mappings--;
        physical_drop_if_unused(physical);
    }
    return leave(CUDA_SUCCESS);
}

CUresult cuMemSetAccess(CUdeviceptr pointer, size_t size, const CUmemAccessDesc *descriptions, size_t count)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    if (!descriptions || count == 0 || size == 0 || !are_whole_mappings(pointer, size))
        return leave(CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < count; i++) {
        unsigned card;
        bool on_card;
        if (!physical_location(&descriptions[i].location, &card, &on_card))
            return leave(CUDA_ERROR_INVALID_DEVICE);
        bool opens = descriptions[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
        for (CUdeviceptr at = pointer; at < pointer + size;) {
            struct allocation *mapping = allocation_starting(at);
            at += mapping->size;
            if (on_card && card == mapping->card)
                mapping->granted = opens;
            // The card's engines write here through the host's mapping, whatever the card itself may do.
            if (opens)
                mprotect((void *)mapping->base, mapping->size, PROT_READ | PROT_WRITE);
            else if (on_card && card == mapping->card)
                mprotect((void *)mapping->base, mapping->size, PROT_NONE);
        }
    }
    return leave(CUDA_SUCCESS);
}

CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr pointer)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    const struct allocation *mapping = allocation_at(pointer);
    unsigned card;
    bool on_card;
    if (!flags || !location || !mapping || mapping->kind != ALLOCATION_MAPPING)
        return leave(CUDA_ERROR_INVALID_VALUE);
    if (!physical_location(location, &card, &on_card))
        return leave(CUDA_ERROR_INVALID_DEVICE);
    bool open = on_card && card == mapping->card && mapping->granted;
    *flags = open ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return leave(CUDA_SUCCESS);
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *out, void *address)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    const struct allocation *mapping = allocation_at((CUdeviceptr)address);
    if (!out || !mapping || mapping->kind != ALLOCATION_MAPPING)
        return leave(CUDA_ERROR_INVALID_VALUE);
    mapping->physical->handles++;
    *out = (CUmemGenericAllocationHandle)(uintptr_t)mapping->physical;
    return leave(CUDA_SUCCESS);
}
