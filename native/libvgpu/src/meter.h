// How much of a card this process uses, and how much of it is in flight.
//
// The measure is the card's own progress: from the moment when work is put on an idle card until the last mark is passed, time
// on the card is charged to the slice, divided among the processes that have work there at the same time.  Where the end
// wasn't seen when it came, because nobody looked, the estimates say how much of that time was work.
// Nobody looks but threads that launch, wait for their turn, or come back from a synchronisation: an idle process costs nothing.
// Owns: a struct meter a card, behind its lock; no driver call is made with it held.
#ifndef METER_H
#define METER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "hami_slice.h"
#include "lanes.h"
#include "ring.h"

struct meter {
    // Estimated card time that may still be launched without asking.
    _Alignas(64) _Atomic int64_t permit;

    _Alignas(64) atomic_flag lock;
    bool pending;         // this process has work on the card
    bool unknown;         // some of it has no estimate yet
    bool running;         // the hard cap let the last launch go
    bool unhurried;       // nobody to share with, nothing to hold to: estimates don't matter
    uint64_t polled_ns;   // up to here everything is charged
    uint64_t began_ns;    // when `pending` last became true
    uint64_t progress_ns; // when the card last passed a mark, or began
    uint64_t ended_ns;    // when `pending` last became false
    uint64_t left_ns;     // expected work in flight, at `polled_ns`
    uint64_t next_ns;     // until the card passes the next mark
    uint64_t expected_ns; // sum of the estimates of what isn't finished
    uint64_t fresh_until; // virtual
    uint64_t longest_ns;  // of one segment
    uint64_t free_since;  // nobody has had work on the card since, 0: somebody has
    uint64_t patience_ns; // with work that should have ended
    int64_t bias;         // what work takes, in 1/1024 of the estimates
    uint64_t span_estimated, span_taken;
    unsigned contexts;      // that shared the card when it was last looked at
    unsigned crowd;         // the most since the last mark
    struct segment settled; // what the program has waited for since then
    struct ring_view ring;
};

struct meter *meter_of(unsigned card);

bool meter_try_lock(struct meter *meter);
void meter_lock(struct meter *meter);
void meter_unlock(struct meter *meter);

// How well a look knows when the work ended, if it has.
enum meter_look {
    METER_GLANCE, // some time since the last look
    METER_WATCH,  // between the last look and now, which are close together
    METER_RETURN, // now: the program comes back from waiting for it
};

// With the lock held.  Bring everything up to date.
void meter_poll(struct meter *meter, unsigned card, uint64_t now, enum meter_look look);

// With the lock held.  Work is about to be put on the card.  True: on an idle one, as far as this process goes.
bool meter_begin(struct meter *meter, uint64_t now);

// Close the lane's segment: put a mark behind it.
void meter_close(struct lane *lane, bool probe);

// With the lock held.  The program has waited for what was open in the lane when `open_ns` was read, or for all of it.
void meter_settle(struct meter *meter, struct lane *lane, uint64_t open_ns, bool all);

void meter_after_fork(void);

#endif
