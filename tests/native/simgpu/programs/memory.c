#include "check.h"

CASE(a_context_takes_what_the_profile_says)
{
    OK(cuInit(0));
    GIVES(0, held());
    CUcontext first, second;
    OK(cuDevicePrimaryCtxRetain(&first, 0));
    GIVES(104, held());
    OK(cuCtxCreate_v2(&second, 0, 0));
    GIVES(208, held());
    OK(cuCtxDestroy_v2(second));
    GIVES(104, held());
    OK(cuDevicePrimaryCtxRelease_v2(0));
    GIVES(0, held());
}

CASE(small_allocations_share_blocks_of_2_mib)
{
    start();
    static CUdeviceptr pointers[3000];
    OK(cuMemAlloc_v2(&pointers[0], 4096));
    GIVES(106, held());
    for (int i = 1; i < 3000; i++)
        OK(cuMemAlloc_v2(&pointers[i], 4096));
    GIVES(104 + 12, held());
    for (int i = 0; i < 3000; i++)
        OK(cuMemFree_v2(pointers[i]));
    GIVES(104, held());
}

CASE(up_to_1_mib_is_small)
{
    start();
    CUdeviceptr a, b, c;
    OK(cuMemAlloc_v2(&a, MIB));
    GIVES(106, held());
    OK(cuMemAlloc_v2(&b, MIB));
    GIVES(106, held());
    OK(cuMemAlloc_v2(&c, 1));
    GIVES(108, held());
}

CASE(a_hole_in_a_block_is_used_again)
{
    start();
    CUdeviceptr first, second, third;
    OK(cuMemAlloc_v2(&first, 1000));
    OK(cuMemAlloc_v2(&second, 1000));
    OK(cuMemFree_v2(first));
    OK(cuMemAlloc_v2(&third, 900));
    GIVES(first, third);
    GIVES(106, held());
}

CASE(bigger_ones_take_multiples_of_2_mib)
{
    start();
    const struct {
        size_t bytes;
        unsigned mib;
    } table[] = {{MIB + 1, 2}, {2 * MIB, 2}, {2 * MIB + 1, 4}, {33 * MIB, 34}};
    for (int i = 0; i < 4; i++) {
        CUdeviceptr pointer;
        OK(cuMemAlloc_v2(&pointer, table[i].bytes));
        GIVES(104 + table[i].mib, held());
        OK(cuMemFree_v2(pointer));
        GIVES(104, held());
    }
    CUdeviceptr pointer;
    for (int i = 0; i < 100; i++)
        OK(cuMemAlloc_v2(&pointer, MIB + 1));
    GIVES(304, held());
}

CASE(a_pitch_is_charged_as_it_lies)
{
    start();
    CUdeviceptr pointer;
    size_t pitch;
    OK(cuMemAllocPitch_v2(&pointer, &pitch, 1, 8192, 4));
    GIVES(512, pitch);
    GIVES(104 + 4, held());
}

CASE(managed_memory_is_not_in_the_figure_but_on_the_card)
{
    start();
    CUdeviceptr pointer;
    OK(cuMemAllocManaged(&pointer, 1024 * MIB, CU_MEM_ATTACH_GLOBAL));
    GIVES(104, held());
    GIVES(104 + 1024, taken());
    *(volatile char *)pointer = 1;
    OK(cuMemFree_v2(pointer));
    GIVES(104, taken());
}

CASE(a_full_card_refuses)
{
    start();
    CUdeviceptr most, more;
    OK(cuMemAlloc_v2(&most, 15000 * MIB));
    GIVES(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2(&more, 300 * MIB));
    GIVES(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2(&more, 1ull << 60));
    OK(cuMemAlloc_v2(&more, 256 * MIB));
    GIVES(15360, taken());
    GIVES(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2(&more, 1));
    CUcontext context;
    GIVES(CUDA_ERROR_OUT_OF_MEMORY, cuCtxCreate_v2(&context, 0, 0));
    OK(cuMemFree_v2(most));
    OK(cuMemAlloc_v2(&more, 300 * MIB));
}

