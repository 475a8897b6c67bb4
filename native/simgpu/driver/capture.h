// Stream capture: what is given to a stream becomes nodes of a graph instead of running.
#ifndef SIM_CAPTURE_H
#define SIM_CAPTURE_H

#include "stream.h"

struct event;

// Add the work behind the stream's tips.  Takes over `work`.
CUresult capture_add(struct stream *stream, struct work *work);
CUresult capture_record(struct stream *stream, struct event *event);
CUresult capture_wait(struct stream *stream, struct event *event);
// A call that isn't possible in a capture was made on a capturing stream: the capture is void.  The error to give.
CUresult capture_break(struct stream *stream);
// CUDA_SUCCESS, or the error for a call (an allocation, a synchronous copy) that this thread may not make while it captures.
CUresult capture_forbids(void);
// The same for the legacy stream, while a stream that waits for it captures.
CUresult capture_forbids_stream(struct stream *stream);
bool capture_any(const struct context *context);
void capture_forget(struct stream *stream);

#endif
