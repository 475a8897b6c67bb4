// Every way to start work on the card.  The core share's gate belongs into before_launch(): all wrappers pass there.
#include "driver.h"
#include "library.h"

// VRAM: a kernel that isn't loaded yet brings its library in.
static inline CUresult before_launch(CUfunction function, const char *call)
{
    cuda_enter();
    return library_load_kernel(function, call);
}

#define LAUNCH(function, call_driver)                                                                                  \
    CUresult refused = before_launch(function, __func__);                                                              \
    return refused == CUDA_SUCCESS ? call_driver : refused

CUresult cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
                        unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,
                        unsigned int sharedMemBytes, CUstream hStream, void **kernelParams, void **extra)
{
    LAUNCH(f, REAL(cuLaunchKernel)(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes,
                                   hStream, kernelParams, extra));
}

CUresult cuLaunchKernel_ptsz(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
                             unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,
                             unsigned int sharedMemBytes, CUstream hStream, void **kernelParams, void **extra)
{
    LAUNCH(f, REAL(cuLaunchKernel_ptsz)(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ,
                                        sharedMemBytes, hStream, kernelParams, extra));
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra)
{
    LAUNCH(f, REAL(cuLaunchKernelEx)(config, f, kernelParams, extra));
}

CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra)
{
    LAUNCH(f, REAL(cuLaunchKernelEx_ptsz)(config, f, kernelParams, extra));
}

CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
                                   unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,
                                   unsigned int sharedMemBytes, CUstream hStream, void **kernelParams)
{
    LAUNCH(f, REAL(cuLaunchCooperativeKernel)(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ,
                                              sharedMemBytes, hStream, kernelParams));
}

CUresult cuLaunchCooperativeKernel_ptsz(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                                        unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
                                        unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
                                        void **kernelParams)
{
    LAUNCH(f, REAL(cuLaunchCooperativeKernel_ptsz)(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ,
                                                   sharedMemBytes, hStream, kernelParams));
}

CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *launchParamsList, unsigned int numDevices,
                                              unsigned int flags)
{
    for (unsigned i = 0; launchParamsList && i < numDevices; i++) {
        CUresult refused = before_launch(launchParamsList[i].function, __func__);
        if (refused != CUDA_SUCCESS)
            return refused;
    }
    cuda_enter();
    return REAL(cuLaunchCooperativeKernelMultiDevice)(launchParamsList, numDevices, flags);
}

CUresult cuLaunch(CUfunction f)
{
    LAUNCH(f, REAL(cuLaunch)(f));
}

CUresult cuLaunchGrid(CUfunction f, int grid_width, int grid_height)
{
    LAUNCH(f, REAL(cuLaunchGrid)(f, grid_width, grid_height));
}

CUresult cuLaunchGridAsync(CUfunction f, int grid_width, int grid_height, CUstream hStream)
{
    LAUNCH(f, REAL(cuLaunchGridAsync)(f, grid_width, grid_height, hStream));
}
