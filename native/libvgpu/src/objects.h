// What each live handle of this process was charged: device pointers, arrays, contexts, modules, kernels.
// Owns: a hash map in 64 parts, each with its lock, so that threads seldom meet.  Knows nothing of the driver.
#ifndef OBJECTS_H
#define OBJECTS_H

#include <stdbool.h>
#include <stdint.h>

enum object_kind {
    OBJECT_MEMORY = 1, // CUdeviceptr
    OBJECT_ARRAY,      // CUarray
    OBJECT_MIPMAP,     // CUmipmappedArray
    OBJECT_CONTEXT,    // CUcontext: what creating it cost
    OBJECT_MODULE,     // CUmodule: what loading it cost
    OBJECT_LIBRARY,    // CUlibrary
    OBJECT_KERNEL,     // CUkernel
    OBJECT_LOADED,     // a kernel in a context
    OBJECT_GRAPH,      // CUgraphExec with memory nodes
    OBJECT_PHYSICAL,   // CUmemGenericAllocationHandle; value is a struct physical
};

enum object_flag {
    OBJECT_SMALL = 1u << 0,        // shares 2 MiB blocks with others
    OBJECT_MANAGED = 1u << 1,      // not in the figure that NVML shows
    OBJECT_FREES_ITSELF = 1u << 2, // a graph: its memory, at the next launch
};

struct object {
    uint64_t key; // the handle
    uint8_t kind; // enum object_kind
    uint8_t flags;
    int16_t card;
    uint64_t bytes; // charged
    uint64_t owner; // the context, or object_library() of the library, that it dies with; 0: none
    uint64_t value; // the owner file's own
};

// Libraries and contexts are numbered apart.
static inline uint64_t object_library(const void *library)
{
    return (uint64_t)(uintptr_t)library | UINT64_C(1) << 63;
}

// Add or replace.  False: no host memory.
bool objects_put(const struct object *object);

// Copy out and remove: the taker alone may free it.  False: unknown.
bool objects_take(enum object_kind kind, uint64_t key, struct object *out);

// Copy out.  False: unknown.
bool objects_find(enum object_kind kind, uint64_t key, struct object *out);

// Remove all objects of an owner, calling `dropped` for each: it must not come back here.
void objects_drop_owned(uint64_t owner, void (*dropped)(const struct object *));

void objects_after_fork(void);

#endif
