// What a pointer is: cuPointerGetAttribute(s), and the advice that managed memory takes.
#include "context.h"
#include "memory.h"
#include "stream.h"

#include <string.h>

static bool is_mapped_host(const struct allocation *a)
{
    return !allocation_is_device(a);
}

static CUcontext context_handle(const struct allocation *a)
{
    return (CUcontext)a->context;
}

static int ordinal_of(unsigned card)
{
    for (int i = 0; i < device_count(); i++) {
        unsigned other;
        if (device_card(i, &other) && other == card)
            return i;
    }
    return -1;
}

static unsigned access_flags(const struct allocation *a)
{
    if (a->kind == ALLOCATION_MAPPING && !a->granted)
        return CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE;
    return CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
}

static CUresult get(const struct allocation *a, CUpointer_attribute attribute, CUdeviceptr pointer, void *data)
{
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *(CUcontext *)data = context_handle(a);
        break;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(CUmemorytype *)data = is_mapped_host(a) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        break;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *(CUdeviceptr *)data = pointer;
        break;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        if (!is_mapped_host(a) && a->kind != ALLOCATION_MANAGED)
            return CUDA_ERROR_INVALID_VALUE;
        *(void **)data = (void *)pointer;
        break;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        *(int *)data = a->sync_memops;
        break;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        *(unsigned long long *)data = a->id;
        break;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *(unsigned char *)data = a->kind == ALLOCATION_MANAGED;
        break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)data = ordinal_of(a->card);
        break;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        *(unsigned char *)data = a->kind == ALLOCATION_DEVICE;
        break;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        *(CUdeviceptr *)data = a->base;
        break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        *(size_t *)data = a->size;
        break;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        *(unsigned char *)data = 1;
        break;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        *(unsigned long long *)data = 0;
        break;
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        *(unsigned char *)data = 0;
        break;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        *(unsigned *)data = access_flags(a);
        break;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        *(CUmemoryPool *)data = NULL;
        break;
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        *(unsigned long long *)data = a->id;
        break;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    return CUDA_SUCCESS;
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr pointer)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    const struct allocation *allocation = allocation_at(pointer);
    if (!data || !allocation)
        return leave(CUDA_ERROR_INVALID_VALUE);
    return leave(get(allocation, attribute, pointer, data));
}

// How wide the answer to an attribute is, to clear it for a pointer that isn't ours.
static size_t width_of(CUpointer_attribute attribute)
{
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        return sizeof(int);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        return 1;
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
        return sizeof(CUDA_POINTER_ATTRIBUTE_P2P_TOKENS);
    default:
        return sizeof(uint64_t);
    }
}

// Any pointer may be asked about: what isn't known is answered by zeros, and a device of -2.
CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute *attributes, void **data, CUdeviceptr pointer)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    if (count == 0 || !attributes || !data)
        return leave(CUDA_ERROR_INVALID_VALUE);
    const struct allocation *allocation = allocation_at(pointer);
    for (unsigned i = 0; i < count; i++) {
        if (allocation && get(allocation, attributes[i], pointer, data[i]) == CUDA_SUCCESS)
            continue;
        memset(data[i], 0, width_of(attributes[i]));
        if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
            *(int *)data[i] = -2;
    }
    return leave(CUDA_SUCCESS);
}

CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr pointer)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    struct allocation *allocation = allocation_at(pointer);
    if (!value || !allocation || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
        return leave(CUDA_ERROR_INVALID_VALUE);
    allocation->sync_memops = *(const unsigned *)value != 0;
    return leave(CUDA_SUCCESS);
}

static CUresult advise(CUdeviceptr pointer, size_t bytes)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    const struct allocation *a = allocation_at(pointer);
    bool managed = a && a->kind == ALLOCATION_MANAGED && bytes <= a->base + a->size - pointer;
    return leave(managed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuMemAdvise(CUdeviceptr pointer, size_t bytes, CUmem_advise advice, CUdevice device)
{
    (void)advice, (void)device;
    return advise(pointer, bytes);
}

CUresult cuMemAdvise_v2(CUdeviceptr pointer, size_t bytes, CUmem_advise advice, CUmemLocation location)
{
    (void)advice, (void)location;
    return advise(pointer, bytes);
}

static CUresult prefetch(CUdeviceptr pointer, size_t bytes, CUstream handle)
{
    CUresult result = advise(pointer, bytes);
    if (result != CUDA_SUCCESS)
        return result;
    struct context *context;
    struct stream *stream;
    result = enter_stream(handle, &context, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    struct work nothing = {.type = CU_GRAPH_NODE_TYPE_EMPTY, .context = stream->context};
    return leave(stream_submit(stream, &nothing));
}

CUresult cuMemPrefetchAsync(CUdeviceptr pointer, size_t bytes, CUdevice device, CUstream stream)
{
    (void)device;
    return prefetch(pointer, bytes, stream);
}

CUresult cuMemPrefetchAsync_v2(CUdeviceptr pointer, size_t bytes, CUmemLocation location, unsigned int flags,
                               CUstream stream)
{
    (void)location;
    return flags ? CUDA_ERROR_INVALID_VALUE : prefetch(pointer, bytes, stream);
}
