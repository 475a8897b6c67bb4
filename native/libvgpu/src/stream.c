// Waiting for streams, and their end: what the core share has to know of.  Nothing here takes VRAM; pools give some back.
#include "driver.h"
#include "pool.h"
#include "share.h"

CUresult cuCtxSynchronize(void)
{
    cuda_enter();
    struct share_wait wait = share_wait(NULL, false, true);
    return share_waited(&wait, pool_waited(REAL(cuCtxSynchronize)()));
}

CUresult cuCtxSynchronize_v2(CUcontext ctx)
{
    cuda_enter();
    // of another context than the current one nothing is known that its own streams' marks don't say
    CUcontext current = NULL;
    bool own = !ctx || (REAL(cuCtxGetCurrent)(&current) == CUDA_SUCCESS && current == ctx);
    struct share_wait wait = own ? share_wait(NULL, false, true) : (struct share_wait){0};
    return share_waited(&wait, pool_waited(REAL(cuCtxSynchronize_v2)(ctx)));
}

CUresult cuStreamSynchronize(CUstream hStream)
{
    cuda_enter();
    struct share_wait wait = share_wait(hStream, false, false);
    return share_waited(&wait, pool_waited(REAL(cuStreamSynchronize)(hStream)));
}

CUresult cuStreamSynchronize_ptsz(CUstream hStream)
{
    cuda_enter();
    struct share_wait wait = share_wait(hStream, true, false);
    return share_waited(&wait, pool_waited(REAL(cuStreamSynchronize_ptsz)(hStream)));
}

CUresult cuStreamQuery(CUstream hStream)
{
    cuda_enter();
    struct share_wait wait = share_wait(hStream, false, false);
    return share_waited(&wait, pool_waited(REAL(cuStreamQuery)(hStream)));
}

CUresult cuStreamQuery_ptsz(CUstream hStream)
{
    cuda_enter();
    struct share_wait wait = share_wait(hStream, true, false);
    return share_waited(&wait, pool_waited(REAL(cuStreamQuery_ptsz)(hStream)));
}

CUresult cuEventSynchronize(CUevent hEvent)
{
    cuda_enter();
    CUresult result = pool_waited(REAL(cuEventSynchronize)(hEvent));
    share_looked();
    return result;
}

CUresult cuStreamDestroy(CUstream hStream)
{
    cuda_enter();
    share_forget(hStream);
    pool_forget_streams();
    return REAL(cuStreamDestroy)(hStream);
}

CUresult cuStreamDestroy_v2(CUstream hStream)
{
    cuda_enter();
    share_forget(hStream);
    pool_forget_streams();
    return REAL(cuStreamDestroy_v2)(hStream);
}
