// cuProfiler*: declared by cudaProfiler.h, which not every set of headers has.  There is nothing to profile.
#include "driver.h"

CUresult cuProfilerStart(void);
CUresult cuProfilerStop(void);

CUresult cuProfilerStart(void)
{
    struct context *context;
    CUresult result = enter(&context);
    return result == CUDA_SUCCESS ? leave(result) : result;
}

CUresult cuProfilerStop(void)
{
    return cuProfilerStart();
}
