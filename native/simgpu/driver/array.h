// Arrays: opaque memory for textures, here laid out row by row.  Each takes a multiple of 2 MiB on the card.
#ifndef SIM_ARRAY_H
#define SIM_ARRAY_H

#include "driver.h"

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

struct array *array_of(CUarray handle);
void arrays_drop(struct context *context);

#endif
