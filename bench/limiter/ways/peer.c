// A second card, reached from the first: its memory counts there, whoever uses it.
#include "way.h"

static int cards;
static CUcontext contexts[2]; // of the first card, and of another one
static CUmemoryPool pool;
static CUstream stream;

// Both cards open, the first one current and able to reach the other.
static void open_pair(void)
{
    CUdevice other;
    open_card();
    need("cuCtxGetCurrent", cuCtxGetCurrent(&contexts[0]));
    need("cuDeviceGetCount", cuDeviceGetCount(&cards));
    if (cards < 2) {
        note("there is one card only");
        hold();
    }
    need("cuDeviceGet", cuDeviceGet(&other, cards - 1));
    need("cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain(&contexts[1], other));
    CUresult result = cuCtxEnablePeerAccess(contexts[1], 0);
    if (result != CUDA_SUCCESS)
        note("cuCtxEnablePeerAccess answers %d", (int)result);
}

static void second_card(void)
{
    open_pair();
    need("cuCtxSetCurrent", cuCtxSetCurrent(contexts[1]));
    fill(goal);
}

// Both cards' memory is mapped into both contexts.
static void peer_both(void)
{
    open_pair();
    fill(limit / 2);
    need("cuCtxSetCurrent", cuCtxSetCurrent(contexts[1]));
    CUresult result = cuCtxEnablePeerAccess(contexts[0], 0);
    if (result != CUDA_SUCCESS)
        note("cuCtxEnablePeerAccess answers %d", (int)result);
    fill(goal);
}

static CUresult alloc_from_far_pool(CUdeviceptr *pointer, size_t bytes)
{
    return cuMemAllocFromPoolAsync(pointer, bytes, pool, stream);
}

// Taken in a stream of the first card, from a pool of the other that the first may reach.
static void peer_pool(void)
{
    open_pair();
    CUmemPoolProps props = {
        .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = cards - 1},
    };
    CUmemAccessDesc first = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                             .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    need("cuStreamCreate", cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    need("cuMemPoolCreate", cuMemPoolCreate(&pool, &props));
    CUresult result = cuMemPoolSetAccess(pool, &first, 1);
    if (result != CUDA_SUCCESS)
        note("cuMemPoolSetAccess answers %d", (int)result);
    fill_by("cuMemAllocFromPoolAsync", alloc_from_far_pool, goal, PIECE);
    cuStreamSynchronize(stream);
}

// Physical memory of the other card, mapped for the first.
static void peer_physical(void)
{
    open_pair();
    CUmemAllocationProp props = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = cards - 1}};
    CUmemAccessDesc first = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                             .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr range;
    need("cuMemAddressReserve", cuMemAddressReserve(&range, goal + PIECE, 0, 0, 0));
    for (CUdeviceptr at = range; wanting(); at += PIECE) {
        CUmemGenericAllocationHandle handle;
        if (!granted("cuMemCreate", cuMemCreate(&handle, PIECE, &props, 0), PIECE))
            return;
        need("cuMemMap", cuMemMap(at, PIECE, 0, handle, 0));
        need("cuMemSetAccess", cuMemSetAccess(at, PIECE, &first, 1));
        need("cuMemRelease", cuMemRelease(handle));
    }
}

const struct way peer_ways[] = {
    {"second_card", second_card},
    {"peer_both", peer_both},
    {"peer_pool", peer_pool},
    {"peer_physical", peer_physical},
    {0},
};
