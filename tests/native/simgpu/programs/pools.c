#include "check.h"

static uint64_t attribute(CUmemoryPool pool, CUmemPool_attribute which)
{
    cuuint64_t value;
    OK(cuMemPoolGetAttribute(pool, which, &value));
    return value;
}

static CUmemoryPool default_pool(void)
{
    CUmemoryPool pool;
    OK(cuDeviceGetDefaultMemPool(&pool, 0));
    return pool;
}

CASE(a_pool_reserves_in_steps_of_32_mib)
{
    start();
    CUdeviceptr big, small, next;
    OK(cuMemAllocAsync(&big, 100 * MIB, NULL));
    GIVES(104 + 128, held());
    GIVES(128 * MIB, attribute(default_pool(), CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
    GIVES(100 * MIB, attribute(default_pool(), CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
    OK(cuMemAllocAsync(&small, MIB, NULL)); // out of the 28 that are left
    GIVES(104 + 128, held());
    OK(cuMemAllocAsync(&next, 30 * MIB, NULL));
    GIVES(104 + 160, held());
}

CASE(one_mib_reserves_32)
{
    start();
    CUdeviceptr pointer;
    OK(cuMemAllocAsync(&pointer, MIB, NULL));
    GIVES(104 + 32, held());
}

CASE(what_is_freed_goes_back_at_the_next_synchronisation)
{
    start();
    CUdeviceptr pointer;
    OK(cuMemAllocAsync(&pointer, 100 * MIB, NULL));
    OK(cuMemFreeAsync(pointer, NULL));
    GIVES(104 + 128, held());
    GIVES(0, attribute(default_pool(), CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
    OK(cuStreamSynchronize(NULL));
    GIVES(104, held());
    GIVES(128 * MIB, attribute(default_pool(), CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH));
    GIVES(100 * MIB, attribute(default_pool(), CU_MEMPOOL_ATTR_USED_MEM_HIGH));
    cuuint64_t zero = 0;
    OK(cuMemPoolSetAttribute(default_pool(), CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &zero));
    GIVES(0, attribute(default_pool(), CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH));
}

CASE(a_threshold_keeps_memory_over_synchronisations_and_trim_ends_that)
{
    start();
    cuuint64_t keep = 64 * MIB;
    CUdeviceptr pointer, more;
    OK(cuMemPoolSetAttribute(default_pool(), CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
    OK(cuMemAllocAsync(&pointer, 60 * MIB, NULL));
    OK(cuMemAllocAsync(&more, 60 * MIB, NULL));
    GIVES(104 + 128, held());
    OK(cuMemFreeAsync(pointer, NULL));
    OK(cuMemFreeAsync(more, NULL));
    OK(cuCtxSynchronize());
    GIVES(104 + 64, held());
    OK(cuMemPoolTrimTo(default_pool(), 0));
    GIVES(104, held());
}

CASE(a_stream_reuses_at_once_what_it_freed)
{
    stop_the_clock();
    start();
    CUfunction function = spinner();
    CUstream stream, other;
    CUdeviceptr first, second, third;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    OK(cuMemAllocAsync(&first, 32 * MIB, stream));
    spin(function, stream, 20 * 1000 * 1000);
    OK(cuMemFreeAsync(first, stream));
    OK(cuMemAllocAsync(&second, 32 * MIB, stream));
    GIVES(first, second);
    GIVES(104 + 32, held());
    spin(function, stream, 20 * 1000 * 1000);
    OK(cuMemFreeAsync(second, stream));
    OK(cuMemAllocAsync(&third, 32 * MIB, other)); // not yet free for others
    TRUE(third != first);
    GIVES(104 + 64, held());
    OK(hamisim_advance(40 * 1000 * 1000));
    OK(cuStreamSynchronize(stream));
    GIVES(104 + 32, held());
}

CASE(both_ways_of_freeing_take_both_kinds_of_memory)
{
    start();
    CUdeviceptr plain, pooled;
    OK(cuMemAlloc_v2(&plain, 10 * MIB));
    OK(cuMemAllocAsync(&pooled, 10 * MIB, NULL));
    OK(cuMemFreeAsync(plain, NULL));
    GIVES(104 + 32, held());
    OK(cuMemFree_v2(pooled));
    GIVES(104, held());
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(pooled, NULL));
}

CASE(a_pool_of_ones_own)
{
    start();
    CUmemoryPool pool, current;
    CUdeviceptr pointer;
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                            .maxSize = 64 * MIB};
    OK(cuMemPoolCreate(&pool, &props));
    OK(cuMemAllocFromPoolAsync(&pointer, 40 * MIB, pool, NULL));
    GIVES(104 + 64, held());
    CUdeviceptr more;
    GIVES(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocFromPoolAsync(&more, 40 * MIB, pool, NULL));
    OK(cuDeviceSetMemPool(0, pool));
    OK(cuDeviceGetMemPool(&current, 0));
    TRUE(current == pool);
    OK(cuMemAllocAsync(&more, 10 * MIB, NULL));
    GIVES(50 * MIB, attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
    OK(cuMemPoolDestroy(pool));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemPoolDestroy(pool));
    GIVES(104 + 64, held()); // it ends with its memory
    OK(cuMemFreeAsync(more, NULL));
    OK(cuMemFreeAsync(pointer, NULL));
    OK(cuCtxSynchronize());
    GIVES(104, held());
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemPoolDestroy(default_pool()));
}

CASE(unused_pool_memory_makes_room_for_others)
{
    start();
    cuuint64_t keep = UINT64_MAX;
    CUdeviceptr pointer;
    OK(cuMemPoolSetAttribute(default_pool(), CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
    OK(cuMemAllocAsync(&pointer, 8192 * MIB, NULL));
    OK(cuMemFreeAsync(pointer, NULL));
    OK(cuCtxSynchronize());
    GIVES(104 + 8192, held());
    OK(cuMemAlloc_v2(&pointer, 10000 * MIB));
    GIVES(104 + 10000, held());
}

CASE(a_full_card_refuses_a_pool)
{
    start();
    CUdeviceptr pointer, more;
    OK(cuMemAllocAsync(&pointer, 15200 * MIB, NULL));
    GIVES(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocAsync(&more, 100 * MIB, NULL));
    OK(cuMemFreeAsync(pointer, NULL));
    OK(cuMemAllocAsync(&more, 100 * MIB, NULL));
}

CASE(pool_memory_holds_bytes)
{
    start();
    CUdeviceptr pointers[20];
    for (int i = 0; i < 20; i++) {
        OK(cuMemAllocAsync(&pointers[i], 3 * MIB + (size_t)i * 777, NULL));
        OK(cuMemsetD8Async(pointers[i], (unsigned char)i, 3 * MIB, NULL));
    }
    for (int i = 0; i < 20; i += 2)
        OK(cuMemFreeAsync(pointers[i], NULL));
    for (int i = 1; i < 20; i += 2) {
        unsigned char bytes[2];
        OK(cuMemcpyDtoH_v2(bytes, pointers[i] + 3 * MIB - 2, 2));
        GIVES(i, bytes[1]);
    }
}
