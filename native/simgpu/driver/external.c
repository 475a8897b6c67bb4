// External memory: a descriptor that cuMemExportToShareableHandle gave, here or in another process, and buffers on it.
// Of another API's memory there is none here.
#define _GNU_SOURCE
#include "context.h"
#include "memory.h"
#include "physical.h"

#include <sys/mman.h>
#include <unistd.h>

struct external {
    struct physical *physical;
};

static struct external *external_of(CUexternalMemory handle)
{
    return handle_is(handle, HANDLE_EXTERNAL) ? (struct external *)handle : NULL;
}

CUresult cuImportExternalMemory(CUexternalMemory *out, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *description)
{
    struct context *context;
    CUresult result = enter(&context);
    if (result != CUDA_SUCCESS)
        return result;
    if (!out || !description || description->size == 0)
        return leave(CUDA_ERROR_INVALID_VALUE);
    if (description->type != CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD)
        return leave(CUDA_ERROR_NOT_SUPPORTED);
    struct external *external = malloc(sizeof *external);
    struct physical *physical = external ? physical_import(description->handle.fd) : NULL;
    if (!physical || physical->bytes < description->size) {
        if (physical)
            physical_release(physical);
        result = external ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OUT_OF_MEMORY;
        free(external);
        return leave(result);
    }
    close(description->handle.fd); // it is the driver's from now on
    external->physical = physical;
    handle_add(external, HANDLE_EXTERNAL);
    *out = (CUexternalMemory)external;
    return leave(CUDA_SUCCESS);
}

// The buffer keeps the memory when the object is gone, until cuMemFree.
CUresult cuExternalMemoryGetMappedBuffer(CUdeviceptr *out, CUexternalMemory handle,
                                         const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *description)
{
    struct context *context;
    CUresult result = enter(&context);
    if (result != CUDA_SUCCESS)
        return result;
    const struct external *external = external_of(handle);
    if (!out || !description || !external || description->flags || description->size == 0 ||
        description->offset % PHYSICAL_GRANULARITY || description->offset > external->physical->bytes ||
        description->size > external->physical->bytes - description->offset)
        return leave(external ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE);
    void *base = mmap(NULL, description->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                      external->physical->file, (off_t)description->offset);
    struct allocation *allocation =
        base == MAP_FAILED ? NULL : allocation_add((CUdeviceptr)base, description->size, ALLOCATION_IPC);
    if (!allocation)
        return leave(CUDA_ERROR_MAP_FAILED);
    allocation->mapped = description->size;
    allocation->context = context;
    allocation->card = context->card;
    *out = allocation->base;
    return leave(CUDA_SUCCESS);
}

CUresult cuDestroyExternalMemory(CUexternalMemory handle)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    struct external *external = external_of(handle);
    if (!external)
        return leave(CUDA_ERROR_INVALID_HANDLE);
    physical_release(external->physical);
    handle_remove(external);
    free(external);
    return leave(CUDA_SUCCESS);
}
