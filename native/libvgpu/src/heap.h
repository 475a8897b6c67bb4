// The heap of the kernels' own malloc: cuCtxSetLimit only promises it, and the driver takes it when a kernel that uses it comes,
// in a module load or a launch.  The promise is charged at the call, where it can be refused; when a look at the driver's figure
// shows that the process has grown by that much, the promise is off, since the overhead holds it from then on.
// Smaller parts that grow at the same time are overhead anyway; what can deceive us is static data as large as the promise.
// Owns: the promises by context.  A pending one is in `held`, and hidden from the figure.
#ifndef HEAP_H
#define HEAP_H

#include <stddef.h>
#include <stdint.h>

#include "entry_tables.h"

// cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE) of the current context.
CUresult heap_set_limit(size_t value, const char *call);

// The driver took `grown` more bytes for this process.  Returns how much of `held` stands for them and must come off; it is no
// longer hidden.  Called by footprint.c, one thread at a time.
uint64_t heap_arrived(int card, uint64_t grown);

// A context is gone, and its promise with it.
void heap_forget(CUcontext context);

void heap_after_fork(void);

#endif
