// Libraries: nothing is in VRAM at load, everything the moment a first kernel, module or global of it is asked for.
// If that is too much, the library is unloaded at once and its handles stay dead: every call that takes one of them answers
// CUDA_ERROR_OUT_OF_MEMORY instead of reaching the driver.  A library of which something was used before is not unloaded under
// the program's feet: the call is refused and the charge stays.
// What it took is learnt then, and reserved before it comes into a further context, where nothing could be undone.
// A kernel is in VRAM per context: once seen there, a launch or cuKernelGetFunction asks nothing more.
// Owns: OBJECT_LIBRARY, OBJECT_KERNEL and OBJECT_LOADED records.  Neighbour: kernel.c has the calls that take no VRAM.
#include "library.h"

#include "capture.h"
#include "cards.h"
#include "driver.h"
#include "member.h"
#include "module.h"
#include "slice.h"

// `bytes` of a library's record is what it took where it came in first; `flags` how many dead ones had its handle before.
enum library_state {
    LIBRARY_FRESH, // nothing of it is in VRAM
    LIBRARY_USED,
    LIBRARY_DEAD, // unloaded by us
};

static struct object library_object(CUlibrary library, enum library_state state)
{
    return (struct object){
        .key = (uint64_t)(uintptr_t)library, .kind = OBJECT_LIBRARY, .card = -1, .value = (uint64_t)state};
}

bool library_is_dead(CUlibrary library)
{
    struct object object;
    return cuda_enter() == DRIVER_ACTIVE && objects_find(OBJECT_LIBRARY, (uint64_t)(uintptr_t)library, &object) &&
           object.value == LIBRARY_DEAD;
}

static CUresult loaded(CUresult result, CUlibrary *library)
{
    if (result == CUDA_SUCCESS && cuda_enter() == DRIVER_ACTIVE) {
        struct object object = library_object(*library, LIBRARY_FRESH), before;
        // the program may hold the same handle still, of one that we unloaded
        if (objects_find(OBJECT_LIBRARY, object.key, &before))
            object.flags = (uint8_t)(before.flags + (before.value == LIBRARY_DEAD));
        objects_put(&object);
    }
    return result;
}

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jitOptions, void **jitOptionsValues,
                           unsigned int numJitOptions, CUlibraryOption *libraryOptions, void **libraryOptionValues,
                           unsigned int numLibraryOptions)
{
    if (cuda_enter() == DRIVER_REFUSE)
        return CUDA_ERROR_NOT_PERMITTED;
    return loaded(REAL(cuLibraryLoadData)(library, code, jitOptions, jitOptionsValues, numJitOptions, libraryOptions,
                                          libraryOptionValues, numLibraryOptions),
                  library);
}

CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *fileName, CUjit_option *jitOptions,
                               void **jitOptionsValues, unsigned int numJitOptions, CUlibraryOption *libraryOptions,
                               void **libraryOptionValues, unsigned int numLibraryOptions)
{
    if (cuda_enter() == DRIVER_REFUSE)
        return CUDA_ERROR_NOT_PERMITTED;
    return loaded(REAL(cuLibraryLoadFromFile)(library, fileName, jitOptions, jitOptionsValues, numJitOptions,
                                              libraryOptions, libraryOptionValues, numLibraryOptions),
                  library);
}

static _Atomic uint32_t unloads;

static void forget(const struct object *object)
{
    if (object->kind == OBJECT_KERNEL && !object->bytes)
        atomic_fetch_sub(&hot.library_waiting, 1);
}

// Of a dead and a living library with the same handle the dead one is unloaded first: what lives isn't taken away.
static bool is_dead_twin(CUlibrary library)
{
    struct object object;
    if (!objects_find(OBJECT_LIBRARY, (uint64_t)(uintptr_t)library, &object) || object.flags == 0)
        return false;
    object.flags--;
    objects_put(&object);
    return true;
}

