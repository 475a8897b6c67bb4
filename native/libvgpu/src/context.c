// Contexts and their limits: what they take is known only afterwards.  Made, measured, and unmade again if it doesn't fit.
// When a context goes, the driver frees everything that was allocated in it, and so do we.
#include "cards.h"
#include "charge.h"
#include "driver.h"
#include "footprint.h"

// Before: may this device be used, and what does it hold.
static CUresult before(struct measure *measure, CUdevice device, const char *call)
{
    measure->card = CARD_NONE;
    switch (cuda_enter()) {
    case DRIVER_REFUSE:
        return CUDA_ERROR_NOT_PERMITTED;
    case DRIVER_ACTIVE:
        break;
    default:
        return CUDA_SUCCESS;
    }
    int card = cards_accounted(device);
    if (card == CARD_FOREIGN)
        return CUDA_ERROR_OUT_OF_MEMORY;
    footprint_before(measure, card);
    // a slice that is full already gets no context for nothing
    if (card >= 0 && charge_over_limit(card))
        return charge_refuse(card, 0, call);
    measure->makes_context = true;
    return CUDA_SUCCESS;
}

static void remember(const void *context, int card, uint64_t cost)
{
    objects_put(&(struct object){
        .key = (uint64_t)(uintptr_t)context, .kind = OBJECT_CONTEXT, .card = (int16_t)card, .value = cost});
}

// Which card a context was made on.  The driver is not asked: the program may be wrong about the handle.
static int card_of(const void *context)
{
    struct object object;
    bool known = cuda_enter() == DRIVER_ACTIVE && objects_find(OBJECT_CONTEXT, (uint64_t)(uintptr_t)context, &object);
    return known ? object.card : CARD_NONE;
}

static void drop(const struct object *object)
{
    if (object->kind == OBJECT_MODULE)
        footprint_forget(object->card, object->value);
    else
        charge_drop(object);
}

// Around the driver's destruction of a context.
static void leaving(int card)
{
    if (card >= 0)
        footprint_enter(card);
}

static void stayed(int card)
{
    if (card >= 0)
        footprint_leave(card);
}

static void gone(CUcontext context, int card)
{
    struct object cost;
    if (card < 0)
        return;
    objects_drop_owned((uint64_t)(uintptr_t)context, drop);
    if (objects_take(OBJECT_CONTEXT, (uint64_t)(uintptr_t)context, &cost))
        footprint_forget(card, cost.value);
    footprint_leave(card);
    footprint_refresh(card);
}

static CUresult created(CUresult result, CUcontext *context, const struct measure *measure, const char *call)
{
    if (result != CUDA_SUCCESS || measure->card < 0)
        return result;
    remember(*context, measure->card, footprint_after(measure));
    if (!charge_over_limit(measure->card))
        return result;
    leaving(measure->card);
    REAL(cuCtxDestroy_v2)(*context);
    gone(*context, measure->card);
    return charge_undone(measure->card, 0, call);
}

#define CREATE_CONTEXT(call_driver)                                                                                    \
    struct measure measure;                                                                                            \
    CUresult refused = before(&measure, dev, __func__);                                                                \
    if (refused != CUDA_SUCCESS)                                                                                       \
        return refused;                                                                                                \
    return created(call_driver, pctx, &measure, __func__)

CUresult cuCtxCreate(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
    CREATE_CONTEXT(REAL(cuCtxCreate)(pctx, flags, dev));
}

CUresult cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
    CREATE_CONTEXT(REAL(cuCtxCreate_v2)(pctx, flags, dev));
}

CUresult cuCtxCreate_v3(CUcontext *pctx, CUexecAffinityParam *paramsArray, int numParams, unsigned int flags,
                        CUdevice dev)
{
    CREATE_CONTEXT(REAL(cuCtxCreate_v3)(pctx, paramsArray, numParams, flags, dev));
}

CUresult cuCtxCreate_v4(CUcontext *pctx, CUctxCreateParams *ctxCreateParams, unsigned int flags, CUdevice dev)
{
    CREATE_CONTEXT(REAL(cuCtxCreate_v4)(pctx, ctxCreateParams, flags, dev));
}

static CUresult destroyed(CUresult result, CUcontext context, int card)
{
    if (result == CUDA_SUCCESS)
        gone(context, card);
    else
        stayed(card);
    return result;
}

CUresult cuCtxDestroy(CUcontext ctx)
{
    int card = card_of(ctx);
    leaving(card);
    cuda_enter();
    return destroyed(REAL(cuCtxDestroy)(ctx), ctx, card);
}

CUresult cuCtxDestroy_v2(CUcontext ctx)
{
    int card = card_of(ctx);
    leaving(card);
    cuda_enter();
    return destroyed(REAL(cuCtxDestroy_v2)(ctx), ctx, card);
}

