// Modules: loaded as a whole, or piece by piece under CUDA_MODULE_LOADING=LAZY.  Libraries are library.c's.
#include "module.h"

#include "cards.h"
#include "driver.h"

CUresult load_before(struct measure *measure)
{
    measure->card = CARD_NONE;
    switch (cuda_enter()) {
    case DRIVER_REFUSE:
        return CUDA_ERROR_NOT_PERMITTED;
    case DRIVER_ACTIVE:
        footprint_before(measure, cards_current());
        return CUDA_SUCCESS;
    default:
        return CUDA_SUCCESS;
    }
}

bool load_too_big(const struct measure *measure, uint64_t *cost)
{
    *cost = footprint_after(measure);
    return measure->card >= 0 && charge_over_limit(measure->card);
}

static CUresult loaded(CUresult result, CUmodule *module, const struct measure *measure, const char *call)
{
    uint64_t cost;
    if (result != CUDA_SUCCESS || measure->card < 0)
        return result;
    if (load_too_big(measure, &cost)) {
        REAL(cuModuleUnload)(*module);
        footprint_forget(measure->card, cost);
        footprint_refresh(measure->card);
        return charge_undone(measure->card, 0, call);
    }
    CUcontext context = NULL;
    REAL(cuCtxGetCurrent)(&context);
    if (cost)
        objects_put(&(struct object){.key = (uint64_t)(uintptr_t)*module,
                                     .kind = OBJECT_MODULE,
                                     .card = (int16_t)measure->card,
                                     .owner = (uint64_t)(uintptr_t)context,
                                     .value = cost});
    return result;
}

#define LOAD_MODULE(call_driver)                                                                                       \
    struct measure measure;                                                                                            \
    CUresult refused = load_before(&measure);                                                                          \
    if (refused != CUDA_SUCCESS)                                                                                       \
        return refused;                                                                                                \
    return loaded(call_driver, module, &measure, __func__)

CUresult cuModuleLoad(CUmodule *module, const char *fname)
{
    LOAD_MODULE(REAL(cuModuleLoad)(module, fname));
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    LOAD_MODULE(REAL(cuModuleLoadData)(module, image));
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int numOptions, CUjit_option *options,
                            void **optionValues)
{
    LOAD_MODULE(REAL(cuModuleLoadDataEx)(module, image, numOptions, options, optionValues));
}

CUresult cuModuleLoadFatBinary(CUmodule *module, const void *fatCubin)
{
    LOAD_MODULE(REAL(cuModuleLoadFatBinary)(module, fatCubin));
}

CUresult cuModuleUnload(CUmodule hmod)
{
    bool active = cuda_enter() == DRIVER_ACTIVE;
    int card = active ? cards_current() : CARD_NONE;
    struct object cost;
    CUresult result = REAL(cuModuleUnload)(hmod);
    if (result != CUDA_SUCCESS || !active)
        return result;
    if (objects_take(OBJECT_MODULE, (uint64_t)(uintptr_t)hmod, &cost))
        footprint_forget(cost.card, cost.value);
    if (card >= 0)
        footprint_refresh(card);
    return result;
}

// With lazy loading these bring a part of the module in.  A part can't be taken out again: the call is refused, and what came
// stays charged until the module goes.
static CUresult brought_in(CUresult result, const struct measure *measure, const char *call)
{
    uint64_t cost;
    if (result == CUDA_SUCCESS && measure->card >= 0 && load_too_big(measure, &cost))
        return charge_undone(measure->card, 0, call);
    return result;
}

#define BRING_IN(call_driver)                                                                                          \
    struct measure measure;                                                                                            \
    CUresult refused = load_before(&measure);                                                                          \
    if (refused != CUDA_SUCCESS)                                                                                       \
        return refused;                                                                                                \
    return brought_in(call_driver, &measure, __func__)

CUresult cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name)
{
    BRING_IN(REAL(cuModuleGetFunction)(hfunc, hmod, name));
}

CUresult cuModuleGetGlobal(CUdeviceptr_v1 *dptr, unsigned int *bytes, CUmodule hmod, const char *name)
{
    BRING_IN(REAL(cuModuleGetGlobal)(dptr, bytes, hmod, name));
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *dptr, size_t *bytes, CUmodule hmod, const char *name)
{
    BRING_IN(REAL(cuModuleGetGlobal_v2)(dptr, bytes, hmod, name));
}

CUresult cuModuleGetTexRef(CUtexref *pTexRef, CUmodule hmod, const char *name)
{
    BRING_IN(REAL(cuModuleGetTexRef)(pTexRef, hmod, name));
}

CUresult cuModuleGetSurfRef(CUsurfref *pSurfRef, CUmodule hmod, const char *name)
{
    BRING_IN(REAL(cuModuleGetSurfRef)(pSurfRef, hmod, name));
}

CUresult cuFuncLoad(CUfunction function)
{
    BRING_IN(REAL(cuFuncLoad)(function));
}
