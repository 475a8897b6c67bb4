// The permit: card time that a process may launch without asking.  Whoever finds it used up asks the rules (turns.c),
// waits if they say so, and brings a new one for all; each lane takes its part of it.
#ifndef PERMIT_H
#define PERMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "lanes.h"
#include "meter.h"
#include "turns.h"

// One more part of what is left for the lane, enough for a launch of that cost. False: nothing is left.
bool permit_take(struct meter *meter, struct lane *lane, uint64_t cost);

// Wait until there is a part for a launch of that cost.
void permit_bring(struct meter *meter, unsigned card, struct lane *lane, uint64_t cost);

// With the meter locked.  Tell the neighbours where this process stands, and when its work is expected to end.
void permit_tell(struct meter *meter, unsigned card, const struct turn_answer *answer, uint64_t ends, uint64_t now);

#endif
