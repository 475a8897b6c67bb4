// Streams: what orders the work that is given to them.
#ifndef SIM_STREAM_H
#define SIM_STREAM_H

#include "context.h"
#include "op.h"

#define STREAM_PRIORITY_LEAST    0
#define STREAM_PRIORITY_GREATEST (-5)

struct capture;
struct node;

struct stream {
    struct stream *next; // of the same context
    struct context *context;
    unsigned flags;
    int priority;
    unsigned long long id;
    const void *thread;      // of a per-thread default stream: whose
    struct op *tail;         // the last operation given, NULL: finished
    struct capture *capture; // while it captures
    struct node **tips;      // the nodes that the next captured one follows
    size_t tip_count;
};

struct stream *stream_new(struct context *context, unsigned flags, int priority);
void streams_drop(struct context *context);
// The stream of a handle, also of 0, CU_STREAM_LEGACY and CU_STREAM_PER_THREAD; NULL if it is none.
struct stream *stream_of(CUstream handle, struct context *context);
static inline bool stream_is_legacy(const struct stream *stream)
{
    return stream == stream->context->legacy;
}

// Give work to the stream: it runs in order, or becomes a node if the stream captures.  Takes over `work`.
CUresult stream_submit(struct stream *stream, struct work *work);
// The same, and wait; not possible in a capture.
CUresult stream_run(struct stream *stream, struct work *work);
// An operation that nothing has been started of yet, behind all that the stream has to wait for; then the stream's tail.
struct op *stream_op(struct stream *stream, struct work *work);
void stream_set_tail(struct stream *stream, struct op *op);

// enter(), and the stream.
CUresult enter_stream(CUstream handle, struct context **context, struct stream **stream);

#endif
