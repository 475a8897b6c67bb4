// The cuMemPool* calls, and which pool a device allocates from.
#include "context.h"
#include "peer.h"
#include "pool_state.h"

#include <string.h>

struct pool *pools;

static struct pool *defaults[SIM_MAX_CARDS], *currents[SIM_MAX_CARDS]; // by device

static struct pool *new_pool(unsigned card)
{
    struct pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return NULL;
    pool->card = card;
    pool->reuse[0] = pool->reuse[1] = pool->reuse[2] = 1;
    pool->next = pools;
    pools = pool;
    handle_add(pool, HANDLE_POOL);
    return pool;
}

static struct pool *default_pool(CUdevice device, unsigned card)
{
    if (!defaults[device]) {
        struct pool *pool = defaults[device] = new_pool(card);
        if (!pool)
            return NULL;
        pool->is_default = true;
        pool->props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
        pool->props.location = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
    }
    return defaults[device];
}

struct pool *pool_current(CUdevice device, unsigned card)
{
    return currents[device] ? currents[device] : default_pool(device, card);
}

struct pool *pool_of(CUmemoryPool handle)
{
    return handle_is(handle, HANDLE_POOL) ? (struct pool *)handle : NULL;
}

void pools_sweep(void)
{
    struct pool **link = &pools;
    while (*link) {
        struct pool *pool = *link;
        if (pool->destroyed)
            pool_release_unused(pool, 0);
        if (pool->destroyed && !pool->segments) {
            *link = pool->next;
            free(pool);
        } else {
            link = &pool->next;
        }
    }
}

static bool is_device_location(const CUmemLocation *location, unsigned *card)
{
    return location->type == CU_MEM_LOCATION_TYPE_DEVICE && device_card(location->id, card);
}

CUresult cuMemPoolCreate(CUmemoryPool *out, const CUmemPoolProps *props)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    unsigned card;
    if (!out || !props || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
        return leave(CUDA_ERROR_INVALID_VALUE);
    if (!is_device_location(&props->location, &card))
        return leave(CUDA_ERROR_INVALID_DEVICE);
    if (props->handleTypes != CU_MEM_HANDLE_TYPE_NONE)
        return leave(CUDA_ERROR_NOT_SUPPORTED);
    struct pool *pool = new_pool(card);
    if (!pool)
        return leave(CUDA_ERROR_OUT_OF_MEMORY);
    pool->props = *props;
    *out = (CUmemoryPool)pool;
    return leave(CUDA_SUCCESS);
}

CUresult cuMemPoolDestroy(CUmemoryPool handle)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    struct pool *pool = pool_of(handle);
    if (!pool || pool->is_default)
        return leave(CUDA_ERROR_INVALID_VALUE);
    for (int i = 0; i < SIM_MAX_CARDS; i++)
        if (currents[i] == pool)
            currents[i] = NULL;
    handle_remove(pool);
    pool->destroyed = true;
    pools_sweep();
    return leave(CUDA_SUCCESS);
}

// CUuint64 attributes that can be read; the high marks can be reset.
static uint64_t *counter(struct pool *pool, CUmemPool_attribute attribute)
{
    switch (attribute) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        return &pool->threshold;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
        return &pool->reserved;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        return &pool->reserved_high;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        return &pool->used;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        return &pool->used_high;
    default:
        return NULL;
    }
}

static bool is_reuse(CUmemPool_attribute attribute)
{
    return attribute >= CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES &&
           attribute <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
}

CUresult cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void *value)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    struct pool *pool = pool_of(handle);
    if (!pool || !value)
        return leave(CUDA_ERROR_INVALID_VALUE);
    const uint64_t *count = counter(pool, attribute);
    if (is_reuse(attribute))
        *(int *)value = pool->reuse[attribute - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES];
    else if (count)
        *(cuuint64_t *)value = *count;
    else
        return leave(CUDA_ERROR_INVALID_VALUE);
    return leave(CUDA_SUCCESS);
}

