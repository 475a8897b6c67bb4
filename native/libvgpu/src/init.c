// cuInit: the first CUDA call of a process, and the place to refuse all others.
#include "driver.h"
#include "member.h"
#include "slice.h"

CUresult cuInit(unsigned int Flags)
{
    switch (cuda_enter()) {
    case DRIVER_REFUSE:
        return CUDA_ERROR_NOT_PERMITTED;
    case DRIVER_ACTIVE:
        if (!member_ledger())
            return CUDA_ERROR_NOT_PERMITTED;
        // a server without a GPU: the same answer as on a machine without one
        if (slice()->limits->card_count == 0 && !slice()->from_environment)
            return CUDA_ERROR_NO_DEVICE;
        break;
    default:
        break;
    }
    if (!cuda_bound())
        return CUDA_ERROR_NO_DEVICE;
    return REAL(cuInit)(Flags);
}
