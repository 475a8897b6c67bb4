#include "check.h"

#define STEP (2 * MIB)

static const CUmemAllocationProp on_card = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
static const CUmemAccessDesc open_access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                                            .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

CASE(physical_memory_lives_until_released_and_unmapped)
{
    start();
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at;
    OK(cuMemCreate(&handle, 64 * MIB, &on_card, 0));
    GIVES(104 + 64, held());
    OK(cuMemAddressReserve(&at, 64 * MIB, 0, 0, 0));
    GIVES(104 + 64, held());
    OK(cuMemMap(at, 64 * MIB, 0, handle, 0));
    OK(cuMemRelease(handle));
    GIVES(104 + 64, held());
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemMap(at, 64 * MIB, 0, handle, 0));
    OK(cuMemUnmap(at, 64 * MIB));
    GIVES(104, held());
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemRelease(handle));
    OK(cuMemAddressFree(at, 64 * MIB));
}

CASE(one_piece_can_lie_at_two_addresses)
{
    start();
    CUmemGenericAllocationHandle handle;
    CUdeviceptr a, b;
    unsigned value = 0;
    OK(cuMemCreate(&handle, STEP, &on_card, 0));
    OK(cuMemAddressReserve(&a, STEP, 0, 0, 0));
    OK(cuMemAddressReserve(&b, STEP, 0, 0, 0));
    OK(cuMemMap(a, STEP, 0, handle, 0));
    OK(cuMemMap(b, STEP, 0, handle, 0));
    OK(cuMemSetAccess(a, STEP, &open_access, 1));
    OK(cuMemSetAccess(b, STEP, &open_access, 1));
    OK(cuMemsetD32_v2(a + 4096, 77, 1));
    OK(cuMemcpyDtoH_v2(&value, b + 4096, 4));
    GIVES(77, value);
    OK(cuMemUnmap(a, STEP));
    OK(cuMemRelease(handle));
    GIVES(106, held());
    OK(cuMemUnmap(b, STEP));
    GIVES(104, held());
}

CASE(pieces_are_apart)
{
    start();
    CUmemGenericAllocationHandle first, second;
    CUdeviceptr at;
    unsigned value;
    OK(cuMemCreate(&first, STEP, &on_card, 0));
    OK(cuMemCreate(&second, STEP, &on_card, 0));
    OK(cuMemAddressReserve(&at, 2 * STEP, 0, 0, 0));
    OK(cuMemMap(at, STEP, 0, first, 0));
    OK(cuMemMap(at + STEP, STEP, 0, second, 0));
    OK(cuMemSetAccess(at, 2 * STEP, &open_access, 1));
    OK(cuMemsetD32_v2(at, 1, STEP / 4));
    OK(cuMemcpyDtoH_v2(&value, at + STEP, 4));
    GIVES(0, value);
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(at, STEP + 4096));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(at, 2 * STEP));
    OK(cuMemUnmap(at, 2 * STEP));
    GIVES(108, held()); // the handles hold it
    // new memory is clean, also where an old piece was
    CUmemGenericAllocationHandle third;
    OK(cuMemRelease(first));
    OK(cuMemCreate(&third, STEP, &on_card, 0));
    OK(cuMemMap(at, STEP, 0, third, 0));
    OK(cuMemSetAccess(at, STEP, &open_access, 1));
    OK(cuMemcpyDtoH_v2(&value, at, 4));
    GIVES(0, value);
}

CASE(access_is_asked_for)
{
    start();
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at;
    unsigned long long flags;
    const CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
    OK(cuMemCreate(&handle, STEP, &on_card, 0));
    OK(cuMemAddressReserve(&at, STEP, 0, 0, 0));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemSetAccess(at, STEP, &open_access, 1));
    OK(cuMemMap(at, STEP, 0, handle, 0));
    OK(cuMemGetAccess(&flags, &here, at));
    GIVES(CU_MEM_ACCESS_FLAGS_PROT_NONE, flags);
    OK(cuMemSetAccess(at, STEP, &open_access, 1));
    OK(cuMemGetAccess(&flags, &here, at));
    GIVES(CU_MEM_ACCESS_FLAGS_PROT_READWRITE, flags);
}

