// How much of a card this process uses, and how much of it is in flight.
//
// What was finished is charged at what its stamps say that the card took for it (stamps.h).  A program that is slow to
// launch leaves gaps between two stamps: no more of them than until its last launch, so that the estimates only have to
// say where between these two bounds the truth lies.  Time that is shared with other processes is treated alike.  Short
// work that the program waits for at once has no mark and no stamp, and is charged at its estimate.  Several streams at
// once are charged the time in which one of them had work.
// Until work is finished, the time in which it is on the card is charged in advance, so that everybody sees at once
// what goes on; the difference follows.
// Nobody looks but threads that launch, wait for their turn, or come back from a synchronisation: an idle process costs
// nothing.
// Owns: a struct meter a card, behind its lock; no driver call is made with it held.
#ifndef METER_H
#define METER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "hami_slice.h"
#include "lanes.h"
#include "ring.h"

#define METER_BIAS_ONE 1024

struct meter {
    // Estimated card time that lanes may still take without asking, and how much a lane takes at once.
    _Alignas(64) _Atomic int64_t permit;
    _Atomic int64_t part;

    // Hints for who launches, without the lock.
    _Alignas(64) _Atomic bool pending; // this process has work on the card
    _Atomic bool unhurried;            // nobody to share with, nothing to hold to: estimates don't matter
    _Atomic unsigned company;          // other processes with work on the card, when it was last looked at

    _Alignas(64) atomic_flag lock;
    bool unknown;         // some of the work on the card has no estimate yet
    bool running;         // the hard cap let the last launch go
    uint64_t polled_ns;   // up to here everything is charged
    uint64_t advance_ns;  // charged for what isn't finished
    uint64_t began_ns;    // when `pending` last became true
    uint64_t progress_ns; // when the card last passed a mark, or began
    uint64_t ended_ns;    // when `pending` last became false
    uint64_t several_ns;  // when several lanes were last seen at work
    uint64_t left_ns;     // expected work in flight, at `polled_ns`
    uint64_t next_ns;     // until the card passes the next mark
    uint64_t expected_ns; // sum of the estimates of what isn't finished
    uint64_t fresh_until; // virtual
    uint64_t longest_ns;  // of one segment
    uint64_t free_since;  // nobody has had work on the card since, 0: somebody has
    uint64_t queued_ns;   // since when it has been about to go, like others of the slice
    uint64_t patience_ns; // with work that should have ended
    int64_t bias;         // what work takes, in 1/METER_BIAS_ONE of the estimates
    uint64_t span_estimated, span_taken;
    unsigned contexts;      // that shared the card when it was last looked at
    unsigned crowd;         // the most since the last mark
    struct segment settled; // what the program has waited for since then
    struct ring_view ring;
};

// What estimates are taken for, as long as `bias` says that they are too high or too low.
static inline uint64_t meter_scaled(const struct meter *meter, uint64_t estimate)
{
    return estimate * (uint64_t)meter->bias / METER_BIAS_ONE;
}

struct meter *meter_of(unsigned card);

bool meter_try_lock(struct meter *meter);
void meter_lock(struct meter *meter);
void meter_unlock(struct meter *meter);

// With the lock held, and the stamps read.  Bring everything up to date. `watched`: the last look was only just before.
void meter_poll(struct meter *meter, unsigned card, uint64_t now, bool watched);

// With the lock held.  Work is about to be put on the card.
void meter_begin(struct meter *meter, uint64_t now);

// Close the lane's segment: put a stamp and a mark behind it.
void meter_close(struct lane *lane, bool probe);

// With the lock held.  The program has waited for what `open` says was open in the lane; with `all` for whatever is.
void meter_settle(struct meter *meter, struct lane *lane, uint64_t open, bool all);

void meter_after_fork(void);

#endif