CUresult cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void *value)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    struct pool *pool = pool_of(handle);
    if (!pool || !value)
        return leave(CUDA_ERROR_INVALID_VALUE);
    if (is_reuse(attribute)) {
        pool->reuse[attribute - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES] = *(const int *)value;
        return leave(CUDA_SUCCESS);
    }
    uint64_t wanted = *(const cuuint64_t *)value;
    if (attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
        pool->threshold = wanted;
    else if (attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH && wanted == 0)
        pool->reserved_high = pool->reserved;
    else if (attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH && wanted == 0)
        pool->used_high = pool->used;
    else
        return leave(CUDA_ERROR_INVALID_VALUE);
    return leave(CUDA_SUCCESS);
}

CUresult cuMemPoolTrimTo(CUmemoryPool handle, size_t keep)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    struct pool *pool = pool_of(handle);
    if (!pool)
        return leave(CUDA_ERROR_INVALID_VALUE);
    pool_release_unused(pool, keep);
    return leave(CUDA_SUCCESS);
}

CUresult cuMemPoolSetAccess(CUmemoryPool handle, const CUmemAccessDesc *map, size_t count)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    struct pool *pool = pool_of(handle);
    if (!pool || (count && !map))
        return leave(CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < count; i++) {
        unsigned card;
        if (!is_device_location(&map[i].location, &card))
            return leave(CUDA_ERROR_INVALID_DEVICE);
        bool opens = map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
        if (card == pool->card ? !opens : opens && !peer_possible(card, pool->card))
            return leave(CUDA_ERROR_INVALID_DEVICE);
        if (card != pool->card)
            pool->peers = opens ? pool->peers | 1u << card : pool->peers & ~(1u << card);
    }
    return leave(CUDA_SUCCESS);
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool handle, CUmemLocation *location)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    const struct pool *pool = pool_of(handle);
    unsigned card;
    if (!flags || !pool || !location || !is_device_location(location, &card))
        return leave(CUDA_ERROR_INVALID_VALUE);
    *flags = card == pool->card || pool->peers >> card & 1 ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                                           : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return leave(CUDA_SUCCESS);
}

static CUresult get(CUmemoryPool *out, CUdevice device, struct pool *(*choose)(CUdevice, unsigned))
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    unsigned card;
    if (!out)
        return leave(CUDA_ERROR_INVALID_VALUE);
    if (!device_card(device, &card))
        return leave(CUDA_ERROR_INVALID_DEVICE);
    struct pool *pool = choose(device, card);
    if (!pool)
        return leave(CUDA_ERROR_OUT_OF_MEMORY);
    *out = (CUmemoryPool)pool;
    return leave(CUDA_SUCCESS);
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *out, CUdevice device)
{
    return get(out, device, default_pool);
}

CUresult cuDeviceGetMemPool(CUmemoryPool *out, CUdevice device)
{
    return get(out, device, pool_current);
}

CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool handle)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    unsigned card;
    struct pool *pool = pool_of(handle);
    if (!device_card(device, &card))
        return leave(CUDA_ERROR_INVALID_DEVICE);
    if (!pool || pool->card != card)
        return leave(CUDA_ERROR_INVALID_VALUE);
    currents[device] = pool;
    return leave(CUDA_SUCCESS);
}

// The same by location; only pools on a device exist here.
static bool is_plain(const CUmemLocation *location, CUmemAllocationType type)
{
    return location && location->type == CU_MEM_LOCATION_TYPE_DEVICE && type == CU_MEM_ALLOCATION_TYPE_PINNED;
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool *out, CUmemLocation *location, CUmemAllocationType type)
{
    return is_plain(location, type) ? cuDeviceGetDefaultMemPool(out, location->id) : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuMemGetMemPool(CUmemoryPool *out, CUmemLocation *location, CUmemAllocationType type)
{
    return is_plain(location, type) ? cuDeviceGetMemPool(out, location->id) : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool)
{
    return is_plain(location, type) ? cuDeviceSetMemPool(location->id, pool) : CUDA_ERROR_NOT_SUPPORTED;
}
