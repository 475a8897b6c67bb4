// A context: what it costs on the card, and what goes when it goes.
#ifndef SIM_CONTEXT_H
#define SIM_CONTEXT_H

#include "driver.h"

#define LIMIT_COUNT 16

struct stream;

struct context {
    struct context *next;
    CUdevice device;
    unsigned card;
    unsigned flags, api_version;
    uint32_t peers; // cards whose memory it may reach, bit by bit
    unsigned long long id;
    bool primary;
    unsigned retains;        // of a primary context; it lives while there are any
    uint64_t overhead;       // bytes taken for the context itself
    uint64_t stack_overhead; // bytes taken for a stack beyond the default
    uint64_t heap;           // bytes taken for the kernels' malloc, 0: no kernel that uses it has come
    size_t limits[LIMIT_COUNT];
    CUfunc_cache cache_config;
    CUsharedconfig shared_config;
    struct stream *streams; // legacy and per-thread ones too
    struct stream *legacy;
    unsigned unfinished; // pieces of work not yet performed
};

// The calling thread's context; NULL if there is none.  enter() tells a destroyed one from none.
struct context *context_current(void);
bool context_current_is_destroyed(void);
struct context *context_list(void);
struct context *context_of(CUcontext handle); // NULL if it is not live

// Wait until all work of the context is finished.
void context_drain(struct context *context);
// A launch waits while so much is queued already, as on a real card.  Not where time is moved by hand: nobody would move it.
#define CONTEXT_QUEUE 1024
void context_make_room(struct context *context);

// The context of a green one, in a device whose primary context is live; what was allocated in it is the primary one's after.
CUresult context_start_green(CUdevice device, struct context **out);
void context_stop_green(struct context *context);

// limit.c
void limits_set_defaults(struct context *context);
// A kernel that calls malloc is launched: the first one brings the heap.  False: no room.
bool limits_take_heap(struct context *context);

#endif
