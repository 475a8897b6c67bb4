// What the driver itself says this process holds on a card, and what of it nobody has charged yet.
//
// Contexts, modules, stacks, printf buffers and whatever slipped past have no size that can be known beforehand.  NVML's figure
// for our own process does, to the MiB, so   overhead = figure - (held - what the figure never shows).   It is measured after
// every call that takes such memory, before every refusal, and now and then between.
// Where NVML can't name this process (a PID namespace it doesn't know, MIG), the card's own use before and after the call is
// compared instead, and a neighbour's allocation at the same moment is mistaken for ours.
//
// Owns: the overhead words of our slot, and the count of operations in flight.
#ifndef FOOTPRINT_H
#define FOOTPRINT_H

#include <stdbool.h>
#include <stdint.h>

#include "entry_tables.h"

// Around every operation that changes `held` and what the driver holds: while one is under way, the figure and the ledger
// can't be compared exactly.
void footprint_enter(int card);
void footprint_leave(int card);

// Bytes of `held` that the figure never shows (managed memory) went up or down.
void footprint_hide(int card, int64_t bytes);

// Bring the overhead word up to date.
void footprint_refresh(int card);

// The same after a call that gave or took what no record tells, if it went well and there is a card.  Returns `result`.
CUresult footprint_looked(CUresult result, int card);

// The same, if the last time was long ago or something is known to have slipped.  Cheap otherwise.  A process that has not
// asked NVML yet doesn't begin before half of the slice is used: starting NVML takes longer than all else here.
void footprint_refresh_sometimes(int card);

// The next look can't wait: memory moved in a way that no charge followed.
void footprint_doubt(int card);

// After the program waited for the card: look where something was in doubt.
void footprint_look_where_doubted(void);

// A call whose cost is known only afterwards.
struct measure {
    int card;
    uint64_t before; // bytes in use on the whole card
};
void footprint_before(struct measure *measure, int card);

// Returns the bytes it took where only differences can be seen, to be given back by footprint_forget; else 0.  Where the figure
// names this process, footprint_forget does nothing: the next look shows it.
uint64_t footprint_after(const struct measure *measure);
void footprint_forget(int card, uint64_t bytes);

// `reserved` bytes of `held` stand for what only the figure knows from now on, a context that has come, say: it is overhead.
void footprint_take_over(int card, uint64_t reserved);

// The same for the first one of the slice: measured, whatever was reserved.  Returns what a context costs, never 0.
uint64_t footprint_learn_context(const struct measure *measure, uint64_t reserved);

// True if what came of this process unforeseen took the slice over its limit, and nothing has brought it back since.
bool footprint_exceeded(int card);

// True once NVML's figure names this process.
bool footprint_is_exact(int card);

// The driver's figure of any process, if it names it.
bool footprint_figure_of(int card, uint32_t pid, uint64_t *bytes);

void footprint_after_fork(void);

#endif
