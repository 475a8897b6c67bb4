// The core share: the gate before every launch.
//
// A launch takes its estimated time from its stream's part of the process's permit and goes; there is no lock, no
// clock, and nothing that threads with streams of their own write in common on that path.  Whoever finds the part used
// up takes another; whoever finds the permit used up closes the segment and brings a new one for all (permit.h).
// Without a core share it is one load.
//
// * The slice owns the share, not the process: what its processes use is added up in the turns page.
// * A launch is never held for ever: own work that doesn't end when it should lets another launch through (it may be
//   what that work waits for), a neighbour's work holds back for TURN_BLOCKED_NS at most. So collectives between cards
//   go on.
// * Inside a capture nothing is done.
#ifndef SHARE_H
#define SHARE_H

#include <stdbool.h>
#include <stdint.h>

#include "entry_tables.h"
#include "hot.h"

struct lane;

enum share_mode {
    SHARE_UNKNOWN = 0,
    SHARE_OFF, // no card of the slice has a core share
    SHARE_ON,
};

struct share_ticket {
    struct lane *lane; // NULL: nothing is left to do
    bool close, probe;
    uint64_t began_ns; // the card waits since then
};

struct share_ticket share_enter_on(const void *what, uint64_t size, CUstream stream, bool per_thread);
void share_leave_slowly(const struct share_ticket *ticket);

// Whether no card of the slice has a core share, as far as is known yet.
static inline bool share_is_off(void)
{
    return __builtin_expect(__atomic_load_n((int *)&hot.share_mode, __ATOMIC_RELAXED) == SHARE_OFF, 1);
}

static inline bool share_is_on(void)
{
    return __builtin_expect(__atomic_load_n((int *)&hot.share_mode, __ATOMIC_RELAXED) == SHARE_ON, 0);
}

// Before starting work: `what` with `size` tells work of different cost apart.
static inline struct share_ticket share_enter(const void *what, uint64_t size, CUstream stream, bool per_thread)
{
    if (share_is_off())
        return (struct share_ticket){0};
    return share_enter_on(what, size, stream, per_thread);
}

// Amounts that cost about the same: a fifth apart.
static inline uint64_t share_size(uint64_t amount)
{
    unsigned bits = amount ? 64 - (unsigned)__builtin_clzll(amount) : 0;
    return bits <= 3 ? amount : (uint64_t)bits << 2 | (amount >> (bits - 3) & 3);
}

// After the driver's answer.
static inline void share_leave(const struct share_ticket *ticket)
{
    if (__builtin_expect(ticket->lane != NULL, 0))
        share_leave_slowly(ticket);
}

// Around a call that waits for a stream; with `all` for all of the current context's.
struct share_wait {
    struct lane *lane;
    uint64_t open; // of the lane
    bool all, on;
};

// After a call that waits for an event: some of the work has ended.
void share_looked_slowly(void);

static inline void share_looked(void)
{
    if (share_is_on())
        share_looked_slowly();
}

// The stream is about to be destroyed.
void share_forget(CUstream stream);

struct share_wait share_wait_slowly(CUstream stream, bool per_thread, bool all);
void share_waited_slowly(const struct share_wait *wait, CUresult result);

static inline struct share_wait share_wait(CUstream stream, bool per_thread, bool all)
{
    if (!share_is_on())
        return (struct share_wait){0};
    return share_wait_slowly(stream, per_thread, all);
}

static inline CUresult share_waited(const struct share_wait *wait, CUresult result)
{
    if (__builtin_expect(wait->on, 0))
        share_waited_slowly(wait, result);
    return result;
}

void share_after_fork(void);

#endif
