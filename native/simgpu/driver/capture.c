#include "capture.h"
#include "event.h"
#include "graph.h"

#include <string.h>

struct capture {
    struct capture *next;
    struct graph *graph;
    struct stream *origin;
    unsigned long long id;
    CUstreamCaptureMode mode;
    const void *thread;
    bool broken;
    bool into_given_graph; // cuStreamBeginCaptureToGraph: the graph isn't ours
};

static struct capture *captures;
static unsigned long long next_id = 1;
static _Thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
static _Thread_local char thread_mark;

static void set_tips(struct stream *stream, struct node *const *tips, size_t count)
{
    struct node **list = malloc((count + 1) * sizeof *list);
    if (!list)
        abort();
    if (count)
        memcpy(list, tips, count * sizeof *list);
    free(stream->tips);
    stream->tips = list;
    stream->tip_count = count;
}

static void add_tips(struct stream *stream, struct node *const *tips, size_t count)
{
    stream->tips = realloc(stream->tips, (stream->tip_count + count + 1) * sizeof *stream->tips);
    if (!stream->tips)
        abort();
    for (size_t i = 0; i < count; i++) {
        bool known = false;
        for (size_t j = 0; j < stream->tip_count; j++)
            known |= stream->tips[j] == tips[i];
        if (!known)
            stream->tips[stream->tip_count++] = tips[i];
    }
}

