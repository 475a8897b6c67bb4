// What a launch that is waited for costs beyond the card's work: the call, the start, the way back.  A program that launches
// and synchronises in a loop would pay for that time as if the card had worked.
//
// Now and then such an episode is put between two events of ours, whose difference is what the card took.
// Owns: two events a card, in one context.  Called without the meter's lock: these are driver calls.
#ifndef OVERHEAD_H
#define OVERHEAD_H

#include <stdbool.h>
#include <stdint.h>

#include "lanes.h"

// Work is about to be put on an idle card.  True: overhead_started() is to be called right after the driver's call.
bool overhead_begin(struct lane *lane);

// While that call lasted, the card was past the first event and idle still.
void overhead_started(const struct lane *lane);

// The program is about to wait for the lane, or for all of its context.
void overhead_end(const struct lane *lane, bool all);

// It has waited, until now.
void overhead_learn(const struct lane *lane, uint64_t now);

// What is to be taken off such an episode; at first a guess.
uint64_t overhead_ns(unsigned card);

void overhead_after_fork(void);

#endif