CUresult cuCtxDetach(CUcontext ctx)
{
    int card = card_of(ctx);
    leaving(card);
    cuda_enter();
    CUresult result = REAL(cuCtxDetach)(ctx);
    // it only counts down: a context that stays current after it lives on, and a dead one must not be asked
    CUcontext current = ctx;
    REAL(cuCtxGetCurrent)(&current);
    if (result == CUDA_SUCCESS && current != ctx)
        return destroyed(result, ctx, card);
    stayed(card);
    return result;
}

// ---- the primary context -------------------------------------------------------------------------------------------------

static bool primary_is_active(CUdevice device)
{
    unsigned flags;
    int active = 0;
    return REAL(cuDevicePrimaryCtxGetState)(device, &flags, &active) == CUDA_SUCCESS && active;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)
{
    enum driver_mode mode = cuda_enter();
    if (mode == DRIVER_PASS || (mode == DRIVER_ACTIVE && primary_is_active(dev)))
        return REAL(cuDevicePrimaryCtxRetain)(pctx, dev);
    struct measure measure;
    CUresult refused = before(&measure, dev, __func__);
    if (refused != CUDA_SUCCESS)
        return refused;
    CUresult result = REAL(cuDevicePrimaryCtxRetain)(pctx, dev);
    if (result != CUDA_SUCCESS || measure.card < 0)
        return result;
    remember(*pctx, measure.card, footprint_after(&measure));
    if (!charge_over_limit(measure.card))
        return result;
    leaving(measure.card);
    REAL(cuDevicePrimaryCtxRelease_v2)(dev);
    gone(*pctx, measure.card);
    return charge_undone(measure.card, 0, __func__);
}

struct primary {
    int card;
    CUcontext context;
};

// Its handle can only be learnt by retaining it, which is undone at once.
static struct primary primary_before(CUdevice device)
{
    struct primary primary = {.card = CARD_NONE};
    if (cuda_enter() != DRIVER_ACTIVE || !primary_is_active(device) ||
        REAL(cuDevicePrimaryCtxRetain)(&primary.context, device) != CUDA_SUCCESS)
        return primary;
    REAL(cuDevicePrimaryCtxRelease_v2)(device);
    primary.card = cards_accounted(device);
    leaving(primary.card);
    return primary;
}

static CUresult primary_after(CUresult result, bool is_gone, const struct primary *primary)
{
    if (result == CUDA_SUCCESS && is_gone)
        gone(primary->context, primary->card);
    else
        stayed(primary->card);
    return result;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice dev)
{
    struct primary primary = primary_before(dev);
    CUresult result = REAL(cuDevicePrimaryCtxRelease)(dev);
    return primary_after(result, primary.card >= 0 && !primary_is_active(dev), &primary);
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
    struct primary primary = primary_before(dev);
    CUresult result = REAL(cuDevicePrimaryCtxRelease_v2)(dev);
    return primary_after(result, primary.card >= 0 && !primary_is_active(dev), &primary);
}

// A reset frees everything, and leaves the context retained but inactive.
CUresult cuDevicePrimaryCtxReset(CUdevice dev)
{
    struct primary primary = primary_before(dev);
    return primary_after(REAL(cuDevicePrimaryCtxReset)(dev), true, &primary);
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
    struct primary primary = primary_before(dev);
    return primary_after(REAL(cuDevicePrimaryCtxReset_v2)(dev), true, &primary);
}

// ---- what else a context may take -------------------------------------------------------------------------------------------

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

CUresult cuGreenCtxCreate(CUgreenCtx *phCtx, CUdevResourceDesc desc, CUdevice dev, unsigned int flags)
{
    struct measure measure;
    CUresult refused = before(&measure, dev, __func__);
    if (refused != CUDA_SUCCESS)
        return refused;
    CUresult result = REAL(cuGreenCtxCreate)(phCtx, desc, dev, flags);
    if (result != CUDA_SUCCESS || measure.card < 0)
        return result;
    uint64_t cost = footprint_after(&measure);
    if (!charge_over_limit(measure.card)) {
        remember(*phCtx, measure.card, cost);
        return result;
    }
    REAL(cuGreenCtxDestroy)(*phCtx);
    footprint_forget(measure.card, cost);
    footprint_refresh(measure.card);
    return charge_undone(measure.card, 0, __func__);
}

CUresult cuGreenCtxDestroy(CUgreenCtx hCtx)
{
    int card = card_of(hCtx);
    CUcontext context = NULL;
    struct object cost;
    if (card < 0)
        return REAL(cuGreenCtxDestroy)(hCtx);
    leaving(card);
    REAL(cuCtxFromGreenCtx)(&context, hCtx);
    CUresult result = REAL(cuGreenCtxDestroy)(hCtx);
    if (result == CUDA_SUCCESS && objects_take(OBJECT_CONTEXT, (uint64_t)(uintptr_t)hCtx, &cost))
        footprint_forget(card, cost.value);
    return destroyed(result, context, card);
}
