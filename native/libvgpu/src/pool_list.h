// The list of pools, for pool.c, which owns it, and pool_request.c.
#ifndef POOL_LIST_H
#define POOL_LIST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "entry_tables.h"

struct pool {
    _Alignas(64) _Atomic(CUmemoryPool) handle; // NULL: free; all of a pool is in one line of the processor's cache
    _Atomic int card;                          // CARD_NONE: host memory, or another process's
    bool managed;                              // under the lock
    _Atomic uint64_t charged;
    _Atomic uint64_t changes; // of `charged`
    _Atomic uint64_t in_use;  // at most: what it was when it was last asked, and all that came since
};

void pool_list_lock(void);
void pool_list_unlock(void);

// NULL: unknown.  What is found may be destroyed at any time by the program, and be another pool then.
struct pool *pool_find(CUmemoryPool handle);

// With the lock held.  A pool that is new gets `card`; NULL: there is no room in the list.
struct pool *pool_remember(CUmemoryPool handle, int card);

// With the lock held.  Bring the charge to what the driver has reserved.
void pool_settle(struct pool *pool);

// One of the driver's figures, 0: it has none.
uint64_t pool_attribute(CUmemoryPool handle, CUmemPool_attribute which);

// A location as the program wrote it, to a card of the slice; host memory is CARD_NONE.
int pool_card_of_location(const CUmemLocation *location);

void pool_list_after_fork(void);

#endif
