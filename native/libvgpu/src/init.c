// cuInit: the first CUDA call of a process, and the place to refuse all others.
#include "driver.h"
#include "member.h"

CUresult cuInit(unsigned int Flags)
{
    switch (cuda_enter()) {
    case DRIVER_REFUSE:
        return CUDA_ERROR_NOT_PERMITTED;
    case DRIVER_ACTIVE:
        if (!member_ledger())
            return CUDA_ERROR_NOT_PERMITTED;
        break;
    default:
        break;
    }
    if (!cuda_bound())
        return CUDA_ERROR_NO_DEVICE;
    return REAL(cuInit)(Flags);
}
