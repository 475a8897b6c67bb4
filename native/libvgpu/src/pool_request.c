// Stream-ordered allocation: which pool a request goes to, what that may have to take for it, and the calls.
// Neighbour: pool.c has the pools themselves.
#include <stdatomic.h>

#include "capture.h"
#include "cards.h"
#include "charge.h"
#include "driver.h"
#include "footprint.h"
#include "pool.h"
#include "pool_list.h"

#define STEP (UINT64_C(32) << 20) // the driver reserves in such steps
#define UNIT UINT64_C(512)        // and gives out in such

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

void pool_forget_streams(void)
{
    atomic_fetch_add(&current_changes, 1);
}

static SELDOM CUmemoryPool ask_current_of(CUdevice device)
{
    bool kept = device >= 0 && device < MAX_DEVICES;
    CUmemoryPool pool;
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

static inline CUmemoryPool current_of(CUdevice device)
{
    bool kept = device >= 0 && device < MAX_DEVICES;
    CUmemoryPool pool = kept ? atomic_load_explicit(&current[device], memory_order_acquire) : NULL;
    return __builtin_expect(pool != NULL, 1) ? pool : ask_current_of(device);
}

// A pool that was not made through us: a device's own one.  Newer drivers say where it lies.
static SELDOM int card_of_unknown(CUmemoryPool handle, CUstream stream)
{
    CUmemLocation location = {0};
    CUstreamCaptureMode mode = capture_relax();
    bool known = REAL(cuMemPoolGetAttribute)(handle, CU_MEMPOOL_ATTR_LOCATION_TYPE, &location.type) == CUDA_SUCCESS &&
                 REAL(cuMemPoolGetAttribute)(handle, CU_MEMPOOL_ATTR_LOCATION_ID, &location.id) == CUDA_SUCCESS;
    capture_restore(mode);
    return known ? pool_card_of_location(&location) : cards_of_stream(stream);
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

// The last stream of this thread: the driver isn't asked again until a stream, a context or a device's pool changes.
static _Thread_local struct {
    CUstream stream;
    CUmemoryPool pool;
    uint32_t changes;
} last __attribute__((tls_model("initial-exec")));

// In most slices there is one device, and nothing to be asked.
static bool is_only_device(void)
{
    int count = atomic_load_explicit(&hot.devices, memory_order_relaxed);
    if (__builtin_expect(count == 0, 0) && REAL(cuDeviceGetCount)(&count) == CUDA_SUCCESS)
        atomic_store_explicit(&hot.devices, count, memory_order_relaxed);
    return __builtin_expect(count == 1, 1);
}

static __attribute__((noinline)) CUmemoryPool pool_of_stream(const struct request *request)
{
    uint32_t changes = atomic_load_explicit(&current_changes, memory_order_acquire);
    if (last.stream == request->stream && last.stream && last.changes == changes)
        return last.pool;
    CUdevice device;
    bool named = request->stream && request->stream != CU_STREAM_LEGACY && request->stream != CU_STREAM_PER_THREAD;
    if (!(named && CUDA_HAS(cuStreamGetDevice) && REAL(cuStreamGetDevice)(request->stream, &device) == CUDA_SUCCESS) &&
        REAL(cuCtxGetDevice)(&device) != CUDA_SUCCESS)
        return NULL;
    CUmemoryPool pool = current_of(device);
    if (named)
        last = (typeof(last)){request->stream, pool, changes};
    return pool;
}

static inline CUmemoryPool pool_of(const struct request *request)
{
    if (request->pool)
        return request->pool;
    return is_only_device() ? current_of(0) : pool_of_stream(request);
}

// Where a request goes, and what the pool may have to take for it.
struct target {
    CUmemoryPool pool;
    struct pool *known; // NULL: not seen yet
    int card;
    uint64_t growth;  // nothing, if that much of what is charged for the pool lies idle
    uint64_t changes; // of the pool's charge, so far
};

// Frees are not counted, so what is in use may be less, and never more.  False: not surely idle.
static bool take_idle(struct pool *pool, uint64_t bytes)
{
    uint64_t charged = atomic_load_explicit(&pool->charged, memory_order_relaxed);
    uint64_t in_use = atomic_load_explicit(&pool->in_use, memory_order_relaxed);
    do {
        if (in_use > charged || charged - in_use < bytes)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&pool->in_use, &in_use, in_use + bytes + UNIT, memory_order_relaxed,
                                                    memory_order_relaxed));
    return true;
}

// All that was asked for since the last time could have used the pool up: ask.  Not surely idle either if another thread took
// some of it meanwhile.
static SELDOM bool take_idle_by_figure(struct pool *pool, uint64_t bytes)
{
    uint64_t before = atomic_load(&pool->in_use);
    if (!atomic_load(&pool->charged))
        return false;
    uint64_t in_use = pool_attribute(atomic_load(&pool->handle), CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
    return atomic_compare_exchange_strong(&pool->in_use, &before, in_use) && take_idle(pool, bytes);
}

// Every call to the driver counts here.
static struct target find_target(const struct request *request)
{
    struct target target = {.card = CARD_NONE, .pool = pool_of(request)};
    if (!target.pool)
        return target;
    struct pool *known = target.known = pool_find(target.pool);
    if (__builtin_expect(known != NULL, 1)) {
        target.card = atomic_load_explicit(&known->card, memory_order_relaxed);
        target.changes = atomic_load_explicit(&known->changes, memory_order_acquire);
        if (__builtin_expect(take_idle(known, request->bytes), 1) || take_idle_by_figure(known, request->bytes))
            return target;
        atomic_store(&known->in_use, UINT64_MAX); // to be asked
    } else {
        target.card = request->pool ? card_of_unknown(target.pool, request->stream) : cards_of_stream(request->stream);
    }
    target.growth = request->bytes > UINT64_MAX - STEP ? UINT64_MAX : (request->bytes + STEP - 1) / STEP * STEP;
    return target;
}

// Without the lock: whether the pool still holds what is charged for it, and did all the while.
static bool is_as_before(const struct target *target)
{
    struct pool *known = target->known;
    return known &&
           pool_attribute(target->pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) ==
               atomic_load_explicit(&known->charged, memory_order_relaxed) &&
           atomic_load_explicit(&known->changes, memory_order_acquire) == target->changes &&
           atomic_load_explicit(&known->handle, memory_order_relaxed) == target->pool;
}

static SELDOM CUresult free_again(const struct request *request)
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

// The pool has taken memory, or another thread of the process was at it.
static SELDOM CUresult settle_request(const struct request *request, const struct target *target, struct charge *charge,
                                      CUresult result)
{
    int card = target->card;
    pool_list_lock();
    struct pool *pool = pool_remember(target->pool, card);
    // a look at this moment settles the pools itself, before and after, so it needs no warning
    if (pool && (result == CUDA_SUCCESS || atomic_load(&pool->charged)))
        pool_settle(pool);
    bool as_before = pool && pool == target->known && atomic_load(&pool->changes) == target->changes;
    if (pool && !as_before)
        atomic_store(&pool->in_use, UINT64_MAX); // to be asked
    pool_list_unlock();
    // the pool's charge holds it now; without room in our list the request's own bytes stay
    charge_finish(charge, pool ? CUDA_ERROR_UNKNOWN : result);
    if (result != CUDA_SUCCESS || as_before || !charge_over_limit(card))
        return result;
    if (free_again(request) != CUDA_SUCCESS)
        return result;
    pool_trim(card);
    return charge_undone(card, request->bytes, request->call);
}

// Reserve in the driver's own steps, then keep what it really took; near the limit the driver takes less than a step.
static SELDOM CUresult allocate_growing(const struct request *request, const struct target *target)
{
    struct charge charge;
    if (!charge_try(&charge, target->card, target->growth, request->call)) {
        CUresult refused = charge_card(&charge, target->card, request->bytes, request->call);
        if (refused != CUDA_SUCCESS)
            return refused;
    }
    charge_mark_estimate(&charge);
    return settle_request(request, target, &charge, allocate(request, request->pool));
}

static CUresult allocate_charged(const struct request *request, const struct target *target)
{
    if (__builtin_expect(target->growth != 0, 0))
        return allocate_growing(request, target);
    CUresult result = allocate(request, request->pool);
    if (__builtin_expect(result == CUDA_SUCCESS && is_as_before(target), 1))
        return result;
    struct charge nothing = {.card = CARD_NONE, .bytes = request->bytes, .call = request->call};
    return settle_request(request, target, &nothing, result);
}

static CUresult request_memory(const struct request *request)
{
    enum driver_mode mode = cuda_enter();
    if (__builtin_expect(mode != DRIVER_ACTIVE, 0))
        return mode == DRIVER_REFUSE ? CUDA_ERROR_NOT_PERMITTED : allocate(request, request->pool);
    // a captured allocation becomes a node of a graph: graph.c charges it when it takes memory
    if (capture_active(request->stream, request->per_thread))
        return allocate(request, request->pool);
    struct target target = find_target(request);
    if (__builtin_expect(target.card >= 0, 1))
        return allocate_charged(request, &target);
    return target.card == CARD_FOREIGN ? CUDA_ERROR_OUT_OF_MEMORY : allocate(request, request->pool);
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
static SELDOM CUresult free_object(struct object *object, fn_cuMemFreeAsync real, CUstream stream)
{
    charge_free_begin(object);
    CUresult result = real(object->key, stream);
    charge_free_end(object, result == CUDA_SUCCESS);
    if (object->card >= 0)
        footprint_doubt(object->card);
    return result;
}

static inline CUresult free_async(CUdeviceptr dptr, CUstream stream, bool per_thread)
{
    struct object object;
    enum driver_mode mode = cuda_enter();
    fn_cuMemFreeAsync real = per_thread ? REAL(cuMemFreeAsync_ptsz) : REAL(cuMemFreeAsync);
    if (mode == DRIVER_ACTIVE && objects_take(OBJECT_MEMORY, dptr, &object))
        return free_object(&object, real, stream);
    CUresult result = real(dptr, stream);
    if (!atomic_load_explicit(&pool_freed, memory_order_relaxed))
        atomic_store_explicit(&pool_freed, true, memory_order_relaxed);
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

void pool_after_fork(void)
{
    pool_list_after_fork();
    pool_forget_current();
}
