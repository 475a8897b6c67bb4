// What CUDA says of the card's memory; nvml_memory.c says the same by NVML.
#include "view.h"

#include "arithmetic.h"
#include "cards.h"
#include "driver.h"
#include "footprint.h"
#include "graph.h"
#include "ledger.h"
#include "member.h"
#include "pool.h"
#include "slice.h"

uint64_t view_total(int card, uint64_t real_total)
{
    return card == CARD_FOREIGN ? 0 : least(slice_vram((unsigned)card), real_total);
}

struct view view_of(int card, uint64_t real_total, uint64_t real_free)
{
    struct view view = {.total = view_total(card, real_total)};
    if (card == CARD_FOREIGN)
        return view;
    pool_refresh(card);
    graph_refresh(card);
    member_reap(false);
    uint64_t used = ledger_used(slice()->usage, (unsigned)card);
    // a slice that was shrunk below its use is full, not less than empty
    view.used = least(used, view.total);
    view.free = least(view.total - view.used, real_free);
    return view;
}

CUresult cuMemGetInfo_v2(size_t *free, size_t *total)
{
    size_t real_free = 0, real_total = 0;
    enum driver_mode mode = cuda_enter();
    CUresult result = REAL(cuMemGetInfo_v2)(&real_free, &real_total);
    if (result != CUDA_SUCCESS)
        return result;
    int card = mode == DRIVER_ACTIVE ? cards_current() : CARD_NONE;
    struct view view = {.total = real_total, .free = real_free};
    if (card != CARD_NONE)
        view = view_of(card, real_total, real_free);
    if (free)
        *free = view.free;
    if (total)
        *total = view.total;
    return result;
}

// The first version counts in 32 bits.
CUresult cuMemGetInfo(unsigned int *free, unsigned int *total)
{
    size_t wide_free, wide_total;
    if (cuda_enter() != DRIVER_ACTIVE)
        return REAL(cuMemGetInfo)(free, total);
    CUresult result = cuMemGetInfo_v2(&wide_free, &wide_total);
    if (result == CUDA_SUCCESS && free)
        *free = (unsigned)least(wide_free, UINT32_MAX);
    if (result == CUDA_SUCCESS && total)
        *total = (unsigned)least(wide_total, UINT32_MAX);
    return result;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
    enum driver_mode mode = cuda_enter();
    CUresult result = REAL(cuDeviceTotalMem_v2)(bytes, dev);
    int card = result == CUDA_SUCCESS && mode == DRIVER_ACTIVE ? cards_accounted(dev) : CARD_NONE;
    if (card != CARD_NONE)
        *bytes = view_total(card, *bytes);
    return result;
}

CUresult cuDeviceTotalMem(unsigned int *bytes, CUdevice dev)
{
    size_t wide;
    if (cuda_enter() != DRIVER_ACTIVE)
        return REAL(cuDeviceTotalMem)(bytes, dev);
    CUresult result = bytes ? cuDeviceTotalMem_v2(&wide, dev) : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *bytes = (unsigned)least(wide, UINT32_MAX);
    return result;
}
