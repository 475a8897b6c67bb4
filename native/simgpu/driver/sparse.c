// Sparse arrays, and those to be mapped later.  Physical memory is bound to them for nothing, and goes with its handle whether it
// is bound or not, as measured; bytes are not moved, since no kernel here touches memory.
#include "array.h"
#include "context.h"
#include "memory.h"
#include "physical.h"

#define TILE_SIDE_BYTES 256 // a tile of 64 KiB is as wide as it is high, for elements of one byte

static bool can_be_bound(const CUarrayMapInfo *part)
{
    if (part->resourceType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY) {
        const struct mipmap *mipmap = mipmap_of(part->resource.mipmap);
        return mipmap && mipmap->description.Flags & ARRAY_UNBACKED;
    }
    const struct array *array = part->resourceType == CU_RESOURCE_TYPE_ARRAY ? array_of(part->resource.array) : NULL;
    return array && !array->mipmap && array->description.Flags & ARRAY_UNBACKED;
}

static CUresult bind(const CUarrayMapInfo *part)
{
    if (!can_be_bound(part) || part->memHandleType != CU_MEM_HANDLE_TYPE_GENERIC || part->flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (part->memOperationType == CU_MEM_OPERATION_TYPE_UNMAP)
        return CUDA_SUCCESS;
    const struct physical *physical = physical_of(part->memHandle.memHandle);
    bool fits = physical && physical->handles > 0 && part->offset < physical->bytes;
    return part->memOperationType == CU_MEM_OPERATION_TYPE_MAP && fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemMapArrayAsync(CUarrayMapInfo *parts, unsigned int count, CUstream stream)
{
    (void)stream;
    struct context *context;
    CUresult result = enter(&context);
    if (result != CUDA_SUCCESS)
        return result;
    if (!parts || count == 0)
        return leave(CUDA_ERROR_INVALID_VALUE);
    for (unsigned i = 0; i < count && result == CUDA_SUCCESS; i++)
        result = bind(&parts[i]);
    return leave(result);
}

static CUresult properties(CUDA_ARRAY_SPARSE_PROPERTIES *out, const struct array *array)
{
    if (!(array->description.Flags & CUDA_ARRAY3D_SPARSE))
        return CUDA_ERROR_INVALID_VALUE;
    unsigned element = (unsigned)(array->row_bytes / array->description.Width);
    *out = (CUDA_ARRAY_SPARSE_PROPERTIES){.tileExtent = {TILE_SIDE_BYTES / element, TILE_SIDE_BYTES, 1}};
    return CUDA_SUCCESS;
}

CUresult cuArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES *out, CUarray handle)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    const struct array *array = array_of(handle);
    if (!out || !array)
        return leave(CUDA_ERROR_INVALID_VALUE);
    return leave(properties(out, array));
}

CUresult cuMipmappedArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES *out, CUmipmappedArray handle)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    const struct mipmap *mipmap = mipmap_of(handle);
    if (!out || !mipmap)
        return leave(CUDA_ERROR_INVALID_VALUE);
    result = properties(out, mipmap->levels[0]);
    if (result == CUDA_SUCCESS)
        out->miptailFirstLevel = mipmap->level_count;
    return leave(result);
}
