#include "pool.h"
#include "pool_state.h"
#include "stream.h"

#include <string.h>

#define STEP (32 * MIB)
#define UNIT 512u

static unsigned long long next_number = 1;

static struct pool_chunk *new_chunk(struct pool_segment *segment, uint64_t offset, uint64_t bytes)
{
    struct pool_chunk *chunk = calloc(1, sizeof *chunk);
    if (chunk)
        *chunk = (struct pool_chunk){.segment = segment, .offset = offset, .bytes = bytes};
    return chunk;
}

static struct pool_segment *grow(struct pool *pool, uint64_t bytes)
{
    bytes = round_up(bytes, STEP);
    if (pool->props.maxSize && pool->reserved + bytes > pool->props.maxSize)
        return NULL;
    if (!memory_take(pool->card, bytes, SIM_SHOWN))
        return NULL;
    struct pool_segment *segment = calloc(1, sizeof *segment);
    struct pool_chunk *whole = segment ? new_chunk(segment, 0, bytes) : NULL;
    char *base = whole ? region_map(bytes) : NULL;
    if (!base) {
        free(whole);
        free(segment);
        memory_give(pool->card, bytes, SIM_SHOWN);
        return NULL;
    }
    *segment = (struct pool_segment){pool->segments, pool, base, bytes, whole};
    pool->segments = segment;
    pool->reserved += bytes;
    if (pool->reserved > pool->reserved_high)
        pool->reserved_high = pool->reserved;
    return segment;
}

static bool fits(const struct pool_chunk *chunk, uint64_t bytes, const struct stream *stream)
{
    if (chunk->bytes < bytes || chunk->state == CHUNK_TAKEN)
        return false;
    return chunk->state == CHUNK_FREE || chunk->stream == stream;
}

static struct pool_chunk *find(struct pool *pool, uint64_t bytes, const struct stream *stream)
{
    for (struct pool_segment *segment = pool->segments; segment; segment = segment->next)
        for (struct pool_chunk *chunk = segment->chunks; chunk; chunk = chunk->next)
            if (fits(chunk, bytes, stream))
                return chunk;
    return NULL;
}

// Keep `bytes` of the chunk; the rest stays what it was.
static bool split(struct pool_chunk *chunk, uint64_t bytes)
{
    if (chunk->bytes == bytes)
        return true;
    struct pool_chunk *rest = new_chunk(chunk->segment, chunk->offset + bytes, chunk->bytes - bytes);
    if (!rest)
        return false;
    rest->state = chunk->state;
    rest->stream = chunk->stream;
    rest->number = chunk->number;
    rest->next = chunk->next;
    chunk->next = rest;
    chunk->bytes = bytes;
    return true;
}

CUresult pool_allocate(struct pool *pool, size_t size, struct stream *stream, struct allocation **out)
{
    uint64_t bytes = round_up(size, UNIT);
    if (size == 0 || bytes < size)
        return CUDA_ERROR_INVALID_VALUE;
    struct pool_chunk *chunk = find(pool, bytes, stream);
    if (!chunk && grow(pool, bytes))
        chunk = find(pool, bytes, stream);
    if (!chunk || !split(chunk, bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct allocation *allocation =
        allocation_add((CUdeviceptr)(chunk->segment->base + chunk->offset), size, ALLOCATION_POOL);
    if (!allocation)
        return CUDA_ERROR_OUT_OF_MEMORY;
    allocation->card = pool->card;
    allocation->chunk = chunk;
    chunk->state = CHUNK_TAKEN;
    pool->used += bytes;
    if (pool->used > pool->used_high)
        pool->used_high = pool->used;
    *out = allocation;
    return CUDA_SUCCESS;
}

static void merge_free(struct pool_segment *segment)
{
    for (struct pool_chunk *chunk = segment->chunks; chunk; chunk = chunk->next) {
        while (chunk->state == CHUNK_FREE && chunk->next && chunk->next->state == CHUNK_FREE) {
            struct pool_chunk *eaten = chunk->next;
            chunk->bytes += eaten->bytes;
            chunk->next = eaten->next;
            free(eaten);
        }
    }
}

unsigned long long pool_free_in_order(struct allocation *allocation, struct stream *stream)
{
    struct pool_chunk *chunk = allocation->chunk;
    chunk->state = CHUNK_RETURNING;
    chunk->stream = stream;
    chunk->number = next_number++;
    chunk->segment->pool->used -= chunk->bytes;
    allocation_remove(allocation);
    return chunk->number;
}

void pool_returned(unsigned long long number)
{
    for (struct pool *pool = pools; pool; pool = pool->next) {
        for (struct pool_segment *segment = pool->segments; segment; segment = segment->next) {
            bool any = false;
            for (struct pool_chunk *chunk = segment->chunks; chunk; chunk = chunk->next) {
                if (chunk->state != CHUNK_RETURNING || chunk->number != number)
                    continue;
                chunk->state = CHUNK_FREE;
                any = true;
            }
            if (any)
                merge_free(segment);
        }
    }
}

void pool_free_now(struct allocation *allocation)
{
    pool_returned(pool_free_in_order(allocation, NULL));
}

static void release_segment(struct pool *pool, struct pool_segment **link)
{
    struct pool_segment *segment = *link;
    *link = segment->next;
    region_unmap(segment->base, segment->bytes);
    memory_give(pool->card, segment->bytes, SIM_SHOWN);
    pool->reserved -= segment->bytes;
    while (segment->chunks) {
        struct pool_chunk *chunk = segment->chunks;
        segment->chunks = chunk->next;
        free(chunk);
    }
    free(segment);
}

bool pool_release_unused(struct pool *pool, uint64_t keep)
{
    bool any = false;
    struct pool_segment **link = &pool->segments;
    while (*link && pool->reserved > keep) {
        const struct pool_chunk *first = (*link)->chunks;
        if (first->state == CHUNK_FREE && !first->next) {
            release_segment(pool, link);
            any = true;
        } else {
            link = &(*link)->next;
        }
    }
    return any;
}

void pools_settle(unsigned card)
{
    for (struct pool *pool = pools; pool; pool = pool->next)
        if (pool->card == card)
            pool_release_unused(pool, pool->threshold);
    pools_sweep();
}

bool pools_give_up(unsigned card)
{
    bool any = false;
    for (struct pool *pool = pools; pool; pool = pool->next)
        if (pool->card == card)
            any |= pool_release_unused(pool, 0);
    return any;
}

void pools_forget_stream(const struct stream *stream)
{
    for (struct pool *pool = pools; pool; pool = pool->next)
        for (struct pool_segment *segment = pool->segments; segment; segment = segment->next)
            for (struct pool_chunk *chunk = segment->chunks; chunk; chunk = chunk->next)
                if (chunk->stream == stream)
                    chunk->stream = NULL;
}

static void drop_allocation(struct allocation *allocation, void *card)
{
    if (allocation->kind == ALLOCATION_POOL && allocation->card == *(unsigned *)card)
        pool_free_now(allocation);
}

void pools_drop(unsigned card)
{
    allocation_each(drop_allocation, &card);
    pools_give_up(card);
    pools_sweep();
}
