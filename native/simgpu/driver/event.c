#include "event.h"
#include "capture.h"
#include "pool.h"
#include "stream.h"

#include <string.h>

struct event *event_of(CUevent handle)
{
    return handle_is(handle, HANDLE_EVENT) ? (struct event *)handle : NULL;
}

void event_set_record(struct event *event, struct op *op)
{
    op_release(event->record);
    event->record = op_hold(op);
    event->capture_id = 0;
}

CUresult cuEventCreate(CUevent *out, unsigned int flags)
{
    struct context *context;
    CUresult result = enter(&context);
    if (result != CUDA_SUCCESS)
        return result;
    const unsigned known = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
    if (!out || (flags & ~known) || ((flags & CU_EVENT_INTERPROCESS) && !(flags & CU_EVENT_DISABLE_TIMING)))
        return leave(CUDA_ERROR_INVALID_VALUE);
    struct event *event = calloc(1, sizeof *event);
    if (!event)
        return leave(CUDA_ERROR_OUT_OF_MEMORY);
    event->card = context->card;
    event->flags = flags;
    handle_add(event, HANDLE_EVENT);
    *out = (CUevent)event;
    return leave(CUDA_SUCCESS);
}

CUresult cuEventDestroy_v2(CUevent handle)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    struct event *event = event_of(handle);
    if (!event)
        return leave(CUDA_ERROR_INVALID_HANDLE);
    handle_remove(event);
    op_release(event->record);
    free(event->tips);
    free(event);
    return leave(CUDA_SUCCESS);
}

CUresult cuEventDestroy(CUevent handle)
{
    return cuEventDestroy_v2(handle);
}

static CUresult record(struct event *event, struct stream *stream)
{
    CUresult result = capture_forbids_stream(stream);
    if (result != CUDA_SUCCESS)
        return result;
    struct work work = {.type = CU_GRAPH_NODE_TYPE_EMPTY, .context = stream->context};
    struct op *op = stream_op(stream, &work);
    event_set_record(event, op);
    stream_set_tail(stream, op);
    op_start(op);
    op_release(op);
    return CUDA_SUCCESS;
}

CUresult cuEventRecordWithFlags(CUevent handle, CUstream stream_handle, unsigned int flags)
{
    struct context *context;
    struct stream *stream;
    CUresult result = enter_stream(stream_handle, &context, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    struct event *event = event_of(handle);
    if (!event)
        return leave(CUDA_ERROR_INVALID_HANDLE);
    if (flags & ~CU_EVENT_RECORD_EXTERNAL)
        return leave(CUDA_ERROR_INVALID_VALUE);
    if (stream->capture && (flags & CU_EVENT_RECORD_EXTERNAL)) {
        struct work work = {.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD, .context = stream->context, .event = event};
        return leave(capture_add(stream, &work));
    }
    if (stream->capture)
        return leave(capture_record(stream, event));
    return leave(record(event, stream));
}

CUresult cuEventRecord(CUevent handle, CUstream stream)
{
    return cuEventRecordWithFlags(handle, stream, 0);
}

CUresult cuCtxRecordEvent(CUcontext context_handle, CUevent handle)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    struct context *context = context_of(context_handle);
    struct event *event = event_of(handle);
    if (!context || !event)
        return leave(CUDA_ERROR_INVALID_HANDLE);
    struct work work = {.type = CU_GRAPH_NODE_TYPE_EMPTY, .context = context};
    struct op *op = op_new(&work);
    if (!op)
        return leave(CUDA_ERROR_OUT_OF_MEMORY);
    for (struct stream *stream = context->streams; stream; stream = stream->next)
        op_after(op, stream->tail);
    event_set_record(event, op);
    op_start(op);
    op_release(op);
    return leave(CUDA_SUCCESS);
}

CUresult cuEventQuery(CUevent handle)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    struct event *event = event_of(handle);
    if (!event)
        return leave(CUDA_ERROR_INVALID_HANDLE);
    if (event->capture_id)
        return leave(CUDA_ERROR_CAPTURED_EVENT);
    return leave(op_finished(event->record) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY);
}

CUresult cuEventSynchronize(CUevent handle)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    struct event *event = event_of(handle);
    if (!event)
        return leave(CUDA_ERROR_INVALID_HANDLE);
    if (event->capture_id)
        return leave(CUDA_ERROR_CAPTURED_EVENT);
    unsigned card = event->card; // the event may be destroyed meanwhile
    op_wait(event->record);
    pools_settle(card);
    return leave(CUDA_SUCCESS);
}

CUresult cuEventElapsedTime_v2(float *milliseconds, CUevent from_handle, CUevent to_handle)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    struct event *from = event_of(from_handle), *to = event_of(to_handle);
    if (!milliseconds)
        return leave(CUDA_ERROR_INVALID_VALUE);
    if (!from || !to || !from->record || !to->record || ((from->flags | to->flags) & CU_EVENT_DISABLE_TIMING))
        return leave(CUDA_ERROR_INVALID_HANDLE);
    if (!op_finished(from->record) || !op_finished(to->record))
        return leave(CUDA_ERROR_NOT_READY);
    *milliseconds = (float)((double)((int64_t)(to->record->time - from->record->time)) / 1e6);
    return leave(CUDA_SUCCESS);
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent from, CUevent to)
{
    return cuEventElapsedTime_v2(milliseconds, from, to);
}

static CUresult wait(struct stream *stream, struct event *event)
{
    if (!event->record)
        return CUDA_SUCCESS;
    struct work work = {.type = CU_GRAPH_NODE_TYPE_EMPTY, .context = stream->context};
    struct op *op = stream_op(stream, &work);
    op_after(op, event->record);
    stream_set_tail(stream, op);
    op_start(op);
    op_release(op);
    return CUDA_SUCCESS;
}

CUresult cuStreamWaitEvent(CUstream stream_handle, CUevent handle, unsigned int flags)
{
    struct context *context;
    struct stream *stream;
    CUresult result = enter_stream(stream_handle, &context, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    struct event *event = event_of(handle);
    if (!event)
        return leave(CUDA_ERROR_INVALID_HANDLE);
    if (flags & ~CU_EVENT_WAIT_EXTERNAL)
        return leave(CUDA_ERROR_INVALID_VALUE);
    if (stream->capture && (flags & CU_EVENT_WAIT_EXTERNAL)) {
        struct work work = {.type = CU_GRAPH_NODE_TYPE_WAIT_EVENT, .context = stream->context, .event = event};
        return leave(capture_add(stream, &work));
    }
    if (stream->capture || event->capture_id)
        return leave(capture_wait(stream, event));
    return leave(wait(stream, event));
}

CUresult cuCtxWaitEvent(CUcontext context_handle, CUevent handle)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    struct context *context = context_of(context_handle);
    struct event *event = event_of(handle);
    if (!context || !event)
        return leave(CUDA_ERROR_INVALID_HANDLE);
    for (struct stream *stream = context->streams; stream; stream = stream->next)
        wait(stream, event);
    return leave(CUDA_SUCCESS);
}
