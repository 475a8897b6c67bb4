#include "check.h"

CASE(an_array_takes_multiples_of_2_mib)
{
    start();
    CUarray array;
    const CUDA_ARRAY_DESCRIPTOR d = {1000, 1000, CU_AD_FORMAT_FLOAT, 1};
    OK(cuArrayCreate_v2(&array, &d));
    GIVES(104 + 4, held());
    OK(cuArrayDestroy(array));
    GIVES(104, held());
    GIVES(CUDA_ERROR_INVALID_HANDLE, cuArrayDestroy(array));
}

CASE(requirements_need_deferred_mapping)
{
    start();
    CUarray plain, deferred;
    CUDA_ARRAY_MEMORY_REQUIREMENTS r;
    CUDA_ARRAY3D_DESCRIPTOR d = {1000, 1000, 0, CU_AD_FORMAT_FLOAT, 1, 0};
    OK(cuArray3DCreate_v2(&plain, &d));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuArrayGetMemoryRequirements(&r, plain, 0));
    OK(cuArrayDestroy(plain));
    d.Flags = CUDA_ARRAY3D_DEFERRED_MAPPING;
    OK(cuArray3DCreate_v2(&deferred, &d));
    GIVES(104, held());
    OK(cuArrayGetMemoryRequirements(&r, deferred, 0));
    TRUE(r.size >= 4000000);
}

CASE(mipmaps_are_charged_as_a_whole)
{
    start();
    CUmipmappedArray mipmap;
    CUarray level;
    CUDA_ARRAY3D_DESCRIPTOR d = {1024, 1024, 0, CU_AD_FORMAT_UNSIGNED_INT8, 4, 0}, small;
    OK(cuMipmappedArrayCreate(&mipmap, &d, 11));
    GIVES(104 + 6, held()); // 4 MiB and a third
    OK(cuMipmappedArrayGetLevel(&level, mipmap, 10));
    OK(cuArray3DGetDescriptor_v2(&small, level));
    GIVES(1, small.Width);
    GIVES(CUDA_ERROR_INVALID_HANDLE, cuArrayDestroy(level));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMipmappedArrayGetLevel(&level, mipmap, 11));
    OK(cuMipmappedArrayDestroy(mipmap));
    GIVES(104, held());
}

CASE(arrays_hold_bytes)
{
    start();
    CUarray array;
    CUdeviceptr pointer;
    char from[64], to[64] = {0};
    const CUDA_ARRAY_DESCRIPTOR d = {16, 4, CU_AD_FORMAT_SIGNED_INT8, 1};
    for (int i = 0; i < 64; i++)
        from[i] = (char)i;
    OK(cuArrayCreate_v2(&array, &d));
    OK(cuMemAlloc_v2(&pointer, 64));
    CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = from,
                          .srcPitch = 16,
                          .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                          .dstArray = array,
                          .WidthInBytes = 16,
                          .Height = 4};
    OK(cuMemcpy2D_v2(&copy));
    OK(cuMemcpyAtoD_v2(pointer, array, 4, 8));
    OK(cuMemcpyDtoH_v2(to, pointer, 8));
    GIVES(4, to[0]);
    GIVES(11, to[7]);
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemcpyAtoD_v2(pointer, array, 10, 8));
    copy.Height = 5;
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemcpy2D_v2(&copy));
}

CASE(a_full_card_refuses_an_array)
{
    start();
    CUarray array;
    CUdeviceptr pointer;
    const CUDA_ARRAY_DESCRIPTOR d = {16384, 16384, CU_AD_FORMAT_FLOAT, 4};
    OK(cuMemAlloc_v2(&pointer, 12000 * MIB));
    GIVES(CUDA_ERROR_OUT_OF_MEMORY, cuArrayCreate_v2(&array, &d));
    GIVES(104 + 12000, held());
}
