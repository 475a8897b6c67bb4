// cuMemAllocAsync and cuMemFreeAsync: from and to a pool, in a stream's order; in a capture, nodes of a graph.
#include "context.h"
#include "capture.h"
#include "graph.h"
#include "pool.h"
#include "stream.h"

static CUresult capture_allocation(struct stream *stream, size_t size, CUdeviceptr *out)
{
    struct work work = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC, .context = stream->context};
    work.allocate.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    work.allocate.poolProps.location =
        (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = stream->context->device};
    work.allocate.bytesize = size;
    CUresult result = graph_memory_reserve(&work.allocate);
    if (result == CUDA_SUCCESS) {
        *out = work.allocate.dptr;
        result = capture_add(stream, &work);
    }
    return result;
}

static CUresult allocate(CUdeviceptr *out, size_t size, CUmemoryPool handle, bool named, CUstream stream_handle)
{
    struct context *context;
    struct stream *stream;
    CUresult result = enter_stream(stream_handle, &context, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (!out || size == 0)
        return leave(CUDA_ERROR_INVALID_VALUE);
    if (stream->capture)
        return leave(capture_allocation(stream, size, out));
    struct pool *pool = named ? pool_of(handle) : pool_current(stream->context->device, stream->context->card);
    if (!pool)
        return leave(named ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OUT_OF_MEMORY);
    struct allocation *allocation;
    result = pool_allocate(pool, size, stream, &allocation);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        // What other streams are still giving back may be enough.
        context_drain(stream->context);
        result = pool_allocate(pool, size, stream, &allocation);
    }
    if (result == CUDA_SUCCESS)
        *out = allocation->base;
    return leave(result);
}

CUresult cuMemAllocAsync(CUdeviceptr *out, size_t size, CUstream stream)
{
    return allocate(out, size, NULL, false, stream);
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *out, size_t size, CUmemoryPool pool, CUstream stream)
{
    return allocate(out, size, pool, true, stream);
}

// Memory of cuMemAlloc may be freed in order, too: it goes when the stream has come so far.
static CUresult free_plain(struct allocation *allocation, struct stream *stream)
{
    op_wait(stream->tail);
    memory_free(allocation);
    return CUDA_SUCCESS;
}

CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream stream_handle)
{
    struct context *context;
    struct stream *stream;
    CUresult result = enter_stream(stream_handle, &context, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (!pointer)
        return leave(CUDA_SUCCESS);
    struct allocation *allocation = allocation_starting(pointer);
    if (!allocation)
        return leave(CUDA_ERROR_INVALID_VALUE);
    struct work work = {.type = CU_GRAPH_NODE_TYPE_MEM_FREE, .context = stream->context, .release = {pointer, 0}};
    if (allocation->kind == ALLOCATION_GRAPH || stream->capture)
        return leave(allocation->kind == ALLOCATION_GRAPH ? stream_submit(stream, &work) : CUDA_ERROR_INVALID_VALUE);
    switch (allocation->kind) {
    case ALLOCATION_POOL:
        work.release.number = pool_free_in_order(allocation, stream);
        return leave(stream_submit(stream, &work));
    case ALLOCATION_SMALL:
    case ALLOCATION_DEVICE:
    case ALLOCATION_MANAGED:
        return leave(free_plain(allocation, stream));
    default:
        return leave(CUDA_ERROR_INVALID_VALUE);
    }
}
