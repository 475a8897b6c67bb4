// Physical memory of the virtual memory calls: it lives until its last handle is released and its last mapping is gone.
// Keeps the count; pure of the driver, so that vmm.c stays a list of calls.
// Owns: every struct physical, and the map from mapped address ranges to them.
#ifndef PHYSICAL_H
#define PHYSICAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct physical {
    int card;
    uint64_t bytes; // charged; 0: another process's memory
    uint8_t flags;  // enum object_flag
    bool exported;  // a descriptor keeps it, whoever holds that
    bool bound;     // to an array, a multicast object or an endpoint, which keep it
    uint32_t handles;
    uint32_t mappings;
};

// A new one with one handle; NULL: no host memory.
struct physical *physical_new(int card, uint64_t bytes, uint8_t flags);

// One more handle, by number or by an address inside a mapping.  False: unknown.
bool physical_retain(uint64_t handle, uint64_t address);

// A new handle of a new physical.
bool physical_add_handle(uint64_t handle, struct physical *physical);

// Taking off is done in two halves around the driver's call: what is taken out of the maps first can't be mixed up with a
// newcomer that gets the same number or address a moment later.
struct physical_leaving {
    struct physical *first;         // of the only handle, or NULL
    uint64_t handle;                // its number
    struct physical_mapping *range; // mappings taken out
    size_t count;
};

// One handle less; all mappings in [address, address + size) less.  The cards touched are entered in footprint.c.
struct physical_leaving physical_release_begin(uint64_t handle);
struct physical_leaving physical_unmap_begin(uint64_t address, uint64_t size);

// The driver has done it, or not.  Calls `gone` for each physical that nothing holds now, and frees it afterwards.
typedef void (*physical_gone)(const struct physical *physical);
// Returns the cards of those that were bound, bit by bit: there the driver's figure is to be looked at.
uint32_t physical_leave(struct physical_leaving *leaving, bool done, physical_gone gone);

// A mapping of a handle's memory.
void physical_map(uint64_t handle, uint64_t address, uint64_t size);

void physical_export(uint64_t handle);

// Something without an address of ours holds on to it: by its handle, or by the addresses that it is mapped to.
void physical_bind(uint64_t handle);
void physical_bind_range(uint64_t address, uint64_t size);

void physical_after_fork(void);

#endif
