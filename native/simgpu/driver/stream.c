#include "stream.h"
#include "capture.h"
#include "pool.h"

#include <string.h>

static unsigned long long next_id = 1;
static _Thread_local char thread_mark; // its address tells threads apart

struct stream *stream_new(struct context *context, unsigned flags, int priority)
{
    struct stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        abort();
    *stream = (struct stream){.next = context->streams,
                              .context = context,
                              .flags = flags,
                              .priority = priority < STREAM_PRIORITY_GREATEST ? STREAM_PRIORITY_GREATEST
                                          : priority > STREAM_PRIORITY_LEAST  ? STREAM_PRIORITY_LEAST
                                                                              : priority,
                              .id = next_id++};
    context->streams = stream;
    handle_add(stream, HANDLE_STREAM);
    return stream;
}

static void drop(struct stream *stream)
{
    struct stream **link = &stream->context->streams;
    while (*link != stream)
        link = &(*link)->next;
    *link = stream->next;
    capture_forget(stream);
    pools_forget_stream(stream);
    handle_remove(stream);
    op_release(stream->tail);
    free(stream->tips);
    free(stream);
}

void streams_drop(struct context *context)
{
    while (context->streams)
        drop(context->streams);
    context->legacy = NULL;
}

static struct stream *thread_stream(struct context *context)
{
    for (struct stream *stream = context->streams; stream; stream = stream->next)
        if (stream->thread == &thread_mark)
            return stream;
    struct stream *stream = stream_new(context, CU_STREAM_DEFAULT, 0);
    stream->thread = &thread_mark;
    return stream;
}

struct stream *stream_of(CUstream handle, struct context *context)
{
    if (handle == CU_STREAM_PER_THREAD || (!handle && per_thread_default_stream))
        return thread_stream(context);
    if (!handle || handle == CU_STREAM_LEGACY)
        return context->legacy;
    return handle_is(handle, HANDLE_STREAM) ? (struct stream *)handle : NULL;
}

CUresult enter_stream(CUstream handle, struct context **context, struct stream **stream)
{
    CUresult result = enter(context);
    if (result != CUDA_SUCCESS)
        return result;
    *stream = stream_of(handle, *context);
    return *stream ? CUDA_SUCCESS : leave(CUDA_ERROR_INVALID_HANDLE);
}

static bool is_blocking(const struct stream *stream)
{
    return !(stream->flags & CU_STREAM_NON_BLOCKING);
}

struct op *stream_op(struct stream *stream, struct work *work)
{
    struct op *op = op_new(work);
    if (!op)
        abort();
    op_after(op, stream->tail);
    // The legacy stream waits for all blocking streams, and they for it.
    if (stream_is_legacy(stream)) {
        for (struct stream *other = stream->context->streams; other; other = other->next)
            if (other != stream && is_blocking(other))
                op_after(op, other->tail);
    } else if (is_blocking(stream)) {
        op_after(op, stream->context->legacy->tail);
    }
    return op;
}

void stream_set_tail(struct stream *stream, struct op *op)
{
    op_release(stream->tail);
    stream->tail = op_hold(op);
}

CUresult stream_submit(struct stream *stream, struct work *work)
{
    if (stream->capture)
        return capture_add(stream, work);
    CUresult result = capture_forbids_stream(stream);
    if (result != CUDA_SUCCESS) {
        work_drop(work);
        return result;
    }
    struct op *op = stream_op(stream, work);
    stream_set_tail(stream, op);
    op_start(op);
    op_release(op);
    return CUDA_SUCCESS;
}

CUresult stream_run(struct stream *stream, struct work *work)
{
    CUresult result = stream->capture ? capture_break(stream) : capture_forbids();
    if (result == CUDA_SUCCESS)
        result = capture_forbids_stream(stream);
    if (result != CUDA_SUCCESS) {
        work_drop(work);
        return result;
    }
    struct op *op = stream_op(stream, work);
    stream_set_tail(stream, op);
    op_start(op);
    op_wait(op);
    op_release(op);
    return CUDA_SUCCESS;
}

CUresult cuStreamCreateWithPriority(CUstream *out, unsigned int flags, int priority)
{
    struct context *context;
    CUresult result = enter(&context);
    if (result != CUDA_SUCCESS)
        return result;
    if (!out || (flags & ~CU_STREAM_NON_BLOCKING))
        return leave(CUDA_ERROR_INVALID_VALUE);
    *out = (CUstream)stream_new(context, flags, priority);
    return leave(CUDA_SUCCESS);
}