CUresult cuLibraryUnload(CUlibrary library)
{
    if (cuda_enter() != DRIVER_ACTIVE)
        return REAL(cuLibraryUnload)(library);
    struct object object;
    if (is_dead_twin(library))
        return CUDA_SUCCESS;
    int card = cards_current();
    objects_drop_owned(object_library(library), forget);
    atomic_fetch_add(&unloads, 1);
    if (objects_take(OBJECT_LIBRARY, (uint64_t)(uintptr_t)library, &object) && object.value == LIBRARY_DEAD)
        return CUDA_SUCCESS;
    CUresult result = REAL(cuLibraryUnload)(library);
    // it may have been in contexts of other cards too
    for (unsigned i = 0; i < slice()->limits->card_count && i < HAMI_MAX_CARDS; i++)
        footprint_doubt((int)i);
    if (card >= 0)
        footprint_refresh(card);
    return result;
}

// ---- kernels: `value` is the library, `bytes` 1 once it was brought into any context ------------------------------------
// Those of a dead library wait for ever.

void library_know_kernel(CUkernel kernel, CUlibrary library)
{
    struct object object;
    if (objects_find(OBJECT_KERNEL, (uint64_t)(uintptr_t)kernel, &object) &&
        object.value == (uint64_t)(uintptr_t)library)
        return;
    objects_put(&(struct object){.key = (uint64_t)(uintptr_t)kernel,
                                 .kind = OBJECT_KERNEL,
                                 .card = -1,
                                 .owner = object_library(library),
                                 .value = (uint64_t)(uintptr_t)library});
    atomic_fetch_add(&hot.library_waiting, 1);
}

static CUlibrary library_of(CUkernel kernel)
{
    struct object object;
    if (objects_find(OBJECT_KERNEL, (uint64_t)(uintptr_t)kernel, &object))
        return (CUlibrary)(uintptr_t)object.value;
    CUlibrary library = NULL;
    return CUDA_HAS(cuKernelGetLibrary) && REAL(cuKernelGetLibrary)(&library, kernel) == CUDA_SUCCESS ? library : NULL;
}

bool library_is_dead_kernel(CUkernel kernel)
{
    struct object object;
    return cuda_enter() == DRIVER_ACTIVE && objects_find(OBJECT_KERNEL, (uint64_t)(uintptr_t)kernel, &object) &&
           library_is_dead((CUlibrary)(uintptr_t)object.value);
}

static uint64_t current_context(void)
{
    CUcontext context = NULL;
    REAL(cuCtxGetCurrent)(&context);
    return (uint64_t)(uintptr_t)context;
}

// ---- kernels in contexts: OBJECT_LOADED, keyed by both -----------------------------------------------------------------------

// Handles come again: what was loaded in a context that is gone is void.  Counted by a hash of the handle, so that the others'
// kernels stay known.
#define CONTEXT_HASHES 256
static _Atomic uint32_t contexts_gone[CONTEXT_HASHES];
static _Atomic int contexts_made;
static atomic_flag always_look = ATOMIC_FLAG_INIT;

