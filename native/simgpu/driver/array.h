// Arrays: opaque memory for textures, here laid out row by row.  Each takes a multiple of 2 MiB on the card; a sparse one, or
// one to be mapped later, nothing: what is bound to it is there already (sparse.c).
#ifndef SIM_ARRAY_H
#define SIM_ARRAY_H

#include "driver.h"

#define ARRAY_LEVELS   17
#define ARRAY_UNBACKED (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)

struct mipmap;

struct array {
    struct array *next;
    struct context *context;
    CUDA_ARRAY3D_DESCRIPTOR description;
    size_t row_bytes, rows, slices; // rows and slices are at least 1
    char *base;
    uint64_t mapped, charged;
    struct mipmap *mipmap; // of which it's a level; then it owns no memory
};

struct mipmap {
    struct mipmap *next;
    struct context *context;
    CUDA_ARRAY3D_DESCRIPTOR description;
    unsigned level_count;
    struct array *levels[ARRAY_LEVELS];
    char *base;
    uint64_t mapped, charged;
};

struct array *array_of(CUarray handle);
struct mipmap *mipmap_of(CUmipmappedArray handle);
void arrays_drop(struct context *context);

#endif
