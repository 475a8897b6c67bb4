// Physical memory by cuMemCreate: it lives until it is released and unmapped.
#include "way.h"

static const CUmemAllocationProp on_the_card = {
    .type = CU_MEM_ALLOCATION_TYPE_PINNED,
    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
};

static void vmm_create(void)
{
    open_card();
    CUmemGenericAllocationHandle handle;
    while (wanting() && granted("cuMemCreate", cuMemCreate(&handle, PIECE, &on_the_card, 0), PIECE))
        ;
}

// The handle is given back, the mapping keeps the memory.
static void vmm_map_and_release(void)
{
    open_card();
    CUdeviceptr range;
    need("cuMemAddressReserve", cuMemAddressReserve(&range, goal + PIECE, 0, 0, 0));
    for (CUdeviceptr at = range; wanting(); at += PIECE) {
        CUmemGenericAllocationHandle handle;
        if (!granted("cuMemCreate", cuMemCreate(&handle, PIECE, &on_the_card, 0), PIECE))
            return;
        need("cuMemMap", cuMemMap(at, PIECE, 0, handle, 0));
        need("cuMemRelease", cuMemRelease(handle));
    }
}

// The other order: a second handle of the mapping outlives the first and the mapping.
static void vmm_retain(void)
{
    open_card();
    CUdeviceptr range;
    need("cuMemAddressReserve", cuMemAddressReserve(&range, PIECE, 0, 0, 0));
    while (wanting()) {
        CUmemGenericAllocationHandle handle, again;
        if (!granted("cuMemCreate", cuMemCreate(&handle, PIECE, &on_the_card, 0), PIECE))
            return;
        need("cuMemMap", cuMemMap(range, PIECE, 0, handle, 0));
        need("cuMemRetainAllocationHandle", cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)range));
        need("cuMemRelease", cuMemRelease(handle));
        need("cuMemUnmap", cuMemUnmap(range, PIECE));
    }
}

const struct way vmm_ways[] = {
    {"vmm_create", vmm_create},
    {"vmm_map_and_release", vmm_map_and_release},
    {"vmm_retain", vmm_retain},
    {0},
};
