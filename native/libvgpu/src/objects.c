#include "objects.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define PARTS      64
#define FIRST_SIZE 16 // slots of a part; a power of two
#define NOT_FOUND  SIZE_MAX
#define GROUPS     16 // of a part's objects, by their hash

// Open addressing with linear probing; kind 0 marks an empty slot.  At most half full.
struct part {
    pthread_mutex_t lock;
    struct object *slots;
    size_t size;
    size_t count;
    _Atomic uint32_t live[GROUPS]; // written under the lock: most questions are about what isn't here
};

static struct part parts[PARTS] = {[0 ... PARTS - 1] = {.lock = PTHREAD_MUTEX_INITIALIZER}};

static uint64_t hash_of(unsigned kind, uint64_t key)
{
    uint64_t hash = (key ^ ((uint64_t)kind << 56)) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

static struct part *part_of(uint64_t hash)
{
    return &parts[hash >> 58];
}

static _Atomic uint32_t *group_of(struct part *part, uint64_t hash)
{
    return &part->live[hash >> 54 & (GROUPS - 1)];
}

static void count_group(struct part *part, const struct object *object, uint32_t by)
{
    _Atomic uint32_t *live = group_of(part, hash_of(object->kind, object->key));
    atomic_store_explicit(live, atomic_load_explicit(live, memory_order_relaxed) + by, memory_order_relaxed);
}

static size_t find_slot(const struct part *part, unsigned kind, uint64_t key, uint64_t hash)
{
    if (!part->size)
        return NOT_FOUND;
    for (size_t i = hash & (part->size - 1);; i = (i + 1) & (part->size - 1)) {
        if (!part->slots[i].kind)
            return NOT_FOUND;
        if (part->slots[i].key == key && part->slots[i].kind == kind)
            return i;
    }
}

static void insert(struct object *slots, size_t size, const struct object *object)
{
    size_t i = hash_of(object->kind, object->key) & (size - 1);
    while (slots[i].kind)
        i = (i + 1) & (size - 1);
    slots[i] = *object;
}

static bool grow(struct part *part)
{
    size_t size = part->size ? part->size * 2 : FIRST_SIZE;
    struct object *slots = calloc(size, sizeof *slots);
    if (!slots)
        return false;
    for (size_t i = 0; i < part->size; i++)
        if (part->slots[i].kind)
            insert(slots, size, &part->slots[i]);
    free(part->slots);
    part->slots = slots;
    part->size = size;
    return true;
}

// Close the gap, so that every probe still ends at its object.
static void remove_slot(struct part *part, size_t gap)
{
    count_group(part, &part->slots[gap], UINT32_MAX);
    part->count--;
    size_t mask = part->size - 1;
    for (size_t i = (gap + 1) & mask; part->slots[i].kind; i = (i + 1) & mask) {
        size_t home = hash_of(part->slots[i].kind, part->slots[i].key) & mask;
        if (((i - home) & mask) >= ((i - gap) & mask)) {
            part->slots[gap] = part->slots[i];
            gap = i;
        }
    }
    part->slots[gap].kind = 0;
}

bool objects_put(const struct object *object)
{
    uint64_t hash = hash_of(object->kind, object->key);
    struct part *part = part_of(hash);
    pthread_mutex_lock(&part->lock);
    size_t slot = find_slot(part, object->kind, object->key, hash);
    bool room = true;
    if (slot != NOT_FOUND) {
        part->slots[slot] = *object;
    } else if ((room = part->count * 2 < part->size || grow(part))) {
        insert(part->slots, part->size, object);
        part->count++;
        count_group(part, object, 1);
    }
    pthread_mutex_unlock(&part->lock);
    return room;
}

static __attribute__((noinline)) bool search(struct part *part, uint64_t hash, enum object_kind kind, uint64_t key,
                                             struct object *out, bool take)
{
    pthread_mutex_lock(&part->lock);
    size_t slot = find_slot(part, kind, key, hash);
    if (slot != NOT_FOUND) {
        *out = part->slots[slot];
        if (take)
            remove_slot(part, slot);
    }
    pthread_mutex_unlock(&part->lock);
    return slot != NOT_FOUND;
}

static inline bool get(enum object_kind kind, uint64_t key, struct object *out, bool take)
{
    uint64_t hash = hash_of(kind, key);
    struct part *part = part_of(hash);
    return atomic_load_explicit(group_of(part, hash), memory_order_relaxed) && search(part, hash, kind, key, out, take);
}

bool objects_take(enum object_kind kind, uint64_t key, struct object *out)
{
    return get(kind, key, out, true);
}

bool objects_find(enum object_kind kind, uint64_t key, struct object *out)
{
    return get(kind, key, out, false);
}

void objects_drop_owned(uint64_t owner, void (*dropped)(const struct object *))
{
    for (size_t p = 0; p < PARTS; p++) {
        struct part *part = &parts[p];
        pthread_mutex_lock(&part->lock);
        for (size_t i = 0; i < part->size;) {
            if (!part->slots[i].kind || part->slots[i].owner != owner) {
                i++;
                continue;
            }
            struct object object = part->slots[i];
            remove_slot(part, i); // another one may have moved here: look again
            dropped(&object);
        }
        pthread_mutex_unlock(&part->lock);
    }
}

// The parent's handles mean nothing here.  Its slots are left to the heap as they are: a lock may have been held over them.
void objects_after_fork(void)
{
    for (size_t p = 0; p < PARTS; p++) {
        pthread_mutex_init(&parts[p].lock, NULL);
        parts[p].slots = NULL;
        parts[p].size = 0;
        parts[p].count = 0;
        for (size_t group = 0; group < GROUPS; group++)
            atomic_store(&parts[p].live[group], 0);
    }
}
