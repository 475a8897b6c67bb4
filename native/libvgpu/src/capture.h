// Stream capture, and how not to disturb it.
#ifndef CAPTURE_H
#define CAPTURE_H

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "entry_tables.h"
#include "hot.h"

bool capture_ask(CUstream stream, bool per_thread);

// Whether a stream is being captured: then a call becomes a node of a graph and takes nothing yet.
// `per_thread`: NULL means the thread's own default stream.  True also where the driver doesn't say.
static inline bool capture_active(CUstream stream, bool per_thread)
{
    return __builtin_expect(atomic_load_explicit(&hot.capture_begun, memory_order_relaxed), 0) &&
           capture_ask(stream, per_thread);
}

CUstreamCaptureMode capture_exchange(CUstreamCaptureMode mode);

#define CAPTURE_NEVER ((CUstreamCaptureMode)UINT_MAX)

// While any thread captures, the driver takes calls like cuMemPoolGetAttribute for a mistake and spoils the capture.  Calls of
// our own, which the program knows nothing of, stand between these two.  Before the process's first capture there is nothing to do:
// the driver asks as a call begins, and that capture begins a microsecond after it is said to.
static inline CUstreamCaptureMode capture_relax(void)
{
    if (__builtin_expect(!atomic_load_explicit(&hot.capture_begun, memory_order_relaxed), 1))
        return CAPTURE_NEVER;
    return capture_exchange(CU_STREAM_CAPTURE_MODE_RELAXED);
}

static inline void capture_restore(CUstreamCaptureMode mode)
{
    if (__builtin_expect(mode != CAPTURE_NEVER, 0))
        capture_exchange(mode);
}

#endif
