// Arrays for textures and surfaces: 256 MiB each.  Sparse ones have no memory but what is bound to them, and keep it.
#include "way.h"

#define ARRAY (256 * MIB)
#define SIDE  4096 // of a flat one
#define MANY  4000

static CUDA_ARRAY3D_DESCRIPTOR flat(unsigned flags)
{
    return (CUDA_ARRAY3D_DESCRIPTOR){
        .Width = SIDE, .Height = SIDE, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4, .Flags = flags};
}

static void array_2d(void)
{
    open_card();
    CUDA_ARRAY_DESCRIPTOR shape = {.Width = SIDE, .Height = SIDE, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4};
    CUarray array;
    while (wanting() && granted("cuArrayCreate", cuArrayCreate(&array, &shape), ARRAY))
        ;
}

// Of 16 KiB each: how many share a block of the card is the driver's business.
static void small_arrays(void)
{
    open_card();
    CUDA_ARRAY_DESCRIPTOR shape = {.Width = 64, .Height = 64, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
    CUarray array;
    for (int i = 0; i < MANY; i++)
        if (!granted("cuArrayCreate", cuArrayCreate(&array, &shape), 16 << 10))
            return;
}

static void array_3d(void)
{
    open_card();
    CUDA_ARRAY3D_DESCRIPTOR shape = {
        .Width = 512, .Height = 512, .Depth = 64, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4};
    CUarray array;
    while (wanting() && granted("cuArray3DCreate", cuArray3DCreate(&array, &shape), ARRAY))
        ;
}

static void mipmap(void)
{
    open_card();
    CUDA_ARRAY3D_DESCRIPTOR shape = flat(0);
    CUmipmappedArray array;
    while (wanting() && granted("cuMipmappedArrayCreate", cuMipmappedArrayCreate(&array, &shape, 4), ARRAY))
        ;
}

static const CUmemAllocationProp tile_pool = {
    .type = CU_MEM_ALLOCATION_TYPE_PINNED,
    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
    .allocFlags = {.usage = CU_MEM_CREATE_USAGE_TILE_POOL},
};

// Bind memory to all of an array, and give its handle back.  False: refused.
static bool back(CUarrayMapInfo *all)
{
    CUmemGenericAllocationHandle handle;
    if (!granted("cuMemCreate", cuMemCreate(&handle, ARRAY, &tile_pool, 0), ARRAY))
        return false;
    all->memOperationType = CU_MEM_OPERATION_TYPE_MAP;
    all->memHandleType = CU_MEM_HANDLE_TYPE_GENERIC;
    all->memHandle.memHandle = handle;
    all->deviceBitMask = 1;
    need("cuMemMapArrayAsync", cuMemMapArrayAsync(all, 1, NULL));
    need("cuStreamSynchronize", cuStreamSynchronize(NULL));
    need("cuMemRelease", cuMemRelease(handle));
    return true;
}

static CUarrayMapInfo whole_level(void)
{
    CUarrayMapInfo all = {.subresourceType = CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_SPARSE_LEVEL};
    all.subresource.sparseLevel.extentWidth = SIDE;
    all.subresource.sparseLevel.extentHeight = SIDE;
    all.subresource.sparseLevel.extentDepth = 1;
    return all;
}

static void back_arrays(unsigned flags)
{
    CUDA_ARRAY3D_DESCRIPTOR shape = flat(flags);
    bool more = true;
    open_card();
    while (more && wanting()) {
        CUarrayMapInfo all = whole_level();
        all.resourceType = CU_RESOURCE_TYPE_ARRAY;
        need("cuArray3DCreate", cuArray3DCreate(&all.resource.array, &shape));
        more = back(&all);
    }
}

static void sparse_array(void)
{
    back_arrays(CUDA_ARRAY3D_SPARSE);
}

static void deferred_array(void)
{
    back_arrays(CUDA_ARRAY3D_DEFERRED_MAPPING);
}

static void sparse_mipmap(void)
{
    CUDA_ARRAY3D_DESCRIPTOR shape = flat(CUDA_ARRAY3D_SPARSE);
    bool more = true;
    open_card();
    while (more && wanting()) {
        CUarrayMapInfo all = whole_level();
        all.resourceType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
        need("cuMipmappedArrayCreate", cuMipmappedArrayCreate(&all.resource.mipmap, &shape, 1));
        more = back(&all);
    }
}

// Other memory is bound to the same array each time: what was there before must come back.
static void sparse_streaming(void)
{
    CUDA_ARRAY3D_DESCRIPTOR shape = flat(CUDA_ARRAY3D_SPARSE);
    CUarrayMapInfo all = whole_level();
    open_card();
    all.resourceType = CU_RESOURCE_TYPE_ARRAY;
    need("cuArray3DCreate", cuArray3DCreate(&all.resource.array, &shape));
    expect(limit / ARRAY * ARRAY * 2);
    while (granted_so_far() < limit / ARRAY * ARRAY * 2 && back(&all)) {
        all.memOperationType = CU_MEM_OPERATION_TYPE_UNMAP;
        need("cuMemMapArrayAsync", cuMemMapArrayAsync(&all, 1, NULL));
        need("cuStreamSynchronize", cuStreamSynchronize(NULL));
    }
}

const struct way array_ways[] = {
    {"array_2d", array_2d},
    {"small_arrays", small_arrays},
    {"array_3d", array_3d},
    {"mipmap", mipmap},
    {"sparse_array", sparse_array},
    {"sparse_mipmap", sparse_mipmap},
    {"sparse_streaming", sparse_streaming},
    {"deferred_array", deferred_array},
    {0},
};
