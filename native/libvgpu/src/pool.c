// Stream-ordered allocation.  The charge of a pool is its CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, read after each allocation;
// freeing doesn't touch it, since only a later synchronisation returns memory.  A charge may so be too high for a while, which
// is put right before anything is refused or shown.
// Owns: the list of pools seen.  Invariant: a pool's `charged` is in the ledger, and changes only under `lock`.
#include "pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "capture.h"
#include "cards.h"
#include "charge.h"
#include "driver.h"
#include "footprint.h"
#include "member.h"
#include "slice.h"

#define MAX_POOLS 1024
#define STEP      (UINT64_C(32) << 20) // the driver reserves in such steps
#define UNIT      UINT64_C(512)        // and gives out in such

struct pool {
    CUmemoryPool handle;
    int card; // CARD_NONE: host memory, or another process's
    bool managed;
    uint64_t charged;
    uint64_t changes; // of `charged`
    uint64_t in_use;  // at most: what it was when it was last asked, and all that came since
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct pool pools[MAX_POOLS];
static int pool_count;
static _Atomic bool any_pool;

// Which pool each device allocates from, NULL: to be asked.  Every call that may change it is hooked.
#define MAX_DEVICES 64
static _Atomic(CUmemoryPool) current[MAX_DEVICES];
static _Atomic uint32_t current_changes; // begun and ended

void pool_forget_current(void)
{
    atomic_fetch_add(&current_changes, 1);
    for (int device = 0; device < MAX_DEVICES; device++)
        atomic_store(&current[device], NULL);
}

static CUmemoryPool current_of(CUdevice device)
{
    bool kept = device >= 0 && device < MAX_DEVICES;
    CUmemoryPool pool = kept ? atomic_load_explicit(&current[device], memory_order_acquire) : NULL;
    if (pool)
        return pool;
    uint32_t changes = atomic_load(&current_changes);
    CUstreamCaptureMode mode = capture_relax();
    if (REAL(cuDeviceGetMemPool)(&pool, device) != CUDA_SUCCESS)
        pool = NULL;
    capture_restore(mode);
    if (!kept || !pool)
        return pool;
    atomic_store(&current[device], pool);
    if (atomic_load(&current_changes) != changes)
        atomic_store(&current[device], NULL);
    return pool;
}

static struct pool *find(CUmemoryPool handle)
{
    for (int i = 0; i < pool_count; i++)
        if (pools[i].handle == handle)
            return &pools[i];
    return NULL;
}

static struct pool *remember(CUmemoryPool handle, int card)
{
    struct pool *pool = find(handle);
    if (!pool && pool_count < MAX_POOLS) {
        pool = &pools[pool_count++];
        *pool = (struct pool){.handle = handle, .card = card};
        atomic_store(&any_pool, true);
    }
    return pool;
}

static uint64_t attribute(CUmemoryPool handle, CUmemPool_attribute which)
{
    cuuint64_t value = 0;
    CUstreamCaptureMode mode = capture_relax();
    CUresult result = REAL(cuMemPoolGetAttribute)(handle, which, &value);
    capture_restore(mode);
    return result == CUDA_SUCCESS ? value : 0;
}

// Bring one pool's charge to what the driver has reserved; with `lock` held.
static void settle(struct pool *pool)
{
    struct ledger *ledger = pool->card >= 0 ? member_ledger() : NULL;
    if (!ledger)
        return;
    uint64_t reserved = attribute(pool->handle, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
    if (reserved == pool->charged)
        return;
    if (reserved > pool->charged)
        ledger_add(ledger, (unsigned)pool->card, reserved - pool->charged);
    else
        ledger_release(ledger, (unsigned)pool->card, pool->charged - reserved);
    if (pool->managed)
        footprint_hide(pool->card, (int64_t)(reserved - pool->charged));
    pool->changes++;
    pool->charged = reserved;
}

void pool_refresh(int card)
{
    if (!atomic_load_explicit(&any_pool, memory_order_relaxed))
        return;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < pool_count; i++)
        if (pools[i].card == card)
            settle(&pools[i]);
    pthread_mutex_unlock(&lock);
}

_Atomic bool pool_freed;

void pool_settle_all(void)
{
    atomic_store(&pool_freed, false);
    pthread_mutex_lock(&lock);
    for (int i = 0; i < pool_count; i++)
        settle(&pools[i]);
    pthread_mutex_unlock(&lock);
}

void pool_trim(int card)
{
    if (!atomic_load_explicit(&any_pool, memory_order_relaxed))
        return;
    pthread_mutex_lock(&lock);
    footprint_enter(card);
    for (int i = 0; i < pool_count; i++) {
        if (pools[i].card != card)
            continue;
        CUstreamCaptureMode mode = capture_relax();
        REAL(cuMemPoolTrimTo)(pools[i].handle, 0);
        capture_restore(mode);
        settle(&pools[i]);
    }
    footprint_leave(card);
    pthread_mutex_unlock(&lock);
}

// A location as the program wrote it, to a card of the slice; host memory is CARD_NONE.
static int card_of_location(const CUmemLocation *location)
{
    if (location->type == CU_MEM_LOCATION_TYPE_DEVICE)
        return cards_accounted(location->id);
    if (location->type == CU_MEM_LOCATION_TYPE_DEVICE_LOCALITY_DOMAIN)
        return cards_accounted(location->localized.deviceId);
    // a managed pool without a home: the pages go to whoever uses them, most likely here
    return location->type == CU_MEM_LOCATION_TYPE_NONE ? cards_current() : CARD_NONE;
}

// A pool that was not made through us: a device's own one.  Newer drivers say where it lies.
static int card_of_unknown(CUmemoryPool handle, CUstream stream)
{
    CUmemLocation location = {0};
    CUstreamCaptureMode mode = capture_relax();
    bool known = REAL(cuMemPoolGetAttribute)(handle, CU_MEMPOOL_ATTR_LOCATION_TYPE, &location.type) == CUDA_SUCCESS &&
                 REAL(cuMemPoolGetAttribute)(handle, CU_MEMPOOL_ATTR_LOCATION_ID, &location.id) == CUDA_SUCCESS;
    capture_restore(mode);
    return known ? card_of_location(&location) : cards_of_stream(stream);
}

struct request {
    CUdeviceptr *dptr;
    size_t bytes;
    CUstream stream;
    CUmemoryPool pool; // NULL: the device's current one
    bool per_thread;
    const char *call;
};

static CUresult allocate(const struct request *request, CUmemoryPool pool)
{
    if (request->per_thread)
        return pool ? REAL(cuMemAllocFromPoolAsync_ptsz)(request->dptr, request->bytes, pool, request->stream)
                    : REAL(cuMemAllocAsync_ptsz)(request->dptr, request->bytes, request->stream);
    return pool ? REAL(cuMemAllocFromPoolAsync)(request->dptr, request->bytes, pool, request->stream)
                : REAL(cuMemAllocAsync)(request->dptr, request->bytes, request->stream);
}

static CUmemoryPool pool_of(const struct request *request)
{
    if (request->pool)
        return request->pool;
    CUdevice device;
    bool named = request->stream && request->stream != CU_STREAM_LEGACY && request->stream != CU_STREAM_PER_THREAD;
    if (!(named && CUDA_HAS(cuStreamGetDevice) && REAL(cuStreamGetDevice)(request->stream, &device) == CUDA_SUCCESS) &&
        REAL(cuCtxGetDevice)(&device) != CUDA_SUCCESS)
        return NULL;
    return current_of(device);
}

// Where a request goes, and what the pool may have to take for it.
struct target {
    CUmemoryPool pool;
    int card;
    uint64_t growth;  // nothing, if that much of what is charged for the pool lies idle
    uint64_t changes; // of the pool's charge, so far
};

// With `lock` held: whether that much is surely idle in what is charged for the pool.
static bool is_idle(struct pool *pool, uint64_t bytes)
{
    return pool->in_use <= pool->charged && pool->charged - pool->in_use >= bytes;
}

// Every call to the driver counts here.  What is in use is asked for only when all that was asked for since the last time could
// have used the pool up: frees are not counted.
static struct target find_target(const struct request *request)
{
    struct target target = {.card = CARD_NONE, .pool = pool_of(request)};
    if (!target.pool)
        return target;
    pthread_mutex_lock(&lock);
    struct pool *known = find(target.pool);
    bool fits = known && is_idle(known, request->bytes);
    if (known && !fits && known->charged) {
        known->in_use = attribute(target.pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
        fits = is_idle(known, request->bytes);
    }
    if (known && __builtin_add_overflow(known->in_use, request->bytes + UNIT, &known->in_use))
        known->in_use = UINT64_MAX;
    target.card = known ? known->card : CARD_NONE;
    target.changes = known ? known->changes : 0;
    pthread_mutex_unlock(&lock);
    if (!known)
        target.card = request->pool ? card_of_unknown(target.pool, request->stream) : cards_of_stream(request->stream);
    if (!fits)
        target.growth = request->bytes > UINT64_MAX - STEP ? UINT64_MAX : (request->bytes + STEP - 1) / STEP * STEP;
    return target;
}

static CUresult free_again(const struct request *request)
{
    CUstreamCaptureMode mode = capture_relax();
    CUresult result = request->per_thread ? REAL(cuMemFreeAsync_ptsz)(*request->dptr, request->stream)
                                          : REAL(cuMemFreeAsync)(*request->dptr, request->stream);
    if (result == CUDA_SUCCESS)
        result = request->per_thread ? REAL(cuStreamSynchronize_ptsz)(request->stream)
                                     : REAL(cuStreamSynchronize)(request->stream);
    capture_restore(mode);
    return result;
}

static CUresult allocate_charged(const struct request *request, const struct target *target)
{
    int card = target->card;
    struct charge charge;
    // reserve in the driver's own steps, then keep what it really took; near the limit the driver takes less than a step
    if (!charge_try(&charge, card, target->growth, request->call)) {
        CUresult refused = charge_card(&charge, card, request->bytes, request->call);
        if (refused != CUDA_SUCCESS)
            return refused;
    }
    CUresult result = allocate(request, request->pool);
    pthread_mutex_lock(&lock);
    struct pool *pool = remember(target->pool, card);
    // a look at this moment settles the pools itself, before and after, so it needs no warning
    if (pool && (result == CUDA_SUCCESS || pool->charged))
        settle(pool);
    bool as_before = pool && pool->changes == target->changes;
    if (pool && !as_before)
        pool->in_use = UINT64_MAX; // to be asked
    pthread_mutex_unlock(&lock);
    // the pool's charge holds it now; without room in our list the request's own bytes stay
    charge_finish(&charge, pool ? CUDA_ERROR_UNKNOWN : result);
    if (result != CUDA_SUCCESS || as_before || !charge_over_limit(card))
        return result;
    if (free_again(request) != CUDA_SUCCESS)
        return result;
    pool_trim(card);
    return charge_undone(card, request->bytes, request->call);
}

static CUresult request_memory(const struct request *request)
{
    switch (cuda_enter()) {
    case DRIVER_ACTIVE:
        break;
    case DRIVER_REFUSE:
        return CUDA_ERROR_NOT_PERMITTED;
    default:
        return allocate(request, request->pool);
    }
    // a captured allocation becomes a node of a graph: graph.c charges it when it takes memory
    if (capture_active(request->stream, request->per_thread))
        return allocate(request, request->pool);
    struct target target = find_target(request);
    if (target.card == CARD_FOREIGN)
        return CUDA_ERROR_OUT_OF_MEMORY;
    return target.card == CARD_NONE ? allocate(request, request->pool) : allocate_charged(request, &target);
}

CUresult cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
    return request_memory(&(struct request){dptr, bytesize, hStream, NULL, false, __func__});
}

CUresult cuMemAllocAsync_ptsz(CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
    return request_memory(&(struct request){dptr, bytesize, hStream, NULL, true, __func__});
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream)
{
    return request_memory(&(struct request){dptr, bytesize, hStream, pool, false, __func__});
}

CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream)
{
    return request_memory(&(struct request){dptr, bytesize, hStream, pool, true, __func__});
}

