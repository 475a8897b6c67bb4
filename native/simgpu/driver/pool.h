// Memory pools: what a pool has reserved on the card, and which pieces of it are in use.
//
// As measured: a pool reserves in steps of 32 MiB, keeps what is freed, and gives it back at the next synchronisation
// as far as it holds more than its release threshold.  The card is charged for what is reserved.
#ifndef SIM_POOL_H
#define SIM_POOL_H

#include "memory.h"

struct stream;
struct pool_chunk;

// A piece for work on that stream.
CUresult pool_allocate(struct pool *pool, size_t size, struct stream *stream, struct allocation **out);
// The pointer is gone at once.  The piece can be reused by the same stream at once, and by others after
// pool_returned() with the number that this gives.
unsigned long long pool_free_in_order(struct allocation *allocation, struct stream *stream);
void pool_returned(unsigned long long number);
void pool_free_now(struct allocation *allocation);

struct pool *pool_of(CUmemoryPool handle);
// The pool that cuMemAllocAsync takes from; NULL if memory is short.
struct pool *pool_current(CUdevice device, unsigned card);

// A synchronisation took place.
void pools_settle(unsigned card);
// Release all that is unused, whatever the thresholds; whether there was any.
bool pools_give_up(unsigned card);
// The last context on the card is gone, and its memory with it.
void pools_drop(unsigned card);
// No stream of that address will reuse anything.
void pools_forget_stream(const struct stream *stream);

#endif
