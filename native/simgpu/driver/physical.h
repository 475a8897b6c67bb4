// Physical memory: a piece of a memory file, so that the same piece can be mapped twice.  It takes room on the card from
// its making until its handle is released and its last mapping is gone, as measured.
#ifndef SIM_PHYSICAL_H
#define SIM_PHYSICAL_H

#include "memory.h"

#define PHYSICAL_GRANULARITY BLOCK_BYTES

struct physical {
    CUmemAllocationProp props;
    unsigned card;
    bool on_card;  // host memory takes no room there
    bool imported; // charged to its maker
    unsigned handles, mappings;
    uint64_t bytes;
    int file;
    uint64_t offset; // in the file
    bool own_file;   // to be shared; others lie in one common file, for descriptors are few
};

struct physical *physical_of(CUmemGenericAllocationHandle handle);
// The memory behind an exported descriptor, with one handle of this process; NULL: it is none.
struct physical *physical_import(int descriptor);
// One handle less.
void physical_release(struct physical *physical);
void physical_drop_if_unused(struct physical *physical);
// Whether the location is one, and if on a card, on which.
bool physical_location(const CUmemLocation *location, unsigned *card, bool *on_card);

#endif
