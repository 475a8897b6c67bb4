// Bytes of VRAM that an array takes, from its descriptor.  Pure.
#ifndef ARRAY_SIZE_H
#define ARRAY_SIZE_H

#include <stdbool.h>
#include <stdint.h>

#include "entry_tables.h"

struct array_shape {
    uint64_t width, height, depth; // elements; 0 counts as 1
    unsigned channels;
    CUarray_format format;
    unsigned flags; // CUDA_ARRAY3D_*
};

struct array_shape array_shape_2d_v1(const CUDA_ARRAY_DESCRIPTOR_v1 *descriptor);
struct array_shape array_shape_2d(const CUDA_ARRAY_DESCRIPTOR *descriptor);
struct array_shape array_shape_3d_v1(const CUDA_ARRAY3D_DESCRIPTOR_v1 *descriptor);
struct array_shape array_shape_3d(const CUDA_ARRAY3D_DESCRIPTOR *descriptor);

// clang-format off
#define array_shape(descriptor)                                    \
    _Generic((descriptor),                                         \
        const CUDA_ARRAY_DESCRIPTOR_v1 *: array_shape_2d_v1,       \
        const CUDA_ARRAY_DESCRIPTOR *: array_shape_2d,             \
        const CUDA_ARRAY3D_DESCRIPTOR_v1 *: array_shape_3d_v1,     \
        const CUDA_ARRAY3D_DESCRIPTOR *: array_shape_3d)(descriptor)
// clang-format on

// 0 for sparse and deferred arrays: those are backed by cuMemCreate later.
uint64_t array_bytes(struct array_shape shape);
uint64_t array_mipmap_bytes(struct array_shape shape, unsigned levels);

#endif
