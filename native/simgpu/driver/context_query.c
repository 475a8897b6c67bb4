// What a context says of itself, and waiting for it.
#include "context.h"
#include "capture.h"
#include "pool.h"
#include "stream.h"

// The given context, or the current one where the handle is NULL.
static CUresult enter_given(CUcontext handle, struct context **context)
{
    if (!handle)
        return enter(context);
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    *context = context_of(handle);
    return *context ? CUDA_SUCCESS : leave(CUDA_ERROR_INVALID_CONTEXT);
}

CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext handle)
{
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    struct context *context;
    CUresult result = enter_given(handle, &context);
    if (result != CUDA_SUCCESS)
        return result;
    *device = context->device;
    return leave(CUDA_SUCCESS);
}

CUresult cuCtxGetDevice(CUdevice *device)
{
    return cuCtxGetDevice_v2(device, NULL);
}

CUresult cuCtxSynchronize_v2(CUcontext handle)
{
    struct context *context;
    CUresult result = enter_given(handle, &context);
    if (result != CUDA_SUCCESS)
        return result;
    if (capture_any(context))
        return leave(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    context_drain(context);
    pools_settle(context->card);
    return leave(CUDA_SUCCESS);
}

CUresult cuCtxSynchronize(void)
{
    return cuCtxSynchronize_v2(NULL);
}

CUresult cuCtxGetFlags(unsigned int *flags)
{
    if (!flags)
        return CUDA_ERROR_INVALID_VALUE;
    struct context *context;
    CUresult result = enter(&context);
    if (result != CUDA_SUCCESS)
        return result;
    *flags = context->flags;
    return leave(CUDA_SUCCESS);
}

CUresult cuCtxSetFlags(unsigned int flags)
{
    struct context *context;
    CUresult result = enter(&context);
    if (result != CUDA_SUCCESS)
        return result;
    context->flags = flags;
    return leave(CUDA_SUCCESS);
}

CUresult cuCtxGetId(CUcontext handle, unsigned long long *id)
{
    if (!id)
        return CUDA_ERROR_INVALID_VALUE;
    struct context *context;
    CUresult result = enter_given(handle, &context);
    if (result != CUDA_SUCCESS)
        return result;
    *id = context->id;
    return leave(CUDA_SUCCESS);
}

CUresult cuCtxGetApiVersion(CUcontext handle, unsigned int *version)
{
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    struct context *context;
    CUresult result = enter_given(handle, &context);
    if (result != CUDA_SUCCESS)
        return result;
    *version = context->api_version;
    return leave(CUDA_SUCCESS);
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    struct context *context;
    CUresult result = enter(&context);
    if (result != CUDA_SUCCESS)
        return result;
    if (least)
        *least = STREAM_PRIORITY_LEAST;
    if (greatest)
        *greatest = STREAM_PRIORITY_GREATEST;
    return leave(CUDA_SUCCESS);
}

CUresult cuCtxGetCacheConfig(CUfunc_cache *config)
{
    if (!config)
        return CUDA_ERROR_INVALID_VALUE;
    struct context *context;
    CUresult result = enter(&context);
    if (result != CUDA_SUCCESS)
        return result;
    *config = context->cache_config;
    return leave(CUDA_SUCCESS);
}

CUresult cuCtxSetCacheConfig(CUfunc_cache config)
{
    struct context *context;
    CUresult result = enter(&context);
    if (result != CUDA_SUCCESS)
        return result;
    context->cache_config = config;
    return leave(CUDA_SUCCESS);
}

CUresult cuCtxGetSharedMemConfig(CUsharedconfig *config)
{
    if (!config)
        return CUDA_ERROR_INVALID_VALUE;
    struct context *context;
    CUresult result = enter(&context);
    if (result != CUDA_SUCCESS)
        return result;
    *config = context->shared_config;
    return leave(CUDA_SUCCESS);
}

CUresult cuCtxSetSharedMemConfig(CUsharedconfig config)
{
    struct context *context;
    CUresult result = enter(&context);
    if (result != CUDA_SUCCESS)
        return result;
    context->shared_config = config;
    return leave(CUDA_SUCCESS);
}

CUresult cuCtxResetPersistingL2Cache(void)
{
    struct context *context;
    CUresult result = enter(&context);
    return result == CUDA_SUCCESS ? leave(result) : result;
}