static _Atomic uint32_t *gone_count(uint64_t context)
{
    return &contexts_gone[(context >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 56];
}

// Of a kernel or a library with the current context.
static uint64_t pair_of(const void *handle)
{
    uint64_t place = current_context();
    place += (uint64_t)atomic_load_explicit(gone_count(place), memory_order_relaxed) << 48;
    uint64_t pair = (place ^ place >> 32) * UINT64_C(0x9e3779b97f4a7c15) ^ (uint64_t)(uintptr_t)handle;
    return pair ? pair : 1;
}

// The last ones of this thread, so that threads that launch the same kernels write no common memory.
#define CACHED 64
static _Thread_local struct {
    uint64_t pair;
    uint32_t unloads;
} cache[CACHED] __attribute__((tls_model("initial-exec")));

static bool is_pair_in_vram(uint64_t pair)
{
    uint32_t now = atomic_load_explicit(&unloads, memory_order_relaxed);
    unsigned place = (unsigned)(pair * UINT64_C(0x9e3779b97f4a7c15) >> 58) % CACHED;
    if (cache[place].pair == pair && cache[place].unloads == now)
        return true;
    struct object object;
    if (!objects_find(OBJECT_LOADED, pair, &object))
        return false;
    cache[place].pair = pair;
    cache[place].unloads = now;
    return true;
}

// NVIDIA's runtime asks for a kernel's function at every launch: only the first time in a context can take VRAM.
static bool is_in_vram(CUkernel kernel)
{
    return is_pair_in_vram(pair_of(kernel));
}

// The same of a library, whichever of its kernels or data was asked for.
static bool is_here(CUlibrary library)
{
    struct object object;
    return objects_find(OBJECT_LOADED, pair_of(library), &object);
}

static void mark_here(CUlibrary library)
{
    objects_put(
        &(struct object){.key = pair_of(library), .kind = OBJECT_LOADED, .card = -1, .owner = object_library(library)});
}

static void mark_in_vram(CUkernel kernel, CUlibrary library)
{
    struct object object;
    library_know_kernel(kernel, library);
    objects_put(
        &(struct object){.key = pair_of(kernel), .kind = OBJECT_LOADED, .card = -1, .owner = object_library(library)});
    // of several threads one takes it; too high a count costs a look at each launch, too low a one would hide a load
    if (!objects_take(OBJECT_KERNEL, (uint64_t)(uintptr_t)kernel, &object))
        return;
    if (!object.bytes)
        atomic_fetch_sub(&hot.library_waiting, 1);
    object.bytes = 1;
    objects_put(&object);
}

// With one context a kernel that was launched once never loads again.  Otherwise every launch has to look.
static void look_at_every_launch(void)
{
    if (!atomic_flag_test_and_set(&always_look))
        atomic_fetch_add(&hot.library_waiting, 1);
}

void library_context_made(void)
{
    if (atomic_fetch_add(&contexts_made, 1) > 0)
        look_at_every_launch();
}

void library_context_gone(const void *context)
{
    atomic_fetch_add(gone_count((uint64_t)(uintptr_t)context), 1);
    look_at_every_launch();
}

// ---- the calls that bring a library in --------------------------------------------------------------------------------------

struct bringing {
    CUlibrary library;
    struct measure measure;
    struct charge charge; // for what is known of it; CARD_NONE: nothing is
    uint64_t overhead;    // before
    const char *call;
};

static uint64_t overhead_now(int card)
{
    struct ledger *ledger = member_ledger();
    return ledger ? atomic_load(&ledger->self->overhead[card]) : 0;
}

static CUresult bring_before(struct bringing *bringing, CUlibrary library, const char *call)
{
    *bringing = (struct bringing){.library = library, .charge = {.card = CARD_NONE}, .call = call};
    CUresult refused = load_before(&bringing->measure);
    int card = bringing->measure.card;
    struct object object;
    if (refused != CUDA_SUCCESS || card < 0 || !objects_find(OBJECT_LIBRARY, (uint64_t)(uintptr_t)library, &object))
        return refused;
    if (object.value == LIBRARY_FRESH)
        footprint_refresh(card);
    else if (object.bytes && !is_here(library))
        refused = charge_exactly(&bringing->charge, card, object.bytes, call);
    // until it is overhead: the driver's figure doesn't show it yet
    charge_mark_managed(&bringing->charge);
    bringing->overhead = overhead_now(card);
    return refused;
}

// What it took is overhead now, and is no longer reserved.  True: the slice holds too much.
static bool is_too_big(struct bringing *bringing, uint64_t *cost)
{
    struct charge *charge = &bringing->charge;
    if (charge->card < 0)
        return load_too_big(&bringing->measure, cost);
    footprint_leave(charge->card);
    *cost = footprint_after(&bringing->measure);
    footprint_enter(charge->card);
    charge_finish(charge, CUDA_ERROR_UNKNOWN);
    return charge_over_limit(bringing->measure.card);
}

static CUresult brought_in(CUresult result, struct bringing *bringing)
{
    uint64_t cost;
    CUlibrary library = bringing->library;
    int card = bringing->measure.card;
    if (result != CUDA_SUCCESS)
        return charge_finish(&bringing->charge, result);
    if (card < 0)
        return result;
    struct object object = library_object(library, LIBRARY_USED);
    bool known = objects_find(OBJECT_LIBRARY, (uint64_t)(uintptr_t)library, &object);
    bool fresh = known && object.value == LIBRARY_FRESH;
    bool too_big = is_too_big(bringing, &cost);
    if (!too_big || !fresh) {
        if (fresh) {
            uint64_t now = overhead_now(card);
            object.value = LIBRARY_USED;
            object.bytes = now > bringing->overhead ? now - bringing->overhead : 0;
            objects_put(&object);
        }
        mark_here(library);
        return too_big ? charge_undone(card, 0, bringing->call) : result;
    }
    REAL(cuLibraryUnload)(library);
    object.value = LIBRARY_DEAD;
    objects_put(&object);
    footprint_forget(card, cost);
    footprint_refresh(card);
    return charge_undone(card, 0, bringing->call);
}

#define BRING_IN(library, call_driver)                                                                                 \
    if (library_is_dead(library))                                                                                      \
        return CUDA_ERROR_OUT_OF_MEMORY;                                                                               \
    struct bringing bringing;                                                                                          \
    CUresult refused = bring_before(&bringing, library, __func__);                                                     \
    if (refused != CUDA_SUCCESS)                                                                                       \
        return refused;                                                                                                \
    return brought_in(call_driver, &bringing)

CUresult cuLibraryGetModule(CUmodule *pMod, CUlibrary library)
{
    BRING_IN(library, REAL(cuLibraryGetModule)(pMod, library));
}

CUresult cuLibraryGetGlobal(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)
{
    BRING_IN(library, REAL(cuLibraryGetGlobal)(dptr, bytes, library, name));
}

CUresult cuLibraryGetManaged(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)
{
    BRING_IN(library, REAL(cuLibraryGetManaged)(dptr, bytes, library, name));
}

CUresult cuLibraryGetUnifiedFunction(void **fptr, CUlibrary library, const char *symbol)
{
    BRING_IN(library, REAL(cuLibraryGetUnifiedFunction)(fptr, library, symbol));
}

static CUresult get_function(CUfunction *function, CUkernel kernel, CUlibrary library, const char *call)
{
    struct bringing bringing;
    CUresult refused = bring_before(&bringing, library, call);
    if (refused != CUDA_SUCCESS)
        return refused;
    CUresult result = brought_in(REAL(cuKernelGetFunction)(function, kernel), &bringing);
    if (result == CUDA_SUCCESS)
        mark_in_vram(kernel, library);
    return result;
}

CUresult cuKernelGetFunction(CUfunction *pFunc, CUkernel kernel)
{
    if (cuda_enter() != DRIVER_ACTIVE)
        return cuda_enter() == DRIVER_REFUSE ? CUDA_ERROR_NOT_PERMITTED : REAL(cuKernelGetFunction)(pFunc, kernel);
    if (is_in_vram(kernel))
        return REAL(cuKernelGetFunction)(pFunc, kernel);
    if (library_is_dead_kernel(kernel))
        return CUDA_ERROR_OUT_OF_MEMORY;
    return get_function(pFunc, kernel, library_of(kernel), __func__);
}

// A CUkernel may be launched as it is.
CUresult library_load_kernel_slowly(CUfunction function, const char *call)
{
    struct object object;
    CUkernel kernel = (CUkernel)(void *)function;
    if (is_in_vram(kernel) || !objects_find(OBJECT_KERNEL, (uint64_t)(uintptr_t)function, &object))
        return CUDA_SUCCESS;
    if (library_is_dead_kernel(kernel))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUfunction unused;
    CUstreamCaptureMode mode = capture_relax();
    CUresult result = get_function(&unused, kernel, (CUlibrary)(uintptr_t)object.value, call);
    capture_restore(mode);
    // only a refusal is ours to answer; other errors are the launch's own
    return result == CUDA_ERROR_OUT_OF_MEMORY ? result : CUDA_SUCCESS;
}

void library_after_fork(void)
{
    atomic_store(&hot.library_waiting, 0);
    atomic_store(&contexts_made, 0);
    atomic_fetch_add(&unloads, 1);
    atomic_flag_clear(&always_look);
}