CASE(a_handle_can_be_had_from_an_address)
{
    start();
    CUmemGenericAllocationHandle handle, again;
    CUmemAllocationProp props;
    CUdeviceptr at;
    OK(cuMemCreate(&handle, STEP, &on_card, 0));
    OK(cuMemAddressReserve(&at, STEP, 0, 0, 0));
    OK(cuMemMap(at, STEP, 0, handle, 0));
    OK(cuMemRetainAllocationHandle(&again, (void *)(at + 100)));
    TRUE(again == handle);
    OK(cuMemGetAllocationPropertiesFromHandle(&props, again));
    GIVES(CU_MEM_LOCATION_TYPE_DEVICE, props.location.type);
    OK(cuMemUnmap(at, STEP));
    OK(cuMemRelease(handle));
    GIVES(106, held());
    OK(cuMemRelease(again));
    GIVES(104, held());
}

CASE(shared_memory_travels_as_a_descriptor)
{
    start();
    CUmemAllocationProp props = on_card;
    props.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    CUmemGenericAllocationHandle handle, imported;
    CUdeviceptr a, b;
    int descriptor;
    unsigned value;
    OK(cuMemCreate(&handle, STEP, &props, 0));
    OK(cuMemExportToShareableHandle(&descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    OK(cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)descriptor,
                                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    OK(close(descriptor));
    GIVES(106, held());
    OK(cuMemAddressReserve(&a, STEP, 0, 0, 0));
    OK(cuMemAddressReserve(&b, STEP, 0, 0, 0));
    OK(cuMemMap(a, STEP, 0, handle, 0));
    OK(cuMemMap(b, STEP, 0, imported, 0));
    OK(cuMemSetAccess(a, STEP, &open_access, 1));
    OK(cuMemSetAccess(b, STEP, &open_access, 1));
    OK(cuMemsetD32_v2(a, 5, 1));
    OK(cuMemcpyDtoH_v2(&value, b, 4));
    GIVES(5, value);
    CUmemGenericAllocationHandle private_one;
    OK(cuMemCreate(&private_one, STEP, &on_card, 0));
    GIVES(CUDA_ERROR_INVALID_VALUE,
          cuMemExportToShareableHandle(&descriptor, private_one, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
}

CASE(sizes_are_multiples_of_the_granularity)
{
    start();
    CUmemGenericAllocationHandle handle;
    size_t granularity;
    CUdeviceptr at;
    OK(cuMemGetAllocationGranularity(&granularity, &on_card, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    GIVES(STEP, granularity);
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&handle, STEP + 1, &on_card, 0));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&handle, 0, &on_card, 0));
    GIVES(CUDA_ERROR_OUT_OF_MEMORY, cuMemCreate(&handle, 16384 * MIB, &on_card, 0));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemAddressReserve(&at, 100, 0, 0, 0));
    OK(cuMemAddressReserve(&at, STEP, 1 << 30, 0, 0));
    GIVES(0, at % (1 << 30));
    CUmemAllocationProp wrong = on_card;
    wrong.location.id = 9;
    GIVES(CUDA_ERROR_INVALID_DEVICE, cuMemCreate(&handle, STEP, &wrong, 0));
}

CASE(host_memory_takes_no_room_on_the_card)
{
    start();
    CUmemAllocationProp props = on_card;
    CUmemGenericAllocationHandle handle;
    props.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
    OK(cuMemCreate(&handle, 64 * MIB, &props, 0));
    GIVES(104, taken());
}

CASE(thousands_of_pieces_need_no_thousands_of_descriptors)
{
    start();
    static CUmemGenericAllocationHandle handles[5000];
    for (int i = 0; i < 5000; i++)
        OK(cuMemCreate(&handles[i], STEP, &on_card, 0));
    GIVES(104 + 10000, held());
    TRUE(dup(0) < 100);
    for (int i = 0; i < 5000; i++)
        OK(cuMemRelease(handles[i]));
    GIVES(104, held());
}
