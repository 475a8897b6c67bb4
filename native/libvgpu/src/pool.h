// Memory pools: what the driver reserves for them is charged, not what the program has cut out of it.
#ifndef POOL_H
#define POOL_H

#include <stdatomic.h>
#include <stdbool.h>

#include "entry_tables.h"

// Read every pool of a card, with CARD_NONE of all cards, again: pools shrink by themselves when the program synchronises.
void pool_refresh(int card);

// Give back what the pools of a card only cache, as the driver does when memory runs out.
void pool_trim(int card);

// After the program waited for the card: what was freed in stream order may have left the pools, and the slice's other processes
// would be refused for it.  One load if nothing was freed.
extern _Atomic bool pool_freed;
void pool_settle_all(void);
static inline void pool_synchronised(void)
{
    if (__builtin_expect(atomic_load_explicit(&pool_freed, memory_order_relaxed), 0))
        pool_settle_all();
}

// The same around the answer of a call that waits.
static inline CUresult pool_waited(CUresult result)
{
    pool_synchronised();
    return result;
}

// Which pool a device allocates from may be another one from now on.
void pool_forget_current(void);

// A stream goes: its handle may come again on another device.
void pool_forget_streams(void);

void pool_after_fork(void);

#endif
