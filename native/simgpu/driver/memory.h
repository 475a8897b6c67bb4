// The memory of this process, by address: what a pointer belongs to, and what it costs on the card.
//
// Device memory is host memory that is mapped without being reserved, so it costs nothing until it is touched.  What
// the card charges is another matter: cuMemAlloc of up to 1 MiB shares blocks of 2 MiB, anything bigger takes a multiple
// of 2 MiB (small.c, memory.c); pools, physical handles, arrays and modules have their own rules in their own files.
#ifndef SIM_MEMORY_H
#define SIM_MEMORY_H

#include "driver.h"

#define BLOCK_BYTES (2 * MIB)

struct context;
struct pool;
struct pool_chunk;
struct physical;
struct small_block;

enum allocation_kind {
    ALLOCATION_DEVICE,
    ALLOCATION_SMALL, // a part of a 2 MiB block
    ALLOCATION_MANAGED,
    ALLOCATION_POOL,
    ALLOCATION_GRAPH,   // of a graph's alloc node
    ALLOCATION_MODULE,  // a module's global data
    ALLOCATION_MAPPING, // of physical memory, by cuMemMap
    ALLOCATION_IPC,     // of another process
    ALLOCATION_HOST,
    ALLOCATION_REGISTERED, // the program's own, made known by cuMemHostRegister
};

struct allocation {
    CUdeviceptr base;
    size_t size;     // as asked
    uint64_t mapped; // bytes mapped for it alone, 0: none
    enum allocation_kind kind;
    struct context *context; // with which it ends; NULL for those that belong to no context
    unsigned card;
    unsigned flags; // as given at the allocation
    unsigned long long id;
    int file;         // that backs it for another process, -1: none
    bool granted;     // a mapping that cuMemSetAccess opened
    bool sync_memops; // CU_POINTER_ATTRIBUTE_SYNC_MEMOPS
    union {
        struct pool_chunk *chunk;
        struct physical *physical;
        struct small_block *block;
        size_t offset_in_file;
        struct {
            unsigned nodes; // that hold the address
            bool live;      // allocated by a launch and not freed since
        } graph;
    };
};

// Address space, 2 MiB aligned; NULL if there is none.
void *region_map(uint64_t bytes);
void region_unmap(void *base, uint64_t bytes);

// The new entry, with everything but base, size and kind zero; the caller fills in the rest.  NULL if memory is short.
struct allocation *allocation_add(CUdeviceptr base, size_t size, enum allocation_kind kind);
void allocation_remove(struct allocation *allocation);
struct allocation *allocation_at(CUdeviceptr address);    // whose range holds it
struct allocation *allocation_starting(CUdeviceptr base); // whose range begins there
// For all, in no order; the call may remove the one that it gets.
void allocation_each(void (*call)(struct allocation *, void *), void *argument);
bool allocation_is_device(const struct allocation *allocation);

// Room on the card; what pools keep unused is given up first if the card is full.
bool memory_take(unsigned card, uint64_t bytes, enum sim_memory kind);
void memory_give(unsigned card, uint64_t bytes, enum sim_memory kind);

// cuMemAlloc's rule, for everything that follows it.
CUresult memory_allocate(struct context *context, size_t size, CUdeviceptr *out);
void memory_free(struct allocation *allocation);
// All that ends with the context.
void memory_drop(struct context *context);

// Let another context have all that this one allocated.
void memory_hand_over(struct context *from, struct context *to);

// small.c
CUresult small_allocate(struct context *context, size_t size, struct allocation **out);
void small_free(struct allocation *allocation);
void small_hand_over(struct context *from, struct context *to);

#define SMALL_MAX MIB

#endif
