// The virtual memory calls.  Reserving addresses takes nothing; cuMemCreate does, until release AND unmap (physical.c).
#include "cards.h"
#include "charge.h"
#include "driver.h"
#include "footprint.h"
#include "physical.h"

static int card_of_location(const CUmemLocation *location)
{
    if (location->type == CU_MEM_LOCATION_TYPE_DEVICE)
        return cards_accounted(location->id);
    if (location->type == CU_MEM_LOCATION_TYPE_DEVICE_LOCALITY_DOMAIN)
        return cards_accounted(location->localized.deviceId);
    return CARD_NONE; // host memory, of one NUMA node or another
}

// What was exported or bound elsewhere lives on in descriptors that nobody can count, unseen in the driver's figure of this
// process: it stays charged until the process ends.
static void uncharge(const struct physical *physical)
{
    if (physical->outlives_us)
        footprint_hide(physical->card, (int64_t)physical->bytes);
    else
        charge_drop(
            &(struct object){.card = (int16_t)physical->card, .bytes = physical->bytes, .flags = physical->flags});
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop,
                     unsigned long long flags)
{
    struct charge charge;
    bool active = cuda_enter() == DRIVER_ACTIVE;
    CUresult refused =
        charge_card(&charge, active && prop ? card_of_location(&prop->location) : CARD_NONE, size, __func__);
    if (refused != CUDA_SUCCESS)
        return refused;
    CUresult result = REAL(cuMemCreate)(handle, size, prop, flags);
    if (result == CUDA_SUCCESS && charge.card >= 0) {
        struct physical *physical = physical_new(charge.card, charge.taken, charge.flags);
        if (physical)
            physical_add_handle(*handle, physical);
    }
    return charge_finish(&charge, result);
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    if (cuda_enter() != DRIVER_ACTIVE)
        return REAL(cuMemRelease)(handle);
    struct physical_leaving leaving = physical_release_begin(handle);
    CUresult result = REAL(cuMemRelease)(handle);
    physical_leave(&leaving, result == CUDA_SUCCESS, uncharge);
    return result;
}

CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags)
{
    enum driver_mode mode = cuda_enter();
    CUresult result = REAL(cuMemMap)(ptr, size, offset, handle, flags);
    if (result == CUDA_SUCCESS && mode == DRIVER_ACTIVE)
        physical_map(handle, ptr, size);
    return result;
}

CUresult cuMemUnmap(CUdeviceptr ptr, size_t size)
{
    if (cuda_enter() != DRIVER_ACTIVE)
        return REAL(cuMemUnmap)(ptr, size);
    struct physical_leaving leaving = physical_unmap_begin(ptr, size);
    CUresult result = REAL(cuMemUnmap)(ptr, size);
    physical_leave(&leaving, result == CUDA_SUCCESS, uncharge);
    return result;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr)
{
    enum driver_mode mode = cuda_enter();
    CUresult result = REAL(cuMemRetainAllocationHandle)(handle, addr);
    if (result == CUDA_SUCCESS && mode == DRIVER_ACTIVE)
        physical_retain(*handle, (uint64_t)(uintptr_t)addr);
    return result;
}

// An exported descriptor keeps the memory, whoever holds it.
CUresult cuMemExportToShareableHandle(void *shareableHandle, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType handleType, unsigned long long flags)
{
    enum driver_mode mode = cuda_enter();
    CUresult result = REAL(cuMemExportToShareableHandle)(shareableHandle, handle, handleType, flags);
    if (result == CUDA_SUCCESS && mode == DRIVER_ACTIVE)
        physical_outlives_us(handle);
    return result;
}

// Charged where it was created: nothing tells an importer whether that is this slice, or whether its creator still lives.
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *osHandle,
                                        CUmemAllocationHandleType shHandleType)
{
    enum driver_mode mode = cuda_enter();
    if (mode == DRIVER_REFUSE)
        return CUDA_ERROR_NOT_PERMITTED;
    return REAL(cuMemImportFromShareableHandle)(handle, osHandle, shHandleType);
}

// Sparse arrays, multicast objects and endpoints hold on to physical memory without an address of ours.
CUresult cuMemMapArrayAsync(CUarrayMapInfo *mapInfoList, unsigned int count, CUstream hStream)
{
    enum driver_mode mode = cuda_enter();
    CUresult result = REAL(cuMemMapArrayAsync)(mapInfoList, count, hStream);
    for (unsigned i = 0; result == CUDA_SUCCESS && mode == DRIVER_ACTIVE && i < count; i++)
        physical_outlives_us(mapInfoList[i].memHandle.memHandle);
    return result;
}

CUresult cuMemMapArrayAsync_ptsz(CUarrayMapInfo *mapInfoList, unsigned int count, CUstream hStream)
{
    enum driver_mode mode = cuda_enter();
    CUresult result = REAL(cuMemMapArrayAsync_ptsz)(mapInfoList, count, hStream);
    for (unsigned i = 0; result == CUDA_SUCCESS && mode == DRIVER_ACTIVE && i < count; i++)
        physical_outlives_us(mapInfoList[i].memHandle.memHandle);
    return result;
}

CUresult cuMulticastBindMem(CUmemGenericAllocationHandle mcHandle, size_t mcOffset,
                            CUmemGenericAllocationHandle memHandle, size_t memOffset, size_t size,
                            unsigned long long flags)
{
    enum driver_mode mode = cuda_enter();
    CUresult result = REAL(cuMulticastBindMem)(mcHandle, mcOffset, memHandle, memOffset, size, flags);
    if (result == CUDA_SUCCESS && mode == DRIVER_ACTIVE)
        physical_outlives_us(memHandle);
    return result;
}

CUresult cuMulticastBindMem_v2(CUmemGenericAllocationHandle mcHandle, CUdevice dev, size_t mcOffset,
                               CUmemGenericAllocationHandle memHandle, size_t memOffset, size_t size,
                               unsigned long long flags)
{
    enum driver_mode mode = cuda_enter();
    CUresult result = REAL(cuMulticastBindMem_v2)(mcHandle, dev, mcOffset, memHandle, memOffset, size, flags);
    if (result == CUDA_SUCCESS && mode == DRIVER_ACTIVE)
        physical_outlives_us(memHandle);
    return result;
}

CUresult cuLogicalEndpointBindMem(CUlogicalEndpointId leId, CUdevice dev, cuuint64_t offset,
                                  CUmemGenericAllocationHandle memHandle, cuuint64_t memOffset, cuuint64_t size,
                                  unsigned long long flags)
{
    enum driver_mode mode = cuda_enter();
    CUresult result = REAL(cuLogicalEndpointBindMem)(leId, dev, offset, memHandle, memOffset, size, flags);
    if (result == CUDA_SUCCESS && mode == DRIVER_ACTIVE)
        physical_outlives_us(memHandle);
    return result;
}
