// The pools of this process.  The charge of one is its CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, read after each allocation
// (pool_request.c); freeing doesn't touch it, since only a later synchronisation returns memory.  A charge may so be too high
// for a while, which is put right before anything is refused or shown.
// Owns: the list of pools seen.  Invariant: a pool's `charged` is in the ledger, and changes only under pool_lock.
#include "pool.h"

#include <pthread.h>
#include <stdatomic.h>

#include "capture.h"
#include "cards.h"
#include "driver.h"
#include "footprint.h"
#include "member.h"
#include "pool_list.h"

#define MAX_POOLS 1024

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct pool pools[MAX_POOLS]; // one stays where it is as long as it lives
static _Atomic int pool_high;        // none at or above it was ever used

void pool_list_lock(void)
{
    pthread_mutex_lock(&lock);
}

void pool_list_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

struct pool *pool_find(CUmemoryPool handle)
{
    int high = atomic_load_explicit(&pool_high, memory_order_acquire);
    for (int i = 0; i < high; i++)
        if (atomic_load_explicit(&pools[i].handle, memory_order_acquire) == handle)
            return &pools[i];
    return NULL;
}

struct pool *pool_remember(CUmemoryPool handle, int card)
{
    struct pool *pool = pool_find(handle);
    if (pool)
        return pool;
    pool = pool_find(NULL);
    int high = atomic_load(&pool_high);
    if (!pool && high < MAX_POOLS)
        pool = &pools[high];
    if (!pool)
        return NULL;
    pool->managed = false;
    atomic_store(&pool->card, card);
    atomic_store(&pool->charged, 0);
    atomic_store(&pool->in_use, 0);
    atomic_fetch_add(&pool->changes, 1);
    atomic_store_explicit(&pool->handle, handle, memory_order_release);
    if (pool == &pools[high])
        atomic_store_explicit(&pool_high, high + 1, memory_order_release);
    return pool;
}

uint64_t pool_attribute(CUmemoryPool handle, CUmemPool_attribute which)
{
    cuuint64_t value = 0;
    CUstreamCaptureMode mode = capture_relax();
    CUresult result = REAL(cuMemPoolGetAttribute)(handle, which, &value);
    capture_restore(mode);
    return result == CUDA_SUCCESS ? value : 0;
}

void pool_settle(struct pool *pool)
{
    int card = atomic_load(&pool->card);
    struct ledger *ledger = card >= 0 ? member_ledger() : NULL;
    if (!ledger)
        return;
    uint64_t reserved = pool_attribute(atomic_load(&pool->handle), CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
    uint64_t charged = atomic_load(&pool->charged);
    if (reserved == charged)
        return;
    if (reserved > charged)
        ledger_add(ledger, (unsigned)card, reserved - charged);
    else
        ledger_release(ledger, (unsigned)card, charged - reserved);
    if (pool->managed)
        footprint_hide(card, (int64_t)(reserved - charged));
    atomic_fetch_add(&pool->changes, 1);
    atomic_store(&pool->charged, reserved);
}

void pool_refresh(int card)
{
    int high = atomic_load_explicit(&pool_high, memory_order_acquire);
    if (!high)
        return;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < high; i++)
        if (atomic_load(&pools[i].handle) && (card == CARD_NONE || atomic_load(&pools[i].card) == card))
            pool_settle(&pools[i]);
    pthread_mutex_unlock(&lock);
}

_Atomic bool pool_freed;

void pool_settle_all(void)
{
    atomic_store(&pool_freed, false);
    pool_refresh(CARD_NONE);
    footprint_look_where_doubted();
}

static void drop_cache(struct pool *pool)
{
    CUstreamCaptureMode mode = capture_relax();
    REAL(cuMemPoolTrimTo)(atomic_load(&pool->handle), 0);
    capture_restore(mode);
    pool_settle(pool);
}

void pool_trim(int card)
{
    int high = atomic_load_explicit(&pool_high, memory_order_acquire);
    if (!high)
        return;
    pthread_mutex_lock(&lock);
    footprint_enter(card);
    for (int i = 0; i < high; i++)
        if (atomic_load(&pools[i].handle) && atomic_load(&pools[i].card) == card)
            drop_cache(&pools[i]);
    footprint_leave(card);
    pthread_mutex_unlock(&lock);
}

int pool_card_of_location(const CUmemLocation *location)
{
    // a managed pool without a home: the pages go to whoever uses them, most likely here
    return location->type == CU_MEM_LOCATION_TYPE_NONE ? cards_current() : cards_of_location(location);
}

// ---- the calls ---------------------------------------------------------------------------------------------------------

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *poolProps)
{
    enum driver_mode mode = cuda_enter();
    if (mode == DRIVER_REFUSE)
        return CUDA_ERROR_NOT_PERMITTED;
    CUresult result = REAL(cuMemPoolCreate)(pool, poolProps);
    if (result != CUDA_SUCCESS || mode != DRIVER_ACTIVE)
        return result;
    int card = pool_card_of_location(&poolProps->location);
    pthread_mutex_lock(&lock);
    struct pool *known = pool_remember(*pool, card);
    if (known) {
        atomic_store(&known->card, card);
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
        pool_remember(*pool_out, CARD_NONE);
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
    struct pool *known = result == CUDA_SUCCESS && pool ? pool_find(pool) : NULL;
    int card = CARD_NONE;
    if (known) {
        uint64_t charged = atomic_load(&known->charged);
        card = atomic_load(&known->card);
        atomic_store(&known->handle, NULL);
        if (card >= 0 && member_ledger())
            ledger_release(member_ledger(), (unsigned)card, charged);
        if (card >= 0 && known->managed)
            footprint_hide(card, -(int64_t)charged);
    }
    pthread_mutex_unlock(&lock);
    pool_forget_current();
    return footprint_looked(result, card);
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep)
{
    if (cuda_enter() != DRIVER_ACTIVE)
        return REAL(cuMemPoolTrimTo)(pool, minBytesToKeep);
    pthread_mutex_lock(&lock);
    struct pool *known = pool ? pool_find(pool) : NULL;
    int card = known ? atomic_load(&known->card) : CARD_NONE;
    if (card >= 0)
        footprint_enter(card);
    CUresult result = REAL(cuMemPoolTrimTo)(pool, minBytesToKeep);
    if (card >= 0) {
        pool_settle(known);
        footprint_leave(card);
    }
    pthread_mutex_unlock(&lock);
    return result;
}

void pool_list_after_fork(void)
{
    pthread_mutex_init(&lock, NULL);
    for (int i = 0; i < atomic_load(&pool_high); i++)
        atomic_store(&pools[i].handle, NULL);
    atomic_store(&pool_high, 0);
}
