// CUDA arrays and mipmapped arrays: sizes come from the descriptor, and the driver's figure has the last word.
#include "array_size.h"
#include "cards.h"
#include "charge.h"
#include "driver.h"
#include "footprint.h"

// The driver's padding of tiled layouts, and how small arrays share blocks, isn't documented: what it took beyond our estimate is
// seen in the figure.
static bool beyond_limit(const struct charge *charge)
{
    if (charge->card < 0)
        return false;
    footprint_leave(charge->card);
    footprint_refresh(charge->card);
    footprint_enter(charge->card);
    return charge_over_limit(charge->card);
}

#define CREATE_ARRAY(function, description)                                                                            \
    struct charge charge;                                                                                              \
    CUresult refused = charge_array(&charge, description ? array_bytes(array_shape(description)) : 0, __func__);       \
    if (refused != CUDA_SUCCESS)                                                                                       \
        return refused;                                                                                                \
    CUresult result = REAL(function)(pHandle, description);                                                            \
    if (result == CUDA_SUCCESS && beyond_limit(&charge)) {                                                             \
        REAL(cuArrayDestroy)(*pHandle);                                                                                \
        return charge_overshot(&charge);                                                                               \
    }                                                                                                                  \
    return charge_settle(&charge, result, OBJECT_ARRAY, result == CUDA_SUCCESS ? (uintptr_t)*pHandle : 0)

CUresult cuArrayCreate(CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR_v1 *pAllocateArray)
{
    CREATE_ARRAY(cuArrayCreate, pAllocateArray);
}

CUresult cuArrayCreate_v2(CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR *pAllocateArray)
{
    CREATE_ARRAY(cuArrayCreate_v2, pAllocateArray);
}

CUresult cuArray3DCreate(CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR_v1 *pAllocateArray)
{
    CREATE_ARRAY(cuArray3DCreate, pAllocateArray);
}

CUresult cuArray3DCreate_v2(CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *pAllocateArray)
{
    CREATE_ARRAY(cuArray3DCreate_v2, pAllocateArray);
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *pMipmappedArrayDesc,
                                unsigned int numMipmapLevels)
{
    struct charge charge;
    uint64_t bytes = pMipmappedArrayDesc ? array_mipmap_bytes(array_shape(pMipmappedArrayDesc), numMipmapLevels) : 0;
    CUresult refused = charge_array(&charge, bytes, __func__);
    if (refused != CUDA_SUCCESS)
        return refused;
    CUresult result = REAL(cuMipmappedArrayCreate)(pHandle, pMipmappedArrayDesc, numMipmapLevels);
    if (result == CUDA_SUCCESS && beyond_limit(&charge)) {
        REAL(cuMipmappedArrayDestroy)(*pHandle);
        return charge_overshot(&charge);
    }
    return charge_settle(&charge, result, OBJECT_MIPMAP, result == CUDA_SUCCESS ? (uintptr_t)*pHandle : 0);
}

// What is left may be more than its estimates, which this one's hid.
static CUresult destroyed(const struct object *object, CUresult result)
{
    charge_free_end(object, result == CUDA_SUCCESS);
    if (object->card >= 0)
        footprint_refresh(object->card);
    return result;
}

// A sparse one has no record: what it took is what was bound to it.
static CUresult destroyed_unknown(CUresult result, bool active)
{
    return footprint_looked(result, active ? cards_current() : CARD_NONE);
}

CUresult cuArrayDestroy(CUarray hArray)
{
    struct object object;
    bool active = cuda_enter() == DRIVER_ACTIVE;
    if (!active || !objects_take(OBJECT_ARRAY, (uintptr_t)hArray, &object))
        return destroyed_unknown(REAL(cuArrayDestroy)(hArray), active);
    charge_free_begin(&object);
    return destroyed(&object, REAL(cuArrayDestroy)(hArray));
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray hMipmappedArray)
{
    struct object object;
    bool active = cuda_enter() == DRIVER_ACTIVE;
    if (!active || !objects_take(OBJECT_MIPMAP, (uintptr_t)hMipmappedArray, &object))
        return destroyed_unknown(REAL(cuMipmappedArrayDestroy)(hMipmappedArray), active);
    charge_free_begin(&object);
    return destroyed(&object, REAL(cuMipmappedArrayDestroy)(hMipmappedArray));
}