CUresult capture_break(struct stream *stream)
{
    stream->capture->broken = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult capture_add(struct stream *stream, struct work *work)
{
    if (stream->capture->broken) {
        work_drop(work);
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    struct work kept;
    bool copied = work_copy(&kept, work); // a node outlives what the caller's pointers point to
    work_drop(work);
    if (!copied)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct node *node;
    CUresult result = graph_add(stream->capture->graph, stream->tips, stream->tip_count, &kept, &node);
    if (result == CUDA_SUCCESS)
        set_tips(stream, &node, 1);
    return result;
}

CUresult capture_record(struct stream *stream, struct event *event)
{
    if (stream->capture->broken)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    event_set_record(event, NULL);
    event->tips = realloc(event->tips, (stream->tip_count + 1) * sizeof *event->tips);
    if (!event->tips)
        abort();
    if (stream->tip_count)
        memcpy(event->tips, stream->tips, stream->tip_count * sizeof *event->tips);
    event->tip_count = stream->tip_count;
    event->capture_id = stream->capture->id;
    return CUDA_SUCCESS;
}

static struct capture *by_id(unsigned long long id)
{
    for (struct capture *capture = captures; capture; capture = capture->next)
        if (capture->id == id)
            return capture;
    return NULL;
}

CUresult capture_wait(struct stream *stream, struct event *event)
{
    struct capture *capture = event->capture_id ? by_id(event->capture_id) : NULL;
    if (!capture) {
        // An event from outside of the capture, or of one that has ended.
        if (stream->capture)
            stream->capture->broken = true;
        return stream->capture ? CUDA_ERROR_STREAM_CAPTURE_ISOLATION : CUDA_ERROR_CAPTURED_EVENT;
    }
    if (stream->capture && stream->capture != capture) {
        stream->capture->broken = capture->broken = true;
        return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    if (capture->broken)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (stream_is_legacy(stream))
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    if (!stream->capture) {
        stream->capture = capture;
        set_tips(stream, event->tips, event->tip_count);
    } else {
        add_tips(stream, event->tips, event->tip_count);
    }
    return CUDA_SUCCESS;
}

CUresult capture_forbids(void)
{
    if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_SUCCESS;
    for (struct capture *capture = captures; capture; capture = capture->next) {
        bool mine = capture->thread == &thread_mark && capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
        bool global = thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL && capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
        if (mine || global) {
            capture->broken = true;
            return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    }
    return CUDA_SUCCESS;
}

CUresult capture_forbids_stream(struct stream *stream)
{
    if (!stream_is_legacy(stream))
        return CUDA_SUCCESS;
    for (struct stream *other = stream->context->streams; other; other = other->next) {
        if (other->capture && !(other->flags & CU_STREAM_NON_BLOCKING)) {
            other->capture->broken = true;
            return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
        }
    }
    return CUDA_SUCCESS;
}

bool capture_any(const struct context *context)
{
    for (struct stream *stream = context->streams; stream; stream = stream->next) {
        if (stream->capture) {
            stream->capture->broken = true;
            return true;
        }
    }
    return false;
}

static void leave_capture(struct capture *capture)
{
    for (struct context *context = context_list(); context; context = context->next) {
        for (struct stream *stream = context->streams; stream; stream = stream->next) {
            if (stream->capture == capture) {
                stream->capture = NULL;
                stream->tip_count = 0;
            }
        }
    }
}

static void end(struct capture *capture, bool keep_graph)
{
    leave_capture(capture);
    struct capture **link = &captures;
    while (*link != capture)
        link = &(*link)->next;
    *link = capture->next;
    if (!keep_graph && !capture->into_given_graph)
        graph_drop(capture->graph);
    free(capture);
}

void capture_forget(struct stream *stream)
{
    if (!stream->capture)
        return;
    if (stream->capture->origin == stream)
        end(stream->capture, false);
    else
        stream->capture->broken = true;
    stream->capture = NULL;
}

static CUresult begin(CUstream handle, CUstreamCaptureMode mode, CUgraph given, const CUgraphNode *tips, size_t count)
{
    struct context *context;
    struct stream *stream;
    CUresult result = enter_stream(handle, &context, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (stream_is_legacy(stream))
        return leave(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    if (mode < CU_STREAM_CAPTURE_MODE_GLOBAL || mode > CU_STREAM_CAPTURE_MODE_RELAXED || (count && !tips))
        return leave(CUDA_ERROR_INVALID_VALUE);
    if (stream->capture)
        return leave(CUDA_ERROR_ILLEGAL_STATE);
    for (size_t i = 0; i < count; i++)
        if (!node_of(tips[i]))
            return leave(CUDA_ERROR_INVALID_VALUE);
    struct capture *capture = calloc(1, sizeof *capture);
    if (!capture)
        return leave(CUDA_ERROR_OUT_OF_MEMORY);
    *capture = (struct capture){.next = captures,
                                .graph = given ? (struct graph *)given : graph_new(),
                                .origin = stream,
                                .id = next_id++,
                                .mode = mode,
                                .thread = &thread_mark,
                                .into_given_graph = given != NULL};
    captures = capture;
    stream->capture = capture;
    set_tips(stream, (struct node *const *)tips, count);
    return leave(CUDA_SUCCESS);
}

CUresult cuStreamBeginCapture_v2(CUstream handle, CUstreamCaptureMode mode)
{
    return begin(handle, mode, NULL, NULL, 0);
}

CUresult cuStreamBeginCapture(CUstream handle)
{
    return begin(handle, CU_STREAM_CAPTURE_MODE_GLOBAL, NULL, NULL, 0);
}

CUresult cuStreamBeginCaptureToGraph(CUstream handle, CUgraph graph, const CUgraphNode *tips,
                                     const CUgraphEdgeData *edges, size_t count, CUstreamCaptureMode mode)
{
    (void)edges;
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    bool live = graph_of(graph);
    leave(CUDA_SUCCESS);
    return live ? begin(handle, mode, graph, tips, count) : CUDA_ERROR_INVALID_VALUE;
}

// All that joined the capture has to lead back to its origin.
static bool all_joined(const struct capture *capture)
{
    const struct stream *origin = capture->origin;
    for (struct context *context = context_list(); context; context = context->next) {
        for (struct stream *stream = context->streams; stream; stream = stream->next) {
            if (stream->capture != capture || stream == origin)
                continue;
            for (size_t i = 0; i < stream->tip_count; i++) {
                bool joined = false;
                for (size_t j = 0; j < origin->tip_count && !joined; j++)
                    joined = stream->tips[i] == origin->tips[j] || node_precedes(stream->tips[i], origin->tips[j]);
                if (!joined)
                    return false;
            }
        }
    }
    return true;
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph *out)
{
    struct context *context;
    struct stream *stream;
    CUresult result = enter_stream(handle, &context, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    struct capture *capture = stream->capture;
    if (!out)
        return leave(CUDA_ERROR_INVALID_VALUE);
    if (!capture)
        return leave(CUDA_ERROR_ILLEGAL_STATE);
    if (capture->origin != stream)
        return leave(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    if (capture->thread != &thread_mark && capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED)
        return leave(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    struct graph *graph = capture->graph;
    if (capture->broken)
        result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    else if (!all_joined(capture))
        result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    end(capture, result == CUDA_SUCCESS);
    *out = result == CUDA_SUCCESS ? (CUgraph)graph : NULL;
    return leave(result);
}

static CUstreamCaptureStatus status_of(const struct stream *stream)
{
    if (!stream->capture)
        return CU_STREAM_CAPTURE_STATUS_NONE;
    return stream->capture->broken ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *status)
{
    struct context *context;
    struct stream *stream;
    CUresult result = enter_stream(handle, &context, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (!status)
        return leave(CUDA_ERROR_INVALID_VALUE);
    result = capture_forbids_stream(stream);
    if (result == CUDA_SUCCESS)
        *status = status_of(stream);
    return leave(result);
}

CUresult cuStreamGetCaptureInfo_v3(CUstream handle, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
                                   const CUgraphNode **tips, const CUgraphEdgeData **edges, size_t *count)
{
    struct context *context;
    struct stream *stream;
    CUresult result = enter_stream(handle, &context, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (!status)
        return leave(CUDA_ERROR_INVALID_VALUE);
    *status = status_of(stream);
    if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
        return leave(CUDA_SUCCESS);
    if (id)
        *id = stream->capture->id;
    if (graph)
        *graph = (CUgraph)stream->capture->graph;
    if (tips)
        *tips = (const CUgraphNode *)stream->tips;
    if (edges)
        *edges = NULL;
    if (count)
        *count = stream->tip_count;
    return leave(CUDA_SUCCESS);
}

CUresult cuStreamGetCaptureInfo_v2(CUstream handle, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
                                   const CUgraphNode **tips, size_t *count)
{
    return cuStreamGetCaptureInfo_v3(handle, status, id, graph, tips, NULL, count);
}

CUresult cuStreamGetCaptureInfo(CUstream handle, CUstreamCaptureStatus *status, cuuint64_t *id)
{
    return cuStreamGetCaptureInfo_v3(handle, status, id, NULL, NULL, NULL, NULL);
}

CUresult cuStreamUpdateCaptureDependencies_v2(CUstream handle, CUgraphNode *tips, const CUgraphEdgeData *edges,
                                              size_t count, unsigned int flags)
{
    (void)edges;
    struct context *context;
    struct stream *stream;
    CUresult result = enter_stream(handle, &context, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (status_of(stream) != CU_STREAM_CAPTURE_STATUS_ACTIVE)
        return leave(CUDA_ERROR_ILLEGAL_STATE);
    if ((count && !tips) || flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES)
        return leave(CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < count; i++)
        if (!node_of(tips[i]) || node_of(tips[i])->graph != stream->capture->graph)
            return leave(CUDA_ERROR_INVALID_VALUE);
    if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES)
        set_tips(stream, (struct node *const *)tips, count);
    else
        add_tips(stream, (struct node *const *)tips, count);
    return leave(CUDA_SUCCESS);
}

CUresult cuStreamUpdateCaptureDependencies(CUstream handle, CUgraphNode *tips, size_t count, unsigned int flags)
{
    return cuStreamUpdateCaptureDependencies_v2(handle, tips, NULL, count, flags);
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    if (!mode || *mode < CU_STREAM_CAPTURE_MODE_GLOBAL || *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    CUstreamCaptureMode before = thread_mode;
    thread_mode = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}