// Memory of cuMemAlloc may be freed in stream order too.  When exactly it goes is the stream's business: the figure tells.
static CUresult free_async(CUdeviceptr dptr, CUstream stream, bool per_thread)
{
    struct object object;
    bool ours = cuda_enter() == DRIVER_ACTIVE && objects_take(OBJECT_MEMORY, dptr, &object);
    if (ours)
        charge_free_begin(&object);
    CUresult result = per_thread ? REAL(cuMemFreeAsync_ptsz)(dptr, stream) : REAL(cuMemFreeAsync)(dptr, stream);
    if (!ours && !atomic_load_explicit(&pool_freed, memory_order_relaxed))
        atomic_store_explicit(&pool_freed, true, memory_order_relaxed);
    if (ours) {
        charge_free_end(&object, result == CUDA_SUCCESS);
        if (object.card >= 0)
            footprint_doubt(object.card);
    }
    return result;
}

CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream)
{
    return free_async(dptr, hStream, false);
}

CUresult cuMemFreeAsync_ptsz(CUdeviceptr dptr, CUstream hStream)
{
    return free_async(dptr, hStream, true);
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *poolProps)
{
    enum driver_mode mode = cuda_enter();
    if (mode == DRIVER_REFUSE)
        return CUDA_ERROR_NOT_PERMITTED;
    CUresult result = REAL(cuMemPoolCreate)(pool, poolProps);
    if (result != CUDA_SUCCESS || mode != DRIVER_ACTIVE)
        return result;
    int card = card_of_location(&poolProps->location);
    pthread_mutex_lock(&lock);
    struct pool *known = remember(*pool, card);
    if (known) {
        known->card = card;
        known->managed = poolProps->allocType == CU_MEM_ALLOCATION_TYPE_MANAGED;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

// Memory of another process's pool is charged to that process.
CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *pool_out, void *handle, CUmemAllocationHandleType handleType,
                                            unsigned long long flags)
{
    enum driver_mode mode = cuda_enter();
    CUresult result = REAL(cuMemPoolImportFromShareableHandle)(pool_out, handle, handleType, flags);
    if (result == CUDA_SUCCESS && mode == DRIVER_ACTIVE) {
        pthread_mutex_lock(&lock);
        remember(*pool_out, CARD_NONE);
        pthread_mutex_unlock(&lock);
    }
    return result;
}

// Allocations still in use outlive the pool's handle: after the charge is off, the figure shows what stayed.
CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
    if (cuda_enter() != DRIVER_ACTIVE)
        return REAL(cuMemPoolDestroy)(pool);
    pthread_mutex_lock(&lock);
    CUresult result = REAL(cuMemPoolDestroy)(pool);
    struct pool *known = result == CUDA_SUCCESS ? find(pool) : NULL;
    int card = CARD_NONE;
    if (known) {
        card = known->card;
        if (card >= 0 && member_ledger())
            ledger_release(member_ledger(), (unsigned)card, known->charged);
        if (card >= 0 && known->managed)
            footprint_hide(card, -(int64_t)known->charged);
        *known = pools[--pool_count];
    }
    pthread_mutex_unlock(&lock);
    pool_forget_current();
    if (card >= 0)
        footprint_refresh(card);
    return result;
}

CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool)
{
    cuda_enter();
    pool_forget_current();
    CUresult result = REAL(cuDeviceSetMemPool)(dev, pool);
    pool_forget_current();
    return result;
}

CUresult cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool)
{
    cuda_enter();
    pool_forget_current();
    CUresult result = REAL(cuMemSetMemPool)(location, type, pool);
    pool_forget_current();
    return result;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep)
{
    if (cuda_enter() != DRIVER_ACTIVE)
        return REAL(cuMemPoolTrimTo)(pool, minBytesToKeep);
    pthread_mutex_lock(&lock);
    struct pool *known = find(pool);
    bool counted = known && known->card >= 0;
    if (counted)
        footprint_enter(known->card);
    CUresult result = REAL(cuMemPoolTrimTo)(pool, minBytesToKeep);
    if (counted) {
        settle(known);
        footprint_leave(known->card);
    }
    pthread_mutex_unlock(&lock);
    return result;
}

void pool_after_fork(void)
{
    pthread_mutex_init(&lock, NULL);
    pool_count = 0;
    atomic_store(&any_pool, false);
    pool_forget_current();
}
