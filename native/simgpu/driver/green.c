// Green contexts: a part of a device's multiprocessors, in its primary context, which they bring in and keep.
// All of a green context's work takes the whole engine here; what it costs in memory is what counts.
#include "context.h"

#include <stdlib.h>

struct CUdevResourceDesc_st {
    unsigned sm_count;
};

struct green {
    CUdevice device;
    unsigned sm_count;
    struct context *context;
};

static CUdevSmResource all_sms(void)
{
    unsigned count = (unsigned)sim_model()->sm_count;
    return (CUdevSmResource){.smCount = count, .minSmPartitionSize = 2, .smCoscheduledAlignment = 2};
}

CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource *resource, CUdevResourceType type)
{
    unsigned card;
    CUresult result = check_init();
    if (result != CUDA_SUCCESS)
        return result;
    if (!device_card(device, &card))
        return CUDA_ERROR_INVALID_DEVICE;
    if (!resource)
        return CUDA_ERROR_INVALID_VALUE;
    if (type != CU_DEV_RESOURCE_TYPE_SM)
        return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    *resource = (CUdevResource){.type = type, .sm = all_sms()};
    return CUDA_SUCCESS;
}

CUresult cuDevResourceGenerateDesc(CUdevResourceDesc *out, CUdevResource *resources, unsigned int count)
{
    CUresult result = check_init();
    if (result != CUDA_SUCCESS)
        return result;
    if (!out || !resources || count == 0)
        return CUDA_ERROR_INVALID_VALUE;
    CUdevResourceDesc description = calloc(1, sizeof *description); // never freed by any call of the API
    if (!description)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (unsigned i = 0; i < count; i++)
        description->sm_count += resources[i].sm.smCount;
    *out = description;
    return CUDA_SUCCESS;
}

CUresult cuGreenCtxCreate(CUgreenCtx *out, CUdevResourceDesc description, CUdevice device, unsigned int flags)
{
    (void)flags;
    CUcontext primary;
    if (!out || !description)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = cuDevicePrimaryCtxRetain(&primary, device);
    if (result != CUDA_SUCCESS)
        return result;
    result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    struct green *green = calloc(1, sizeof *green);
    if (!green)
        abort();
    *green = (struct green){.device = device, .sm_count = description->sm_count};
    result = context_start_green(device, &green->context);
    if (result == CUDA_SUCCESS) {
        handle_add(green, HANDLE_GREEN);
        *out = (CUgreenCtx)green;
        return leave(result);
    }
    free(green);
    leave(result);
    cuDevicePrimaryCtxRelease_v2(device);
    return result;
}

static struct green *green_of(CUgreenCtx handle)
{
    return handle_is(handle, HANDLE_GREEN) ? (struct green *)handle : NULL;
}

CUresult cuGreenCtxDestroy(CUgreenCtx handle)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    struct green *green = green_of(handle);
    if (!green)
        return leave(CUDA_ERROR_INVALID_CONTEXT);
    CUdevice device = green->device;
    context_stop_green(green->context);
    handle_remove(green);
    free(green);
    leave(CUDA_SUCCESS);
    cuDevicePrimaryCtxRelease_v2(device);
    return CUDA_SUCCESS;
}

CUresult cuCtxFromGreenCtx(CUcontext *out, CUgreenCtx handle)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    const struct green *green = green_of(handle);
    if (!out || !green)
        return leave(out ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_INVALID_VALUE);
    *out = (CUcontext)green->context;
    return leave(CUDA_SUCCESS);
}

CUresult cuGreenCtxGetDevResource(CUgreenCtx handle, CUdevResource *resource, CUdevResourceType type)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    const struct green *green = green_of(handle);
    if (!green || !resource)
        return leave(CUDA_ERROR_INVALID_VALUE);
    if (type != CU_DEV_RESOURCE_TYPE_SM)
        return leave(CUDA_ERROR_INVALID_RESOURCE_TYPE);
    *resource = (CUdevResource){.type = type, .sm = all_sms()};
    resource->sm.smCount = green->sm_count;
    return leave(CUDA_SUCCESS);
}
