// Address space and the table of what lies where.
#define _GNU_SOURCE
#include "memory.h"

#include <search.h>
#include <sys/mman.h>

static void *tree;
static unsigned long long next_id = 1;

void *region_map(uint64_t bytes)
{
    if (bytes == 0 || bytes > UINT64_C(1) << 46)
        return NULL;
    uint64_t wanted = bytes + BLOCK_BYTES;
    char *at = mmap(NULL, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    char *base = (char *)round_up((uintptr_t)at, BLOCK_BYTES);
    if (base > at)
        munmap(at, (size_t)(base - at));
    munmap(base + bytes, wanted - bytes - (size_t)(base - at));
    // A forked child can't use the card; copying what a notebook holds there would only cost it memory.
    madvise(base, bytes, MADV_DONTFORK);
    return base;
}

void region_unmap(void *base, uint64_t bytes)
{
    munmap(base, bytes);
}

// Ranges that overlap are equal: so a range of one byte finds the allocation around it.
static int compare(const void *left, const void *right)
{
    const struct allocation *a = left, *b = right;
    if (a->base + a->size <= b->base)
        return -1;
    return a->base >= b->base + b->size;
}

struct allocation *allocation_add(CUdeviceptr base, size_t size, enum allocation_kind kind)
{
    struct allocation *allocation = calloc(1, sizeof *allocation);
    if (!allocation)
        return NULL;
    *allocation = (struct allocation){.base = base, .size = size, .kind = kind, .id = next_id++, .file = -1};
    struct allocation **found = tsearch(allocation, &tree, compare);
    if (found && *found == allocation)
        return allocation;
    free(allocation);
    return NULL;
}

void allocation_remove(struct allocation *allocation)
{
    tdelete(allocation, &tree, compare);
    free(allocation);
}

struct allocation *allocation_at(CUdeviceptr address)
{
    const struct allocation key = {.base = address, .size = 1};
    struct allocation **found = address ? tfind(&key, &tree, compare) : NULL;
    return found ? *found : NULL;
}

struct allocation *allocation_starting(CUdeviceptr base)
{
    struct allocation *allocation = allocation_at(base);
    return allocation && allocation->base == base ? allocation : NULL;
}

bool allocation_is_device(const struct allocation *allocation)
{
    return allocation->kind != ALLOCATION_HOST && allocation->kind != ALLOCATION_REGISTERED;
}

struct list {
    struct allocation **items;
    size_t count, room;
};

// twalk has no argument, and its caller must not change the tree: collect first.
static struct list collected;

static void collect(const void *node, VISIT visit, int depth)
{
    (void)depth;
    if (visit != postorder && visit != leaf)
        return;
    if (collected.count == collected.room) {
        collected.room = collected.room ? collected.room * 2 : 64;
        collected.items = realloc(collected.items, collected.room * sizeof *collected.items);
        if (!collected.items)
            abort();
    }
    collected.items[collected.count++] = *(struct allocation *const *)node;
}

void allocation_each(void (*call)(struct allocation *, void *), void *argument)
{
    twalk(tree, collect);
    struct list mine = collected;
    collected = (struct list){0};
    for (size_t i = 0; i < mine.count; i++)
        call(mine.items[i], argument);
    free(mine.items);
}
