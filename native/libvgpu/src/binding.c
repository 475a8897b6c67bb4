// What physical memory is bound to without an address of ours: sparse arrays, multicast objects and endpoints.  It is charged
// like any other until its handles and mappings are gone.  Whether it lives on then is not said anywhere (in sparse arrays it
// was seen not to), so from then on the driver's figure tells.
#include "cards.h"
#include "driver.h"
#include "footprint.h"
#include "physical.h"
#include "pool.h"

// Before the driver is asked: a handle may be released by another thread a moment later.
static bool bind_parts(const CUarrayMapInfo *parts, unsigned count)
{
    bool unbinds = false;
    for (unsigned i = 0; parts && i < count; i++) {
        if (parts[i].memOperationType == CU_MEM_OPERATION_TYPE_UNMAP)
            unbinds = true;
        else
            physical_bind(parts[i].memHandle.memHandle);
    }
    return unbinds;
}

// In the stream's order: seen when the program waits for it, or takes memory.
static void unbound(CUstream stream)
{
    int card = cards_of_stream(stream);
    if (card < 0)
        return;
    footprint_doubt(card);
    atomic_store_explicit(&pool_freed, true, memory_order_relaxed);
}

CUresult cuMemMapArrayAsync(CUarrayMapInfo *mapInfoList, unsigned int count, CUstream hStream)
{
    bool unbinds = cuda_enter() == DRIVER_ACTIVE && bind_parts(mapInfoList, count);
    CUresult result = REAL(cuMemMapArrayAsync)(mapInfoList, count, hStream);
    if (unbinds)
        unbound(hStream);
    return result;
}

CUresult cuMemMapArrayAsync_ptsz(CUarrayMapInfo *mapInfoList, unsigned int count, CUstream hStream)
{
    bool unbinds = cuda_enter() == DRIVER_ACTIVE && bind_parts(mapInfoList, count);
    CUresult result = REAL(cuMemMapArrayAsync_ptsz)(mapInfoList, count, hStream);
    if (unbinds)
        unbound(hStream);
    return result;
}

CUresult cuMulticastBindMem(CUmemGenericAllocationHandle mcHandle, size_t mcOffset,
                            CUmemGenericAllocationHandle memHandle, size_t memOffset, size_t size,
                            unsigned long long flags)
{
    if (cuda_enter() == DRIVER_ACTIVE)
        physical_bind(memHandle);
    return REAL(cuMulticastBindMem)(mcHandle, mcOffset, memHandle, memOffset, size, flags);
}

CUresult cuMulticastBindMem_v2(CUmemGenericAllocationHandle mcHandle, CUdevice dev, size_t mcOffset,
                               CUmemGenericAllocationHandle memHandle, size_t memOffset, size_t size,
                               unsigned long long flags)
{
    if (cuda_enter() == DRIVER_ACTIVE)
        physical_bind(memHandle);
    return REAL(cuMulticastBindMem_v2)(mcHandle, dev, mcOffset, memHandle, memOffset, size, flags);
}

CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle mcHandle, size_t mcOffset, CUdeviceptr memptr, size_t size,
                             unsigned long long flags)
{
    if (cuda_enter() == DRIVER_ACTIVE)
        physical_bind_range(memptr, size);
    return REAL(cuMulticastBindAddr)(mcHandle, mcOffset, memptr, size, flags);
}

CUresult cuMulticastBindAddr_v2(CUmemGenericAllocationHandle mcHandle, CUdevice dev, size_t mcOffset,
                                CUdeviceptr memptr, size_t size, unsigned long long flags)
{
    if (cuda_enter() == DRIVER_ACTIVE)
        physical_bind_range(memptr, size);
    return REAL(cuMulticastBindAddr_v2)(mcHandle, dev, mcOffset, memptr, size, flags);
}

CUresult cuMulticastUnbind(CUmemGenericAllocationHandle mcHandle, CUdevice dev, size_t mcOffset, size_t size)
{
    bool active = cuda_enter() == DRIVER_ACTIVE;
    CUresult result = REAL(cuMulticastUnbind)(mcHandle, dev, mcOffset, size);
    return footprint_looked(result, active ? cards_accounted(dev) : CARD_NONE);
}

CUresult cuLogicalEndpointBindMem(CUlogicalEndpointId leId, CUdevice dev, cuuint64_t offset,
                                  CUmemGenericAllocationHandle memHandle, cuuint64_t memOffset, cuuint64_t size,
                                  unsigned long long flags)
{
    if (cuda_enter() == DRIVER_ACTIVE)
        physical_bind(memHandle);
    return REAL(cuLogicalEndpointBindMem)(leId, dev, offset, memHandle, memOffset, size, flags);
}

CUresult cuLogicalEndpointBindAddr(CUlogicalEndpointId leId, CUdevice dev, cuuint64_t offset, void *ptr,
                                   cuuint64_t size, unsigned long long flags)
{
    if (cuda_enter() == DRIVER_ACTIVE)
        physical_bind_range((uint64_t)(uintptr_t)ptr, size);
    return REAL(cuLogicalEndpointBindAddr)(leId, dev, offset, ptr, size, flags);
}

CUresult cuLogicalEndpointUnbind(CUlogicalEndpointId leId, CUdevice dev, cuuint64_t offset, cuuint64_t size)
{
    bool active = cuda_enter() == DRIVER_ACTIVE;
    CUresult result = REAL(cuLogicalEndpointUnbind)(leId, dev, offset, size);
    return footprint_looked(result, active ? cards_accounted(dev) : CARD_NONE);
}

CUresult cuLogicalEndpointDestroy(CUlogicalEndpointId leId)
{
    bool active = cuda_enter() == DRIVER_ACTIVE;
    CUresult result = REAL(cuLogicalEndpointDestroy)(leId);
    return footprint_looked(result, active ? cards_current() : CARD_NONE);
}
