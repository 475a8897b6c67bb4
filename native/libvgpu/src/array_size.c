#include "array_size.h"

// Tiles of 64 bytes by 8 rows, as the hardware stores textures.
#define TILE_BYTES UINT64_C(64)
#define TILE_ROWS  UINT64_C(8)

struct array_shape array_shape_2d_v1(const CUDA_ARRAY_DESCRIPTOR_v1 *d)
{
    return (struct array_shape){d->Width, d->Height, 1, d->NumChannels, d->Format, 0};
}

struct array_shape array_shape_2d(const CUDA_ARRAY_DESCRIPTOR *d)
{
    return (struct array_shape){d->Width, d->Height, 1, d->NumChannels, d->Format, 0};
}

struct array_shape array_shape_3d_v1(const CUDA_ARRAY3D_DESCRIPTOR_v1 *d)
{
    return (struct array_shape){d->Width, d->Height, d->Depth, d->NumChannels, d->Format, d->Flags};
}

struct array_shape array_shape_3d(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
    return (struct array_shape){d->Width, d->Height, d->Depth, d->NumChannels, d->Format, d->Flags};
}

// Bits of one element with all its channels.
static uint64_t element_bits(CUarray_format format, unsigned channels)
{
    switch ((unsigned)format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
        return UINT64_C(8) * channels;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
        return UINT64_C(16) * channels;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
        return UINT64_C(32) * channels;
    case CU_AD_FORMAT_UNORM_INT8X1:
    case CU_AD_FORMAT_SNORM_INT8X1:
        return 8;
    case CU_AD_FORMAT_UNORM_INT8X2:
    case CU_AD_FORMAT_SNORM_INT8X2:
    case CU_AD_FORMAT_UNORM_INT16X1:
    case CU_AD_FORMAT_SNORM_INT16X1:
        return 16;
    case CU_AD_FORMAT_UNORM_INT16X4:
    case CU_AD_FORMAT_SNORM_INT16X4:
        return 64;
    // block compression: 8 or 16 bytes for 16 elements
    case CU_AD_FORMAT_BC1_UNORM:
    case CU_AD_FORMAT_BC1_UNORM_SRGB:
    case CU_AD_FORMAT_BC4_UNORM:
    case CU_AD_FORMAT_BC4_SNORM:
        return 4;
    case CU_AD_FORMAT_BC2_UNORM:
    case CU_AD_FORMAT_BC2_UNORM_SRGB:
    case CU_AD_FORMAT_BC3_UNORM:
    case CU_AD_FORMAT_BC3_UNORM_SRGB:
    case CU_AD_FORMAT_BC5_UNORM:
    case CU_AD_FORMAT_BC5_SNORM:
    case CU_AD_FORMAT_BC6H_UF16:
    case CU_AD_FORMAT_BC6H_SF16:
    case CU_AD_FORMAT_BC7_UNORM:
    case CU_AD_FORMAT_BC7_UNORM_SRGB:
        return 8;
    case CU_AD_FORMAT_NV12:
        return 12;
    case CU_AD_FORMAT_P010:
    case CU_AD_FORMAT_P016:
        return 24;
    default: // video formats and new ones; the driver's figure corrects it
        return 32;
    }
}

static uint64_t up(uint64_t value, uint64_t unit)
{
    return value > UINT64_MAX - unit ? UINT64_MAX : (value + unit - 1) / unit * unit;
}

static uint64_t multiply(uint64_t a, uint64_t b)
{
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

static uint64_t level_bytes(const struct array_shape *shape)
{
    uint64_t bits = multiply(shape->width ? shape->width : 1, element_bits(shape->format, shape->channels));
    uint64_t row = bits == UINT64_MAX ? UINT64_MAX : bits / 8 + (bits % 8 != 0);
    uint64_t height = shape->height;
    if (height > 1) {
        row = up(row, TILE_BYTES);
        height = up(height, TILE_ROWS);
    }
    return multiply(multiply(row, height ? height : 1), shape->depth ? shape->depth : 1);
}

static bool backed_later(const struct array_shape *shape)
{
    return shape->flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING);
}

uint64_t array_bytes(struct array_shape shape)
{
    return backed_later(&shape) ? 0 : level_bytes(&shape);
}

uint64_t array_mipmap_bytes(struct array_shape shape, unsigned levels)
{
    if (backed_later(&shape))
        return 0;
    bool layered = shape.flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
    uint64_t sum = 0;
    for (unsigned level = 0; level < levels; level++) {
        uint64_t bytes = level_bytes(&shape);
        sum = sum > UINT64_MAX - bytes ? UINT64_MAX : sum + bytes;
        if (shape.width <= 1 && shape.height <= 1 && (layered || shape.depth <= 1))
            break;
        shape.width = shape.width > 1 ? shape.width / 2 : shape.width;
        shape.height = shape.height > 1 ? shape.height / 2 : shape.height;
        if (!layered)
            shape.depth = shape.depth > 1 ? shape.depth / 2 : shape.depth;
    }
    return sum;
}