CASE(untouched_memory_costs_nothing)
{
    start();
    CUdeviceptr pointer;
    OK(cuMemAlloc_v2(&pointer, 6144 * MIB));
    OK(cuMemsetD8_v2(pointer + 6143 * MIB, 7, 10));
    unsigned long pages, resident;
    FILE *file = fopen("/proc/self/statm", "r");
    GIVES(2, fscanf(file, "%lu %lu", &pages, &resident));
    fclose(file);
    TRUE(resident * 4096 < 200 * MIB);
}

CASE(only_the_start_of_live_memory_can_be_freed)
{
    start();
    CUdeviceptr pointer;
    OK(cuMemAlloc_v2(&pointer, 4 * MIB));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(pointer + 512));
    OK(cuMemFree_v2(pointer));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(pointer));
    OK(cuMemFree_v2(0));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemAlloc_v2(&pointer, 0));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemAlloc_v2(NULL, 100));
}

CASE(all_of_a_context_goes_with_it)
{
    CUcontext context = start();
    CUdeviceptr pointer;
    CUarray array;
    CUmodule module;
    void *host;
    size_t pitch;
    const CUDA_ARRAY_DESCRIPTOR description = {1000, 1000, CU_AD_FORMAT_FLOAT, 1};
    OK(cuMemAlloc_v2(&pointer, 100));
    OK(cuMemAlloc_v2(&pointer, 100 * MIB));
    OK(cuMemAllocManaged(&pointer, 10 * MIB, CU_MEM_ATTACH_GLOBAL));
    OK(cuMemAllocPitch_v2(&pointer, &pitch, 100, 100, 4));
    OK(cuMemAllocAsync(&pointer, 10 * MIB, NULL));
    OK(cuArrayCreate_v2(&array, &description));
    OK(cuModuleLoadData(&module, "//hamisim static=64 kernels=sim_spin"));
    OK(cuMemHostAlloc(&host, 100, 0));
    OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 16384));
    OK(cuCtxDestroy_v2(context));
    GIVES(0, held());
    OK(cuCtxCreate_v2(&context, 0, 0));
    GIVES(104, taken());
}

CASE(host_memory_takes_no_room_on_the_card)
{
    start();
    void *host, *other;
    OK(cuMemHostAlloc(&host, 100 * MIB, CU_MEMHOSTALLOC_DEVICEMAP));
    OK(cuMemAllocHost_v2(&other, 100 * MIB));
    GIVES(104, taken());
    CUdeviceptr pointer;
    OK(cuMemHostGetDevicePointer_v2(&pointer, host, 0));
    OK(cuMemsetD8_v2(pointer, 3, 10));
    GIVES(3, ((char *)host)[9]);
    OK(cuMemFreeHost(host));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost(host));
    unsigned flags;
    OK(cuMemHostGetFlags(&flags, other));
}

CASE(registered_memory_is_known_once)
{
    start();
    static char page[8192];
    unsigned type;
    OK(cuMemHostRegister_v2(page, sizeof page, 0));
    GIVES(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister_v2(page + 100, 10, 0));
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)page));
    GIVES(CU_MEMORYTYPE_HOST, type);
    OK(cuMemHostUnregister(page));
    GIVES(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(page));
}

CASE(bytes_really_move)
{
    start();
    CUdeviceptr a, b;
    unsigned char out[256], in[256];
    for (int i = 0; i < 256; i++)
        in[i] = (unsigned char)i;
    OK(cuMemAlloc_v2(&a, 256));
    OK(cuMemAlloc_v2(&b, 3 * MIB));
    OK(cuMemcpyHtoD_v2(a, in, 256));
    OK(cuMemcpyDtoD_v2(b + MIB, a, 256));
    OK(cuMemcpyDtoH_v2(out, b + MIB, 256));
    OK(memcmp(in, out, 256));
    OK(cuMemsetD16_v2(a, 0x1234, 4));
    OK(cuMemsetD32_v2(a + 8, 0xAABBCCDD, 2));
    OK(cuMemcpy((CUdeviceptr)out, a, 16));
    GIVES(0x12, out[7]);
    GIVES(0xAA, out[11]);
    OK(cuMemsetD2D8_v2(b, 512, 9, 3, 2));
    OK(cuMemcpyDtoH_v2(out, b + 510, 6));
    GIVES(0, out[1]);
    GIVES(9, out[2]);
    GIVES(0, out[5]);
}

