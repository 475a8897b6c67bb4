// What a pool is made of; only pool*.c look inside.
#ifndef SIM_POOL_STATE_H
#define SIM_POOL_STATE_H

#include "pool.h"

enum chunk_state { CHUNK_FREE, CHUNK_TAKEN, CHUNK_RETURNING };

// The chunks of a segment lie in order and cover it; no two neighbours are free.
struct pool_chunk {
    struct pool_chunk *next;
    struct pool_segment *segment;
    uint64_t offset, bytes;
    enum chunk_state state;
    const struct stream *stream; // on which it is returning
    unsigned long long number;   // of that return
};

struct pool_segment {
    struct pool_segment *next;
    struct pool *pool;
    char *base;
    uint64_t bytes;
    struct pool_chunk *chunks;
};

struct pool {
    struct pool *next;
    unsigned card;
    uint32_t peers; // cards that may reach it, bit by bit
    bool is_default;
    bool destroyed; // ends with its last allocation
    CUmemPoolProps props;
    int reuse[3]; // CU_MEMPOOL_ATTR_REUSE_*
    uint64_t threshold;
    uint64_t reserved, reserved_high, used, used_high; // bytes
    struct pool_segment *segments;
};

extern struct pool *pools;

// Release whole unused segments while more than `keep` is reserved; whether there were any.
bool pool_release_unused(struct pool *pool, uint64_t keep);
// Free the pools that were destroyed and hold nothing any more.
void pools_sweep(void);

#endif
