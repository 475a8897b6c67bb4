// Contexts: what one costs is reserved before it is made (context_cost.c), and what it really took is known afterwards.
// When a context goes, the driver frees everything that was allocated in it, and so do we.
// Neighbour: limit.c has what else a context may take.
#include <pthread.h>

#include "cards.h"
#include "charge.h"
#include "context.h"
#include "context_cost.h"
#include "driver.h"
#include "footprint.h"
#include "heap.h"
#include "library.h"
#include "pool.h"
#include "stamps.h"

// Before: may this device be used, and is there room.
static CUresult before(struct context_cost *cost, CUdevice device, const char *call)
{
    switch (cuda_enter()) {
    case DRIVER_REFUSE:
        return CUDA_ERROR_NOT_PERMITTED;
    case DRIVER_ACTIVE:
        return context_cost_reserve(cost, cards_accounted(device), call);
    default:
        return context_cost_reserve(cost, CARD_NONE, call);
    }
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
    library_context_gone(context);
    stamps_context_gone(context);
    pool_forget_current();
    if (card < 0)
        return;
    objects_drop_owned((uint64_t)(uintptr_t)context, drop);
    heap_forget(context);
    if (objects_take(OBJECT_CONTEXT, (uint64_t)(uintptr_t)context, &cost))
        footprint_forget(card, cost.value);
    footprint_leave(card);
    footprint_refresh(card);
}

// Too big only if it took more than others of its kind, or if it is the first.
static CUresult created(CUresult result, CUcontext *context, struct context_cost *cost, const char *call)
{
    int card = cost->charge.card;
    uint64_t bytes = context_cost_settle(cost, result == CUDA_SUCCESS);
    if (result == CUDA_SUCCESS)
        library_context_made();
    if (result != CUDA_SUCCESS || card < 0)
        return result;
    remember(*context, card, bytes);
    if (!charge_over_limit(card))
        return result;
    leaving(card);
    REAL(cuCtxDestroy_v2)(*context);
    gone(*context, card);
    return charge_undone(card, 0, call);
}

#define CREATE_CONTEXT(call_driver)                                                                                    \
    struct context_cost cost;                                                                                          \
    CUresult refused = before(&cost, dev, __func__);                                                                   \
    if (refused != CUDA_SUCCESS)                                                                                       \
        return refused;                                                                                                \
    return created(call_driver, pctx, &cost, __func__)

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

// Of several threads one makes it: the others would reserve for nothing.
static pthread_mutex_t making_primary = PTHREAD_MUTEX_INITIALIZER;

static CUresult make_primary(CUcontext *pctx, CUdevice dev, const char *call)
{
    struct context_cost cost;
    CUresult refused = before(&cost, dev, call);
    if (refused != CUDA_SUCCESS)
        return refused;
    int card = cost.charge.card;
    CUresult result = REAL(cuDevicePrimaryCtxRetain)(pctx, dev);
    uint64_t bytes = context_cost_settle(&cost, result == CUDA_SUCCESS);
    if (result == CUDA_SUCCESS)
        library_context_made();
    if (result != CUDA_SUCCESS || card < 0)
        return result;
    remember(*pctx, card, bytes);
    if (!charge_over_limit(card))
        return result;
    leaving(card);
    REAL(cuDevicePrimaryCtxRelease_v2)(dev);
    gone(*pctx, card);
    return charge_undone(card, 0, call);
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)
{
    enum driver_mode mode = cuda_enter();
    if (mode == DRIVER_PASS || (mode == DRIVER_ACTIVE && primary_is_active(dev)))
        return REAL(cuDevicePrimaryCtxRetain)(pctx, dev);
    pthread_mutex_lock(&making_primary);
    CUresult result = mode == DRIVER_ACTIVE && primary_is_active(dev) ? REAL(cuDevicePrimaryCtxRetain)(pctx, dev)
                                                                      : make_primary(pctx, dev, __func__);
    pthread_mutex_unlock(&making_primary);
    return result;
}

void context_after_fork(void)
{
    pthread_mutex_init(&making_primary, NULL);
    context_cost_after_fork();
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

// ---- green contexts ----------------------------------------------------------------------------------------------------

// They live in the primary context and keep it.  Where there is none it is made first, by the same rules as any other; what a
// green context takes beside it is seen afterwards.
static CUresult create_green(CUgreenCtx *phCtx, CUdevResourceDesc desc, CUdevice dev, unsigned int flags, int card,
                             const char *call)
{
    struct measure measure;
    footprint_before(&measure, card);
    CUresult result = REAL(cuGreenCtxCreate)(phCtx, desc, dev, flags);
    if (result != CUDA_SUCCESS)
        return result;
    library_context_made();
    uint64_t bytes = footprint_after(&measure);
    if (!charge_over_limit(card)) {
        remember(*phCtx, card, bytes);
        return result;
    }
    REAL(cuGreenCtxDestroy)(*phCtx);
    footprint_forget(card, bytes);
    footprint_refresh(card);
    return charge_undone(card, 0, call);
}

CUresult cuGreenCtxCreate(CUgreenCtx *phCtx, CUdevResourceDesc desc, CUdevice dev, unsigned int flags)
{
    enum driver_mode mode = cuda_enter();
    int card = mode == DRIVER_ACTIVE ? cards_accounted(dev) : CARD_NONE;
    if (mode == DRIVER_REFUSE)
        return CUDA_ERROR_NOT_PERMITTED;
    if (card == CARD_FOREIGN)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (card == CARD_NONE || !phCtx)
        return REAL(cuGreenCtxCreate)(phCtx, desc, dev, flags);
    CUcontext primary;
    CUresult result = cuDevicePrimaryCtxRetain(&primary, dev);
    if (result != CUDA_SUCCESS)
        return result;
    result = create_green(phCtx, desc, dev, flags, card, __func__);
    cuDevicePrimaryCtxRelease_v2(dev);
    return result;
}

// What was allocated in it lives on in the primary context, which goes only if nobody else has retained it.
CUresult cuGreenCtxDestroy(CUgreenCtx hCtx)
{
    int card = card_of(hCtx);
    CUdevice device;
    struct object cost;
    if (card < 0 || !cards_device(card, &device))
        return REAL(cuGreenCtxDestroy)(hCtx);
    struct primary primary = primary_before(device);
    CUcontext context = NULL;
    REAL(cuCtxFromGreenCtx)(&context, hCtx);
    CUresult result = REAL(cuGreenCtxDestroy)(hCtx);
    if (result == CUDA_SUCCESS && objects_take(OBJECT_CONTEXT, (uint64_t)(uintptr_t)hCtx, &cost))
        footprint_forget(card, cost.value);
    if (result == CUDA_SUCCESS) {
        library_context_gone(context);
        stamps_context_gone(context);
    }
    bool is_gone = primary.card >= 0 && !primary_is_active(device);
    if (result == CUDA_SUCCESS && is_gone)
        objects_drop_owned((uint64_t)(uintptr_t)context, drop);
    primary_after(result, is_gone, &primary);
    if (result == CUDA_SUCCESS && !is_gone)
        footprint_refresh(card);
    return result;
}
