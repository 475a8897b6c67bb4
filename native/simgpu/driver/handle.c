// The live handles of this process, so that a stale or foreign one gets CUDA_ERROR_INVALID_HANDLE and not a crash.
// Open addressing; a removed entry leaves a mark until the table grows.
#include "driver.h"

static struct entry {
    const void *object; // NULL: never used
    enum handle kind;   // 0: removed
} *table;

static size_t capacity, used;

static size_t start_of(const void *object)
{
    uint64_t bits = (uint64_t)(uintptr_t)object;
    return (size_t)((bits >> 4) * UINT64_C(0x9E3779B97F4A7C15) >> 20) & (capacity - 1);
}

static void insert(const void *object, enum handle kind)
{
    size_t i = start_of(object);
    while (table[i].object && table[i].kind)
        i = (i + 1) & (capacity - 1);
    used += !table[i].object;
    table[i] = (struct entry){object, kind};
}

static void grow(void)
{
    struct entry *old = table;
    size_t old_capacity = capacity, live = 0;
    for (size_t i = 0; i < old_capacity; i++)
        live += old[i].kind != 0;
    for (capacity = 256; capacity < live * 4; capacity *= 2)
        ;
    table = calloc(capacity, sizeof *table);
    if (!table)
        abort();
    used = 0;
    for (size_t i = 0; i < old_capacity; i++)
        if (old[i].kind)
            insert(old[i].object, old[i].kind);
    free(old);
}

static struct entry *find(const void *object)
{
    if (!object || !capacity)
        return NULL;
    for (size_t i = start_of(object); table[i].object; i = (i + 1) & (capacity - 1))
        if (table[i].object == object && table[i].kind)
            return &table[i];
    return NULL;
}

void handle_add(const void *object, enum handle kind)
{
    if (used * 2 >= capacity)
        grow();
    insert(object, kind);
}

void handle_remove(const void *object)
{
    struct entry *entry = find(object);
    if (entry)
        entry->kind = 0;
}

bool handle_is(const void *object, enum handle kind)
{
    const struct entry *entry = find(object);
    return entry && entry->kind == kind;
}
