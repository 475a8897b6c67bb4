// Arrays for textures and surfaces: 256 MiB each.
#include "way.h"

#define ARRAY (256 * MIB)
#define MANY  4000

static void array_2d(void)
{
    open_card();
    CUDA_ARRAY_DESCRIPTOR shape = {.Width = 4096, .Height = 4096, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4};
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
    CUDA_ARRAY3D_DESCRIPTOR shape = {.Width = 4096, .Height = 4096, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4};
    CUmipmappedArray array;
    while (wanting() && granted("cuMipmappedArrayCreate", cuMipmappedArrayCreate(&array, &shape, 4), ARRAY))
        ;
}

const struct way array_ways[] = {
    {"array_2d", array_2d}, {"small_arrays", small_arrays}, {"array_3d", array_3d}, {"mipmap", mipmap}, {0},
};
