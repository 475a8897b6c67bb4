// cuMemAlloc of up to 1 MiB: pieces of 512 bytes out of blocks of 2 MiB, as measured: the first piece of a block costs
// 2 MiB on the card, and a block goes back when its last piece is freed.
#include "context.h"
#include "memory.h"

#include <string.h>

#define PIECE  512u
#define PIECES (BLOCK_BYTES / PIECE)

struct small_block {
    struct small_block *next;
    struct context *context;
    char *base;
    unsigned used;       // pieces
    unsigned first_free; // none below it is free
    unsigned char taken[PIECES];
};

static struct small_block *blocks;

static struct small_block *new_block(struct context *context)
{
    if (!memory_take(context->card, BLOCK_BYTES, SIM_SHOWN))
        return NULL;
    struct small_block *block = calloc(1, sizeof *block);
    char *base = block ? region_map(BLOCK_BYTES) : NULL;
    if (!base) {
        free(block);
        memory_give(context->card, BLOCK_BYTES, SIM_SHOWN);
        return NULL;
    }
    block->context = context;
    block->base = base;
    struct small_block **end = &blocks; // oldest first, so that blocks fill up
    while (*end)
        end = &(*end)->next;
    *end = block;
    return block;
}

static void drop_block(struct small_block *block)
{
    struct small_block **link = &blocks;
    while (*link != block)
        link = &(*link)->next;
    *link = block->next;
    region_unmap(block->base, BLOCK_BYTES);
    memory_give(block->context->card, BLOCK_BYTES, SIM_SHOWN);
    free(block);
}

// The first run of so many free pieces, or PIECES.
static unsigned find_run(struct small_block *block, unsigned count)
{
    while (block->first_free < PIECES && block->taken[block->first_free])
        block->first_free++;
    unsigned run = 0;
    for (unsigned i = block->first_free; i < PIECES; i++) {
        run = block->taken[i] ? 0 : run + 1;
        if (run == count)
            return i + 1 - count;
    }
    return PIECES;
}

CUresult small_allocate(struct context *context, size_t size, struct allocation **out)
{
    unsigned count = (unsigned)((size + PIECE - 1) / PIECE), at = PIECES;
    struct small_block *block;
    for (block = blocks; block; block = block->next) {
        if (block->context != context || block->used + count > PIECES)
            continue;
        at = find_run(block, count);
        if (at < PIECES)
            break;
    }
    if (!block) {
        block = new_block(context);
        at = 0;
    }
    if (!block)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct allocation *allocation = allocation_add((CUdeviceptr)(block->base + at * PIECE), size, ALLOCATION_SMALL);
    if (!allocation)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memset(block->taken + at, 1, count);
    block->used += count;
    allocation->context = context;
    allocation->card = context->card;
    allocation->block = block;
    *out = allocation;
    return CUDA_SUCCESS;
}

void small_free(struct allocation *allocation)
{
    struct small_block *block = allocation->block;
    unsigned at = (unsigned)((char *)allocation->base - block->base) / PIECE;
    unsigned count = (unsigned)((allocation->size + PIECE - 1) / PIECE);
    memset(block->taken + at, 0, count);
    block->used -= count;
    if (at < block->first_free)
        block->first_free = at;
    allocation_remove(allocation);
    if (block->used == 0)
        drop_block(block);
}

void small_hand_over(struct context *from, struct context *to)
{
    for (struct small_block *block = blocks; block; block = block->next)
        if (block->context == from)
            block->context = to;
}
