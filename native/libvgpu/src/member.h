// This process as a member of its slice: its slot in the usage page, taken at the first use of a card.
// Owns: the process's only struct ledger.
#ifndef MEMBER_H
#define MEMBER_H

#include <stdbool.h>

#include "ledger.h"

// The ledger of this process; NULL after one line on stderr if the slice already has HAMI_MAX_PROCESSES of them.
struct ledger *member_ledger(void);

// Clear the slots of dead members, at most once in a few milliseconds unless `now`.  Returns how many were cleared.
unsigned member_reap(bool now);

void member_after_fork(void);

#endif