CASE(a_copy_beyond_the_end_is_refused)
{
    start();
    CUdeviceptr pointer;
    char host[1024];
    OK(cuMemAlloc_v2(&pointer, 512));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD_v2(pointer, host, 513));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH_v2(host, pointer + 500, 13));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemsetD32_v2(pointer, 0, 129));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemsetD32_v2(pointer + 2, 0, 1));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoD_v2(pointer, (CUdeviceptr)host, 8));
}

CASE(rectangles_move_by_their_pitches)
{
    start();
    CUdeviceptr pointer;
    char from[4][8], to[4][8] = {{0}};
    size_t pitch;
    for (int i = 0; i < 32; i++)
        from[i / 8][i % 8] = (char)i;
    OK(cuMemAllocPitch_v2(&pointer, &pitch, 8, 4, 4));
    CUDA_MEMCPY2D down = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = from,
                          .srcPitch = 8,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = pointer,
                          .dstPitch = pitch,
                          .WidthInBytes = 8,
                          .Height = 4};
    OK(cuMemcpy2D_v2(&down));
    CUDA_MEMCPY2D up = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                        .srcDevice = pointer,
                        .srcPitch = pitch,
                        .srcXInBytes = 2,
                        .srcY = 1,
                        .dstMemoryType = CU_MEMORYTYPE_HOST,
                        .dstHost = to,
                        .dstPitch = 8,
                        .WidthInBytes = 3,
                        .Height = 2};
    OK(cuMemcpy2DUnaligned_v2(&up));
    GIVES(10, to[0][0]);
    GIVES(20, to[1][2]);
    GIVES(0, to[1][3]);
}

CASE(pointers_say_what_they_are)
{
    CUcontext context = start();
    CUdeviceptr device, managed, base;
    size_t size;
    unsigned char is_managed;
    int ordinal;
    CUcontext owner;
    OK(cuMemAlloc_v2(&device, 5000));
    OK(cuMemAllocManaged(&managed, 5000, CU_MEM_ATTACH_GLOBAL));
    OK(cuMemGetAddressRange_v2(&base, &size, device + 4999));
    GIVES(device, base);
    GIVES(5000, size);
    GIVES(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange_v2(&base, &size, device + 5632));
    CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_IS_MANAGED, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                        CU_POINTER_ATTRIBUTE_CONTEXT};
    void *data[] = {&is_managed, &ordinal, &owner};
    OK(cuPointerGetAttributes(3, attributes, data, managed));
    GIVES(1, is_managed);
    GIVES(0, ordinal);
    TRUE(owner == context);
    OK(cuPointerGetAttributes(3, attributes, data, (CUdeviceptr)&size));
    GIVES(-2, ordinal);
    TRUE(owner == NULL);
    GIVES(CUDA_ERROR_INVALID_VALUE, cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, 1));
    OK(cuMemPrefetchAsync(managed, 5000, 0, NULL));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemPrefetchAsync(device, 5000, 0, NULL));
}

CASE(old_32_bit_views_saturate)
{
    start();
    unsigned left, total;
    OK(cuMemGetInfo(&left, &total));
    GIVES(UINT32_MAX, total);
    OK(cuDeviceTotalMem(&total, 0));
    GIVES(UINT32_MAX, total);
    CUdeviceptr_v1 pointer;
    GIVES(CUDA_ERROR_NOT_SUPPORTED, cuMemAlloc(&pointer, 100));
    GIVES(104, held());
}
