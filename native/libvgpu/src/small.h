// Linear memory of up to 1 MiB shares blocks of 2 MiB.  The driver holds a block as long as anything in it lives, however little,
// and never lays an allocation across two, so a slice is charged for blocks and not for what was asked: 700 KiB at a time would
// otherwise pass a limit by half.  Which block an allocation lies in is seen from its address, once it is there.
// Owns: how many live allocations each block has.  Knows nothing of ledger and driver.
#ifndef SMALL_H
#define SMALL_H

#include <stdbool.h>
#include <stdint.h>

#define SMALL_LIMIT (UINT64_C(1) << 20) // up to here allocations share blocks
#define SMALL_BLOCK (UINT64_C(2) << 20)

// True: it is the first in its block.
bool small_arrived(int card, uint64_t address);

// True: it was the last in its block.
bool small_left(int card, uint64_t address);

// Whether a card has any block, in which there may be room.
bool small_any(int card);

void small_after_fork(void);

#endif
