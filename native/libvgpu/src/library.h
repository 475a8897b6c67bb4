// Kernels of libraries that are not in VRAM yet: launching one would load it, unseen.
#ifndef LIBRARY_H
#define LIBRARY_H

#include <stdatomic.h>
#include <stdbool.h>

#include "entry_tables.h"
#include "hot.h"

CUresult library_load_kernel_slowly(CUfunction function, const char *call);

// Whether a kernel may have to be loaded before it is launched.
static inline bool library_waits(void)
{
    return __builtin_expect(atomic_load_explicit(&hot.library_waiting, memory_order_relaxed) != 0, 0);
}

// Before a launch: load a waiting kernel in our sight.  One load when there is none.
static inline CUresult library_load_kernel(CUfunction function, const char *call)
{
    return library_waits() ? library_load_kernel_slowly(function, call) : CUDA_SUCCESS;
}

// Whether a library, or a kernel's, was unloaded by us because it was too big.
bool library_is_dead(CUlibrary library);
bool library_is_dead_kernel(CUkernel kernel);

// A kernel that the program got a handle of.
void library_know_kernel(CUkernel kernel, CUlibrary library);

// A context was made or is gone: what is in VRAM in one isn't in another.
void library_context_made(void);
void library_context_gone(const void *context);

void library_after_fork(void);

#endif