CUresult cuStreamCreate(CUstream *out, unsigned int flags)
{
    return cuStreamCreateWithPriority(out, flags, 0);
}

CUresult cuStreamDestroy_v2(CUstream handle)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    if (!handle_is(handle, HANDLE_STREAM))
        return leave(CUDA_ERROR_INVALID_HANDLE);
    struct stream *stream = (struct stream *)handle;
    if (stream_is_legacy(stream))
        return leave(CUDA_ERROR_INVALID_HANDLE);
    drop(stream); // its work goes on: the context counts it
    return leave(CUDA_SUCCESS);
}

CUresult cuStreamDestroy(CUstream handle)
{
    return cuStreamDestroy_v2(handle);
}

CUresult cuStreamQuery(CUstream handle)
{
    struct context *context;
    struct stream *stream;
    CUresult result = enter_stream(handle, &context, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (stream->capture)
        return leave(capture_break(stream));
    result = capture_forbids_stream(stream);
    if (result != CUDA_SUCCESS)
        return leave(result);
    return leave(op_finished(stream->tail) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY);
}

CUresult cuStreamSynchronize(CUstream handle)
{
    struct context *context;
    struct stream *stream;
    CUresult result = enter_stream(handle, &context, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (stream->capture)
        return leave(capture_break(stream));
    result = capture_forbids_stream(stream);
    if (result != CUDA_SUCCESS)
        return leave(result);
    unsigned card = stream->context->card;
    if (stream_is_legacy(stream)) {
        // Waiting for the legacy stream is waiting for all that it waits for.
        struct work nothing = {.type = CU_GRAPH_NODE_TYPE_EMPTY, .context = stream->context};
        stream_run(stream, &nothing);
    } else {
        op_wait(stream->tail);
    }
    pools_settle(card);
    return leave(CUDA_SUCCESS);
}

CUresult cuStreamGetPriority(CUstream handle, int *priority)
{
    struct context *context;
    struct stream *stream;
    CUresult result = enter_stream(handle, &context, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (!priority)
        return leave(CUDA_ERROR_INVALID_VALUE);
    *priority = stream->priority;
    return leave(CUDA_SUCCESS);
}

CUresult cuStreamGetFlags(CUstream handle, unsigned int *flags)
{
    struct context *context;
    struct stream *stream;
    CUresult result = enter_stream(handle, &context, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (!flags)
        return leave(CUDA_ERROR_INVALID_VALUE);
    *flags = stream->flags;
    return leave(CUDA_SUCCESS);
}

CUresult cuStreamGetId(CUstream handle, unsigned long long *id)
{
    struct context *context;
    struct stream *stream;
    CUresult result = enter_stream(handle, &context, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (!id)
        return leave(CUDA_ERROR_INVALID_VALUE);
    *id = stream->id;
    return leave(CUDA_SUCCESS);
}

CUresult cuStreamGetDevice(CUstream handle, CUdevice *device)
{
    struct context *context;
    struct stream *stream;
    CUresult result = enter_stream(handle, &context, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (!device)
        return leave(CUDA_ERROR_INVALID_VALUE);
    *device = stream->context->device;
    return leave(CUDA_SUCCESS);
}

CUresult cuStreamGetCtx_v2(CUstream handle, CUcontext *out, CUgreenCtx *green)
{
    struct context *context;
    struct stream *stream;
    CUresult result = enter_stream(handle, &context, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (!out)
        return leave(CUDA_ERROR_INVALID_VALUE);
    *out = (CUcontext)stream->context;
    if (green)
        *green = NULL;
    return leave(CUDA_SUCCESS);
}

CUresult cuStreamGetCtx(CUstream handle, CUcontext *out)
{
    return cuStreamGetCtx_v2(handle, out, NULL);
}

CUresult cuStreamAttachMemAsync(CUstream handle, CUdeviceptr pointer, size_t length, unsigned int flags)
{
    (void)length, (void)flags;
    struct context *context;
    struct stream *stream;
    CUresult result = enter_stream(handle, &context, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    return leave(allocation_at(pointer) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}
