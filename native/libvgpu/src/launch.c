// Every way to start a kernel.  All wrappers pass before_launch(), for the VRAM, and the core share's gate.
#include "driver.h"
#include "library.h"
#include "share.h"

// VRAM: a kernel that isn't loaded yet brings its library in.
static inline CUresult before_launch(CUfunction function, const char *call)
{
    cuda_enter();
    return library_load_kernel(function, call);
}

// Nothing to hold and nothing to load: then a launch is the driver's call and no more.
static inline bool goes_straight(void)
{
    return __builtin_expect(atomic_load_explicit(&share_mode, memory_order_relaxed) == SHARE_OFF, 1) &&
           __builtin_expect(atomic_load_explicit(&library_waiting, memory_order_relaxed) == 0, 1);
}

#define LAUNCH(function, blocks, stream, per_thread, call_driver)                                                      \
    if (goes_straight())                                                                                               \
        return call_driver;                                                                                            \
    CUresult refused = before_launch(function, __func__);                                                              \
    if (refused != CUDA_SUCCESS)                                                                                       \
        return refused;                                                                                                \
    struct share_ticket ticket = share_enter(function, blocks, stream, per_thread);                                    \
    CUresult result = call_driver;                                                                                     \
    share_leave(&ticket);                                                                                              \
    return result

#define GRID ((uint64_t)gridDimX * gridDimY * gridDimZ)

static inline uint64_t grid_of(const CUlaunchConfig *config)
{
    return config ? (uint64_t)config->gridDimX * config->gridDimY * config->gridDimZ : 0;
}

CUresult cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
                        unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,
                        unsigned int sharedMemBytes, CUstream hStream, void **kernelParams, void **extra)
{
    LAUNCH(f, GRID, hStream, false,
           REAL(cuLaunchKernel)(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes,
                                hStream, kernelParams, extra));
}

CUresult cuLaunchKernel_ptsz(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
                             unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,
                             unsigned int sharedMemBytes, CUstream hStream, void **kernelParams, void **extra)
{
    LAUNCH(f, GRID, hStream, true,
           REAL(cuLaunchKernel_ptsz)(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes,
                                     hStream, kernelParams, extra));
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra)
{
    LAUNCH(f, grid_of(config), config ? config->hStream : NULL, false,
           REAL(cuLaunchKernelEx)(config, f, kernelParams, extra));
}

CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra)
{
    LAUNCH(f, grid_of(config), config ? config->hStream : NULL, true,
           REAL(cuLaunchKernelEx_ptsz)(config, f, kernelParams, extra));
}

CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
                                   unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,
                                   unsigned int sharedMemBytes, CUstream hStream, void **kernelParams)
{
    LAUNCH(f, GRID, hStream, false,
           REAL(cuLaunchCooperativeKernel)(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ,
                                           sharedMemBytes, hStream, kernelParams));
}

CUresult cuLaunchCooperativeKernel_ptsz(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                                        unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
                                        unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
                                        void **kernelParams)
{
    LAUNCH(f, GRID, hStream, true,
           REAL(cuLaunchCooperativeKernel_ptsz)(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ,
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
    LAUNCH(f, 1, NULL, false, REAL(cuLaunch)(f));
}

CUresult cuLaunchGrid(CUfunction f, int grid_width, int grid_height)
{
    LAUNCH(f, (uint64_t)grid_width * (uint64_t)grid_height, NULL, false,
           REAL(cuLaunchGrid)(f, grid_width, grid_height));
}

CUresult cuLaunchGridAsync(CUfunction f, int grid_width, int grid_height, CUstream hStream)
{
    LAUNCH(f, (uint64_t)grid_width * (uint64_t)grid_height, hStream, false,
           REAL(cuLaunchGridAsync)(f, grid_width, grid_height, hStream));
}
