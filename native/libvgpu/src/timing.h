// What a kernel, graph or copy really takes of the card: now and then one is put between two events of ours.
// Owns: two events a card, in one context.  Called without the meter's lock: these are driver calls.
#ifndef TIMING_H
#define TIMING_H

#include <stdbool.h>

#include "lanes.h"

// Before the driver's call.  `idle`: the card has nothing else to do, so it waits while that call lasts.
// True: timing_end() is to be called right after it.
bool timing_begin(struct lane *lane, struct cost *cost, bool idle);
void timing_end(const struct lane *lane);

// Whenever there is time: learn from what has ended.
void timing_collect(unsigned card);

void timing_after_fork(void);

#endif
