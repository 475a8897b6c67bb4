#include "small.h"

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>

#include "hami_slice.h"

#define FIRST_SIZE 64 // a power of two

// Open addressing with linear probing; count 0 marks an empty place.  At most half full.
struct block {
    uint64_t number; // of the block, 0 for addresses that no driver gives out
    uint32_t count;  // live allocations
};

static struct table {
    pthread_mutex_t lock;
    struct block *blocks;
    size_t size, used;
} tables[HAMI_MAX_CARDS] = {[0 ... HAMI_MAX_CARDS - 1] = {.lock = PTHREAD_MUTEX_INITIALIZER}};

static size_t home_of(uint64_t number, size_t size)
{
    return (size_t)(number * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (size - 1);
}

// Where a block is, or would be.
static struct block *place_of(struct block *blocks, size_t size, uint64_t number)
{
    size_t i = home_of(number, size);
    while (blocks[i].count && blocks[i].number != number)
        i = (i + 1) & (size - 1);
    return &blocks[i];
}

static bool grow(struct table *table)
{
    size_t size = table->size ? table->size * 2 : FIRST_SIZE;
    struct block *blocks = calloc(size, sizeof *blocks);
    if (!blocks)
        return false;
    for (size_t i = 0; i < table->size; i++)
        if (table->blocks[i].count)
            *place_of(blocks, size, table->blocks[i].number) = table->blocks[i];
    free(table->blocks);
    table->blocks = blocks;
    table->size = size;
    return true;
}

// Close the gap, so that every probe still ends at its block.
static void remove_block(struct table *table, struct block *block)
{
    size_t mask = table->size - 1, gap = (size_t)(block - table->blocks);
    for (size_t i = (gap + 1) & mask; table->blocks[i].count; i = (i + 1) & mask) {
        size_t home = home_of(table->blocks[i].number, table->size);
        if (((i - home) & mask) >= ((i - gap) & mask)) {
            table->blocks[gap] = table->blocks[i];
            gap = i;
        }
    }
    table->blocks[gap].count = 0;
    table->used--;
}

bool small_arrived(int card, uint64_t address)
{
    struct table *table = &tables[card];
    bool first = true; // without host memory each counts as a block of its own
    pthread_mutex_lock(&table->lock);
    if (table->used * 2 < table->size || grow(table)) {
        struct block *block = place_of(table->blocks, table->size, address / SMALL_BLOCK);
        first = block->count == 0;
        block->number = address / SMALL_BLOCK;
        block->count++;
        table->used += first;
    }
    pthread_mutex_unlock(&table->lock);
    return first;
}

bool small_left(int card, uint64_t address)
{
    struct table *table = &tables[card];
    bool last = false;
    pthread_mutex_lock(&table->lock);
    struct block *block = table->size ? place_of(table->blocks, table->size, address / SMALL_BLOCK) : NULL;
    if (block && block->count) {
        last = --block->count == 0;
        if (last)
            remove_block(table, block);
    }
    pthread_mutex_unlock(&table->lock);
    return last;
}

bool small_any(int card)
{
    struct table *table = &tables[card];
    pthread_mutex_lock(&table->lock);
    bool any = table->used != 0;
    pthread_mutex_unlock(&table->lock);
    return any;
}

// The parent's blocks mean nothing here.  They are left to the heap: a lock may have been held over it.
void small_after_fork(void)
{
    for (int card = 0; card < HAMI_MAX_CARDS; card++) {
        pthread_mutex_init(&tables[card].lock, NULL);
        tables[card].blocks = NULL;
        tables[card].size = tables[card].used = 0;
    }
}
