// What a context may take beyond itself: stacks, and access to other cards' memory.  The kernels' heap is heap.c's.
#include "cards.h"
#include "charge.h"
#include "driver.h"
#include "footprint.h"
#include "heap.h"

// A larger stack is allocated for every thread the card can run, inside the call.
CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
    switch (cuda_enter()) {
    case DRIVER_REFUSE:
        return CUDA_ERROR_NOT_PERMITTED;
    case DRIVER_ACTIVE:
        break;
    default:
        return REAL(cuCtxSetLimit)(limit, value);
    }
    if (limit == CU_LIMIT_MALLOC_HEAP_SIZE)
        return heap_set_limit(value, __func__);
    struct measure measure;
    size_t old = 0;
    footprint_before(&measure, cards_current());
    bool known = REAL(cuCtxGetLimit)(&old, limit) == CUDA_SUCCESS;
    CUresult result = REAL(cuCtxSetLimit)(limit, value);
    if (result != CUDA_SUCCESS || measure.card < 0)
        return result;
    uint64_t cost = footprint_after(&measure);
    if (!known || value <= old || !charge_over_limit(measure.card))
        return result;
    REAL(cuCtxSetLimit)(limit, old);
    footprint_forget(measure.card, cost);
    footprint_refresh(measure.card);
    return charge_undone(measure.card, 0, __func__);
}

CUresult cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags)
{
    bool active = cuda_enter() == DRIVER_ACTIVE;
    CUresult result = REAL(cuCtxEnablePeerAccess)(peerContext, Flags);
    int card = active ? cards_current() : CARD_NONE;
    if (card >= 0)
        footprint_doubt(card);
    return result;
}

CUresult cuCtxDisablePeerAccess(CUcontext peerContext)
{
    bool active = cuda_enter() == DRIVER_ACTIVE;
    CUresult result = REAL(cuCtxDisablePeerAccess)(peerContext);
    int card = active ? cards_current() : CARD_NONE;
    if (card >= 0)
        footprint_doubt(card);
    return result;
}
