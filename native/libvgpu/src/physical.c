#include "physical.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "footprint.h"
#include "objects.h"

// Mappings sorted by address.  Programs with expandable segments have a few thousand, each of many MiB.
struct physical_mapping {
    uint64_t address, size;
    struct physical *physical;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct physical_mapping *mappings;
static size_t mapping_count, mapping_room;

struct physical *physical_new(int card, uint64_t bytes, uint8_t flags)
{
    struct physical *physical = calloc(1, sizeof *physical);
    if (physical)
        *physical = (struct physical){.card = card, .bytes = bytes, .flags = flags};
    return physical;
}

static struct physical *of_handle(uint64_t handle, struct object *object)
{
    return objects_find(OBJECT_PHYSICAL, handle, object) ? (struct physical *)(uintptr_t)object->value : NULL;
}

// First mapping whose address is not below `address`.
static size_t lower_bound(uint64_t address)
{
    size_t low = 0, high = mapping_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (mappings[middle].address < address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct physical *at_address(uint64_t address)
{
    size_t i = lower_bound(address);
    if (i < mapping_count && mappings[i].address == address)
        return mappings[i].physical;
    if (i > 0 && address - mappings[i - 1].address < mappings[i - 1].size)
        return mappings[i - 1].physical;
    return NULL;
}

// The charge belongs to the physical; the object of a handle has card -1 and, in `bytes`, how often the handle was given out.
static bool put_handle(uint64_t handle, struct physical *physical, uint64_t count)
{
    return objects_put(&(struct object){
        .key = handle, .kind = OBJECT_PHYSICAL, .card = -1, .bytes = count, .value = (uint64_t)(uintptr_t)physical});
}

static bool add_handle(uint64_t handle, struct physical *physical)
{
    struct object object;
    uint64_t count = of_handle(handle, &object) == physical ? object.bytes + 1 : 1;
    bool done = put_handle(handle, physical, count);
    physical->handles += done;
    return done;
}

bool physical_add_handle(uint64_t handle, struct physical *physical)
{
    pthread_mutex_lock(&lock);
    bool done = add_handle(handle, physical);
    pthread_mutex_unlock(&lock);
    return done;
}

bool physical_retain(uint64_t handle, uint64_t address)
{
    pthread_mutex_lock(&lock);
    struct physical *physical = at_address(address);
    bool done = physical && add_handle(handle, physical);
    pthread_mutex_unlock(&lock);
    return done;
}

static uint32_t drop_if_gone(struct physical *physical, physical_gone gone)
{
    if (physical->handles || physical->mappings)
        return 0;
    uint32_t card = physical->bound && physical->card >= 0 ? 1u << physical->card : 0;
    gone(physical);
    free(physical);
    return card;
}

static void enter(const struct physical *physical)
{
    if (physical->card >= 0)
        footprint_enter(physical->card);
}

static void leave(int card)
{
    if (card >= 0)
        footprint_leave(card);
}

struct physical_leaving physical_release_begin(uint64_t handle)
{
    struct physical_leaving leaving = {.handle = handle};
    pthread_mutex_lock(&lock);
    struct object object;
    leaving.first = of_handle(handle, &object);
    if (leaving.first) {
        if (object.bytes > 1)
            put_handle(handle, leaving.first, object.bytes - 1);
        else
            objects_take(OBJECT_PHYSICAL, handle, &object);
        enter(leaving.first);
    }
    pthread_mutex_unlock(&lock);
    return leaving;
}

static bool insert_mapping(size_t at, struct physical_mapping mapping)
{
    if (mapping_count == mapping_room) {
        size_t room = mapping_room ? mapping_room * 2 : 64;
        struct physical_mapping *more = realloc(mappings, room * sizeof *more);
        if (!more)
            return false;
        mappings = more;
        mapping_room = room;
    }
    for (size_t i = mapping_count++; i > at; i--)
        mappings[i] = mappings[i - 1];
    mappings[at] = mapping;
    return true;
}

void physical_map(uint64_t handle, uint64_t address, uint64_t size)
{
    pthread_mutex_lock(&lock);
    struct object object;
    struct physical *physical = of_handle(handle, &object);
    // a mapping that can't be written down keeps its memory charged for good
    if (physical) {
        insert_mapping(lower_bound(address), (struct physical_mapping){address, size, physical});
        physical->mappings++;
    }
    pthread_mutex_unlock(&lock);
}

struct physical_leaving physical_unmap_begin(uint64_t address, uint64_t size)
{
    struct physical_leaving leaving = {0};
    pthread_mutex_lock(&lock);
    size_t first = lower_bound(address), last = first;
    while (last < mapping_count && mappings[last].address - address < size)
        last++;
    leaving.range = last > first ? malloc((last - first) * sizeof *leaving.range) : NULL;
    if (leaving.range) {
        leaving.count = last - first;
        memcpy(leaving.range, mappings + first, leaving.count * sizeof *mappings);
        memmove(mappings + first, mappings + last, (mapping_count - last) * sizeof *mappings);
        mapping_count -= leaving.count;
        for (size_t i = 0; i < leaving.count; i++)
            enter(leaving.range[i].physical);
    }
    pthread_mutex_unlock(&lock);
    return leaving;
}

uint32_t physical_leave(struct physical_leaving *leaving, bool done, physical_gone gone)
{
    uint32_t bound = 0;
    pthread_mutex_lock(&lock);
    if (leaving->first) {
        struct physical *physical = leaving->first;
        int card = physical->card;
        struct object object;
        if (done) {
            physical->handles--;
            bound |= drop_if_gone(physical, gone);
        } else {
            put_handle(leaving->handle, physical, of_handle(leaving->handle, &object) ? object.bytes + 1 : 1);
        }
        leave(card);
    }
    for (size_t i = 0; i < leaving->count; i++) {
        struct physical_mapping *mapping = &leaving->range[i];
        int card = mapping->physical->card;
        if (done) {
            mapping->physical->mappings--;
            bound |= drop_if_gone(mapping->physical, gone);
        } else {
            insert_mapping(lower_bound(mapping->address), *mapping);
        }
        leave(card);
    }
    pthread_mutex_unlock(&lock);
    free(leaving->range);
    return bound;
}

static void mark(uint64_t handle, bool exported, bool bound)
{
    pthread_mutex_lock(&lock);
    struct object object;
    struct physical *physical = of_handle(handle, &object);
    if (physical) {
        physical->exported |= exported;
        physical->bound |= bound;
    }
    pthread_mutex_unlock(&lock);
}

void physical_export(uint64_t handle)
{
    mark(handle, true, false);
}

void physical_bind(uint64_t handle)
{
    mark(handle, false, true);
}

void physical_bind_range(uint64_t address, uint64_t size)
{
    pthread_mutex_lock(&lock);
    struct physical *first = at_address(address);
    if (first)
        first->bound = true;
    for (size_t i = lower_bound(address); i < mapping_count && mappings[i].address - address < size; i++)
        mappings[i].physical->bound = true;
    pthread_mutex_unlock(&lock);
}

void physical_after_fork(void)
{
    pthread_mutex_init(&lock, NULL);
    mappings = NULL;
    mapping_count = mapping_room = 0;
}
