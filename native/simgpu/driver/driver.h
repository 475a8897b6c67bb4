// What every file of the simulated libcuda shares: the way in and out of a call, and the table of live handles.
//
// One mutex guards all of the process's driver state.  A call is
//     CUresult result = enter(&context);  if (result) return result;  ...  return leave(result);
// Host callbacks run outside of it.
#ifndef SIM_DRIVER_H
#define SIM_DRIVER_H

#include "../core/state.h"

#include <cuda.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdatomic.h>
#include <stdlib.h>

#define SIM_CUDA_VERSION CUDA_VERSION

struct context;

// Initialised, not forked; with the mutex held afterwards only on CUDA_SUCCESS.
CUresult enter_driver(void);
// The same with a current context.  It is written to *context.
CUresult enter(struct context **context);
CUresult leave(CUresult result);
// enter_driver() without the mutex: for calls that touch nothing shared.
CUresult check_init(void);

extern pthread_mutex_t driver_mutex;

// Devices as CUDA_VISIBLE_DEVICES shows them.
int device_count(void);
bool device_card(CUdevice device, unsigned *card);

// Set while a _ptsz or _ptds twin calls its base: stream 0 is then the thread's own.
extern _Thread_local bool per_thread_default_stream;

enum handle {
    HANDLE_CONTEXT = 1,
    HANDLE_STREAM,
    HANDLE_EVENT,
    HANDLE_MODULE,
    HANDLE_FUNCTION,
    HANDLE_LIBRARY,
    HANDLE_KERNEL,
    HANDLE_LINK,
    HANDLE_POOL,
    HANDLE_PHYSICAL,
    HANDLE_ARRAY,
    HANDLE_MIPMAP,
    HANDLE_GRAPH,
    HANDLE_NODE,
    HANDLE_EXEC,
    HANDLE_USER_OBJECT,
    HANDLE_GREEN,
    HANDLE_MULTICAST,
    HANDLE_EXTERNAL,
};

void handle_add(const void *object, enum handle kind);
void handle_remove(const void *object);
bool handle_is(const void *object, enum handle kind);

static inline uint64_t round_up(uint64_t bytes, uint64_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

#endif
