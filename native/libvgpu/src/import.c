// Memory that another process made, or another API: charged where it was made.  The driver shows it in its maker's figure, and
// from the maker's death on in the importer's (importers.h).  What a figure shows of it here is looked at when something comes
// or goes.
#include "cards.h"
#include "driver.h"
#include "footprint.h"
#include "importers.h"

static CUresult looked(CUresult result, enum driver_mode mode)
{
    return footprint_looked(result, mode == DRIVER_ACTIVE ? cards_current() : CARD_NONE);
}

// Noted before the driver is asked: the maker may die a moment later.
static enum driver_mode enter(void)
{
    enum driver_mode mode = cuda_enter();
    if (mode == DRIVER_ACTIVE)
        importers_note();
    return mode;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *osHandle,
                                        CUmemAllocationHandleType shHandleType)
{
    enum driver_mode mode = enter();
    if (mode == DRIVER_REFUSE)
        return CUDA_ERROR_NOT_PERMITTED;
    return looked(REAL(cuMemImportFromShareableHandle)(handle, osHandle, shHandleType), mode);
}

CUresult cuImportExternalMemory(CUexternalMemory *extMem_out, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *memHandleDesc)
{
    enum driver_mode mode = enter();
    if (mode == DRIVER_REFUSE)
        return CUDA_ERROR_NOT_PERMITTED;
    return looked(REAL(cuImportExternalMemory)(extMem_out, memHandleDesc), mode);
}

CUresult cuDestroyExternalMemory(CUexternalMemory extMem)
{
    enum driver_mode mode = cuda_enter();
    return looked(REAL(cuDestroyExternalMemory)(extMem), mode);
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags)
{
    enum driver_mode mode = enter();
    if (mode == DRIVER_REFUSE)
        return CUDA_ERROR_NOT_PERMITTED;
    return looked(REAL(cuIpcOpenMemHandle)(pdptr, handle, Flags), mode);
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags)
{
    enum driver_mode mode = enter();
    if (mode == DRIVER_REFUSE)
        return CUDA_ERROR_NOT_PERMITTED;
    return looked(REAL(cuIpcOpenMemHandle_v2)(pdptr, handle, Flags), mode);
}

CUresult cuIpcCloseMemHandle(CUdeviceptr dptr)
{
    enum driver_mode mode = cuda_enter();
    return looked(REAL(cuIpcCloseMemHandle)(dptr), mode);
}

CUresult cuMemPoolImportPointer(CUdeviceptr *ptr_out, CUmemoryPool pool, CUmemPoolPtrExportData *shareData)
{
    enum driver_mode mode = enter();
    return looked(REAL(cuMemPoolImportPointer)(ptr_out, pool, shareData), mode);
}
