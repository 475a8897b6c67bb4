// The virtual memory calls.  Reserving addresses takes nothing; cuMemCreate does, until release AND unmap (physical.c).
// Neighbours: binding.c has what holds on to physical memory besides, import.c what comes from elsewhere.
#include "cards.h"
#include "charge.h"
#include "driver.h"
#include "footprint.h"
#include "physical.h"

// What was exported lives on in descriptors that nobody can count, unseen in the driver's figure of this process: it stays
// charged until the process ends.  What was bound is in the figure as long as it lives.
static void uncharge(const struct physical *physical)
{
    if (physical->exported)
        footprint_hide(physical->card, (int64_t)physical->bytes);
    else if (physical->bound)
        footprint_take_over(physical->card, physical->bytes);
    else
        charge_drop(
            &(struct object){.card = (int16_t)physical->card, .bytes = physical->bytes, .flags = physical->flags});
}

static void look_at(uint32_t bound)
{
    for (int card = 0; bound; card++, bound >>= 1)
        if (bound & 1)
            footprint_refresh(card);
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop,
                     unsigned long long flags)
{
    struct charge charge;
    bool active = cuda_enter() == DRIVER_ACTIVE;
    CUresult refused =
        charge_card(&charge, active && prop ? cards_of_location(&prop->location) : CARD_NONE, size, __func__);
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

// One that is unknown here may be another process's memory, or a multicast object with all that is bound to it.
CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    if (cuda_enter() != DRIVER_ACTIVE)
        return REAL(cuMemRelease)(handle);
    struct physical_leaving leaving = physical_release_begin(handle);
    bool known = leaving.first;
    CUresult result = REAL(cuMemRelease)(handle);
    look_at(physical_leave(&leaving, result == CUDA_SUCCESS, uncharge));
    return footprint_looked(result, known ? CARD_NONE : cards_current());
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
    look_at(physical_leave(&leaving, result == CUDA_SUCCESS, uncharge));
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
        physical_export(handle);
    return result;
}
