// Host memory that the card can reach: allocated here, or the program's own.
#include "capture.h"
#include "context.h"
#include "memory.h"

static CUresult allocate(void **out, size_t size, unsigned flags)
{
    struct context *context;
    CUresult result = enter(&context);
    if (result != CUDA_SUCCESS)
        return result;
    if (!out || size == 0 ||
        (flags & ~(CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED)))
        return leave(CUDA_ERROR_INVALID_VALUE);
    uint64_t bytes = round_up(size, 4096);
    void *base = bytes < size ? NULL : region_map(bytes);
    struct allocation *allocation = base ? allocation_add((CUdeviceptr)base, size, ALLOCATION_HOST) : NULL;
    if (!allocation) {
        if (base)
            region_unmap(base, bytes);
        return leave(CUDA_ERROR_OUT_OF_MEMORY);
    }
    allocation->mapped = bytes;
    allocation->context = context;
    allocation->card = context->card;
    allocation->flags = flags | CU_MEMHOSTALLOC_DEVICEMAP;
    *out = base;
    return leave(CUDA_SUCCESS);
}

CUresult cuMemAllocHost_v2(void **out, size_t size)
{
    return allocate(out, size, 0);
}

CUresult cuMemAllocHost(void **out, unsigned int size)
{
    return allocate(out, size, 0);
}

CUresult cuMemHostAlloc(void **out, size_t size, unsigned int flags)
{
    return allocate(out, size, flags);
}

CUresult cuMemFreeHost(void *pointer)
{
    struct context *context;
    CUresult result = enter(&context);
    if (result != CUDA_SUCCESS)
        return result;
    struct allocation *allocation = allocation_starting((CUdeviceptr)pointer);
    if (!allocation || allocation->kind != ALLOCATION_HOST)
        return leave(CUDA_ERROR_INVALID_VALUE);
    context_drain(allocation->context);
    region_unmap(pointer, allocation->mapped);
    allocation_remove(allocation);
    return leave(CUDA_SUCCESS);
}

CUresult cuMemHostRegister_v2(void *pointer, size_t size, unsigned int flags)
{
    struct context *context;
    CUresult result = enter(&context);
    if (result != CUDA_SUCCESS)
        return result;
    const unsigned known = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_IOMEMORY |
                           CU_MEMHOSTREGISTER_READ_ONLY;
    if (!pointer || size == 0 || (flags & ~known))
        return leave(CUDA_ERROR_INVALID_VALUE);
    result = capture_forbids();
    if (result != CUDA_SUCCESS)
        return leave(result);
    struct allocation *allocation = allocation_add((CUdeviceptr)pointer, size, ALLOCATION_REGISTERED);
    if (!allocation)
        return leave(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    allocation->context = context;
    allocation->card = context->card;
    allocation->flags = flags | CU_MEMHOSTREGISTER_DEVICEMAP;
    return leave(CUDA_SUCCESS);
}

CUresult cuMemHostRegister(void *pointer, size_t size, unsigned int flags)
{
    return cuMemHostRegister_v2(pointer, size, flags);
}

CUresult cuMemHostUnregister(void *pointer)
{
    struct context *context;
    CUresult result = enter(&context);
    if (result != CUDA_SUCCESS)
        return result;
    struct allocation *allocation = allocation_starting((CUdeviceptr)pointer);
    if (!allocation || allocation->kind != ALLOCATION_REGISTERED)
        return leave(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    context_drain(allocation->context);
    allocation_remove(allocation);
    return leave(CUDA_SUCCESS);
}

static struct allocation *host_at(void *pointer)
{
    struct allocation *allocation = allocation_at((CUdeviceptr)pointer);
    return allocation && !allocation_is_device(allocation) ? allocation : NULL;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *out, void *pointer, unsigned int flags)
{
    struct context *context;
    CUresult result = enter(&context);
    if (result != CUDA_SUCCESS)
        return result;
    if (!out || flags || !host_at(pointer))
        return leave(CUDA_ERROR_INVALID_VALUE);
    *out = (CUdeviceptr)pointer;
    return leave(CUDA_SUCCESS);
}

CUresult cuMemHostGetFlags(unsigned int *flags, void *pointer)
{
    struct context *context;
    CUresult result = enter(&context);
    if (result != CUDA_SUCCESS)
        return result;
    const struct allocation *allocation = host_at(pointer);
    if (!flags || !allocation)
        return leave(CUDA_ERROR_INVALID_VALUE);
    *flags = allocation->flags;
    return leave(CUDA_SUCCESS);
}
