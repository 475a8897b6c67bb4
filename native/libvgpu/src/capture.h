// Stream capture, and how not to disturb it.
#ifndef CAPTURE_H
#define CAPTURE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "entry_tables.h"

// Whether any capture was ever begun in this process.
extern _Atomic bool capture_begun;

bool capture_ask(CUstream stream, bool per_thread);

// Whether a stream is being captured: then a call becomes a node of a graph and takes nothing yet.
// `per_thread`: NULL means the thread's own default stream.  True also where the driver doesn't say.
static inline bool capture_active(CUstream stream, bool per_thread)
{
    return __builtin_expect(atomic_load_explicit(&capture_begun, memory_order_relaxed), 0) &&
           capture_ask(stream, per_thread);
}

// While any thread captures, the driver takes calls like cuMemPoolGetAttribute for a mistake and spoils the capture.  Calls of
// our own, which the program knows nothing of, stand between these two.
CUstreamCaptureMode capture_relax(void);
void capture_restore(CUstreamCaptureMode mode);

#endif
