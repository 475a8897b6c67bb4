// Host functions and values in memory, in a stream's order.
#include "stream.h"

#include <string.h>

CUresult cuLaunchHostFunc(CUstream handle, CUhostFn call, void *argument)
{
    struct context *context;
    struct stream *stream;
    CUresult result = enter_stream(handle, &context, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (!call)
        return leave(CUDA_ERROR_INVALID_VALUE);
    struct work work = {
        .type = CU_GRAPH_NODE_TYPE_HOST, .context = stream->context, .host = {.call = call, .argument = argument}};
    return leave(stream_submit(stream, &work));
}

CUresult cuLaunchHostFunc_v2(CUstream stream, CUhostFn call, void *argument, unsigned int mode)
{
    (void)mode; // how a driver thread waits
    return cuLaunchHostFunc(stream, call, argument);
}

CUresult cuStreamAddCallback(CUstream handle, CUstreamCallback callback, void *argument, unsigned int flags)
{
    struct context *context;
    struct stream *stream;
    CUresult result = enter_stream(handle, &context, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (!callback || flags)
        return leave(CUDA_ERROR_INVALID_VALUE);
    if (stream->capture)
        return leave(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    struct work work = {.type = CU_GRAPH_NODE_TYPE_HOST,
                        .context = stream->context,
                        .host = {.callback = callback, .stream = handle, .argument = argument}};
    return leave(stream_submit(stream, &work));
}

static bool is_memory_op(const CUstreamBatchMemOpParams *op)
{
    switch (op->operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        return op->waitValue.address && op->waitValue.address % 4 == 0;
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        return op->waitValue.address && op->waitValue.address % 8 == 0;
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
    case CU_STREAM_MEM_OP_BARRIER:
        return true;
    default:
        return false;
    }
}

CUresult cuStreamBatchMemOp_v2(CUstream handle, unsigned int count, CUstreamBatchMemOpParams *list, unsigned int flags)
{
    struct context *context;
    struct stream *stream;
    CUresult result = enter_stream(handle, &context, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (!list || count == 0 || count > 256 || flags)
        return leave(CUDA_ERROR_INVALID_VALUE);
    for (unsigned i = 0; i < count; i++)
        if (!is_memory_op(&list[i]))
            return leave(CUDA_ERROR_INVALID_VALUE);
    // One node in a graph; in a stream one operation each, for each may have to wait.
    unsigned step = stream->capture ? count : 1;
    for (unsigned i = 0; i < count && result == CUDA_SUCCESS; i += step) {
        struct work work = {.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, .context = stream->context};
        work.memory_ops.count = step;
        work.memory_ops.list = malloc(step * sizeof *list);
        if (!work.memory_ops.list)
            return leave(CUDA_ERROR_OUT_OF_MEMORY);
        memcpy(work.memory_ops.list, &list[i], step * sizeof *list);
        result = stream_submit(stream, &work);
    }
    return leave(result);
}

CUresult cuStreamBatchMemOp(CUstream stream, unsigned int count, CUstreamBatchMemOpParams *list, unsigned int flags)
{
    return cuStreamBatchMemOp_v2(stream, count, list, flags);
}

static CUresult wait_value(CUstream stream, CUdeviceptr address, uint64_t value, unsigned flags,
                           CUstreamBatchMemOpType operation)
{
    CUstreamBatchMemOpParams op;
    memset(&op, 0, sizeof op);
    op.operation = operation;
    op.waitValue.address = address;
    op.waitValue.value64 = value;
    op.waitValue.flags = flags;
    return cuStreamBatchMemOp_v2(stream, 1, &op, 0);
}

static CUresult write_value(CUstream stream, CUdeviceptr address, uint64_t value, unsigned flags,
                            CUstreamBatchMemOpType operation)
{
    CUstreamBatchMemOpParams op;
    memset(&op, 0, sizeof op);
    op.operation = operation;
    op.writeValue.address = address;
    op.writeValue.value64 = value;
    op.writeValue.flags = flags;
    return cuStreamBatchMemOp_v2(stream, 1, &op, 0);
}

CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags)
{
    return wait_value(stream, address, value, flags, CU_STREAM_MEM_OP_WAIT_VALUE_32);
}

CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags)
{
    return cuStreamWaitValue32_v2(stream, address, value, flags);
}

CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags)
{
    return wait_value(stream, address, value, flags, CU_STREAM_MEM_OP_WAIT_VALUE_64);
}

CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags)
{
    return cuStreamWaitValue64_v2(stream, address, value, flags);
}

CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags)
{
    return write_value(stream, address, value, flags, CU_STREAM_MEM_OP_WRITE_VALUE_32);
}

CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags)
{
    return cuStreamWriteValue32_v2(stream, address, value, flags);
}

CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags)
{
    return write_value(stream, address, value, flags, CU_STREAM_MEM_OP_WRITE_VALUE_64);
}

CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags)
{
    return cuStreamWriteValue64_v2(stream, address, value, flags);
}
