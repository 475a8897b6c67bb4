// Linear memory: cuMemAlloc and its kin, and their free.
// Neighbours: pool.c has the stream-ordered allocations, vmm.c the virtual memory calls.
#include "cards.h"
#include "charge.h"
#include "driver.h"

// Rows are laid out at least this far apart.
#define PITCH_UNIT UINT64_C(512)

static uint64_t multiply(uint64_t a, uint64_t b)
{
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)
{
    struct charge charge;
    CUresult refused = charge_linear(&charge, bytesize, __func__);
    if (refused != CUDA_SUCCESS)
        return refused;
    CUresult result = REAL(cuMemAlloc_v2)(dptr, bytesize);
    return charge_settle(&charge, result, OBJECT_MEMORY, result == CUDA_SUCCESS ? *dptr : 0);
}

CUresult cuMemAlloc(CUdeviceptr_v1 *dptr, unsigned int bytesize)
{
    struct charge charge;
    CUresult refused = charge_linear(&charge, bytesize, __func__);
    if (refused != CUDA_SUCCESS)
        return refused;
    CUresult result = REAL(cuMemAlloc)(dptr, bytesize);
    return charge_settle(&charge, result, OBJECT_MEMORY, result == CUDA_SUCCESS ? *dptr : 0);
}

static uint64_t expected_pitch(uint64_t width)
{
    return width > UINT64_MAX - PITCH_UNIT ? UINT64_MAX : (width + PITCH_UNIT - 1) / PITCH_UNIT * PITCH_UNIT;
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes, size_t Height,
                            unsigned int ElementSizeBytes)
{
    struct charge charge;
    CUresult refused = charge_linear(&charge, multiply(expected_pitch(WidthInBytes), Height), __func__);
    if (refused != CUDA_SUCCESS)
        return refused;
    CUresult result = REAL(cuMemAllocPitch_v2)(dptr, pPitch, WidthInBytes, Height, ElementSizeBytes);
    if (result == CUDA_SUCCESS && charge.card >= 0 && !charge_correct(&charge, multiply(*pPitch, Height))) {
        REAL(cuMemFree_v2)(*dptr);
        return charge_overshot(&charge);
    }
    return charge_settle(&charge, result, OBJECT_MEMORY, result == CUDA_SUCCESS ? *dptr : 0);
}

CUresult cuMemAllocPitch(CUdeviceptr_v1 *dptr, unsigned int *pPitch, unsigned int WidthInBytes, unsigned int Height,
                         unsigned int ElementSizeBytes)
{
    struct charge charge;
    CUresult refused = charge_linear(&charge, multiply(expected_pitch(WidthInBytes), Height), __func__);
    if (refused != CUDA_SUCCESS)
        return refused;
    CUresult result = REAL(cuMemAllocPitch)(dptr, pPitch, WidthInBytes, Height, ElementSizeBytes);
    if (result == CUDA_SUCCESS && charge.card >= 0 && !charge_correct(&charge, multiply(*pPitch, Height))) {
        REAL(cuMemFree)(*dptr);
        return charge_overshot(&charge);
    }
    return charge_settle(&charge, result, OBJECT_MEMORY, result == CUDA_SUCCESS ? *dptr : 0);
}

// Charged in full to the current card: no figure of the driver shows how much of it lies there.
CUresult cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned int flags)
{
    struct charge charge;
    CUresult refused = charge_linear(&charge, bytesize, __func__);
    if (refused != CUDA_SUCCESS)
        return refused;
    charge_mark_managed(&charge);
    CUresult result = REAL(cuMemAllocManaged)(dptr, bytesize, flags);
    return charge_settle(&charge, result, OBJECT_MEMORY, result == CUDA_SUCCESS ? *dptr : 0);
}

// The record is taken out before the driver frees, so that the next owner of the address can't meet it.  A pointer that we
// don't know goes to the driver like any other.
CUresult cuMemFree_v2(CUdeviceptr dptr)
{
    struct object object;
    if (cuda_enter() != DRIVER_ACTIVE || !objects_take(OBJECT_MEMORY, dptr, &object))
        return REAL(cuMemFree_v2)(dptr);
    charge_free_begin(&object);
    CUresult result = REAL(cuMemFree_v2)(dptr);
    charge_free_end(&object, result == CUDA_SUCCESS);
    return result;
}

CUresult cuMemFree(CUdeviceptr_v1 dptr)
{
    struct object object;
    if (cuda_enter() != DRIVER_ACTIVE || !objects_take(OBJECT_MEMORY, dptr, &object))
        return REAL(cuMemFree)(dptr);
    charge_free_begin(&object);
    CUresult result = REAL(cuMemFree)(dptr);
    charge_free_end(&object, result == CUDA_SUCCESS);
    return result;
}
