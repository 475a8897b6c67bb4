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
    return share_is_off() && __builtin_expect(atomic_load_explicit(&hot.library_waiting, memory_order_relaxed) == 0, 1);
}

#define HOLD(function, blocks, stream, per_thread, call, call_driver)                                                  \
    CUresult refused = before_launch(function, call);                                                                  \
    if (refused != CUDA_SUCCESS)                                                                                       \
        return refused;                                                                                                \
    struct share_ticket ticket = share_enter(function, blocks, stream, per_thread);                                    \
    CUresult result = call_driver;                                                                                     \
    share_leave(&ticket);                                                                                              \
    return result

// The launches that programs are full of have the long way in a function of its own: the short one then fits into one line
// of the processor's cache, and leaves the arguments where they are.
#define LAUNCH(name, parameters, arguments, blocks, stream, per_thread)                                                \
    static __attribute__((noinline)) CUresult name##_held parameters                                                   \
    {                                                                                                                  \
        HOLD(f, blocks, stream, per_thread, #name, REAL(name) arguments);                                              \
    }                                                                                                                  \
                                                                                                                       \
    __attribute__((aligned(64))) CUresult name parameters                                                              \
    {                                                                                                                  \
        return goes_straight() ? REAL(name) arguments : name##_held arguments;                                         \
    }

#define GRID ((uint64_t)gridDimX * gridDimY * gridDimZ)

static inline uint64_t grid_of(const CUlaunchConfig *config)
{
    return config ? (uint64_t)config->gridDimX * config->gridDimY * config->gridDimZ : 0;
}

#define LAUNCH_PARAMETERS                                                                                              \
    (CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ, unsigned int blockDimX,        \
     unsigned int blockDimY, unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,                    \
     void **kernelParams, void **extra)
#define LAUNCH_ARGUMENTS                                                                                               \
    (f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream, kernelParams, extra)

LAUNCH(cuLaunchKernel, LAUNCH_PARAMETERS, LAUNCH_ARGUMENTS, GRID, hStream, false)
LAUNCH(cuLaunchKernel_ptsz, LAUNCH_PARAMETERS, LAUNCH_ARGUMENTS, GRID, hStream, true)

#define EX_PARAMETERS (const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra)
#define EX_ARGUMENTS  (config, f, kernelParams, extra)
#define EX_STREAM     (config ? config->hStream : NULL)

LAUNCH(cuLaunchKernelEx, EX_PARAMETERS, EX_ARGUMENTS, grid_of(config), EX_STREAM, false)
LAUNCH(cuLaunchKernelEx_ptsz, EX_PARAMETERS, EX_ARGUMENTS, grid_of(config), EX_STREAM, true)

CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
                                   unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,
                                   unsigned int sharedMemBytes, CUstream hStream, void **kernelParams)
{
    HOLD(f, GRID, hStream, false, __func__,
         REAL(cuLaunchCooperativeKernel)(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ,
                                         sharedMemBytes, hStream, kernelParams));
}

CUresult cuLaunchCooperativeKernel_ptsz(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                                        unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
                                        unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
                                        void **kernelParams)
{
    HOLD(f, GRID, hStream, true, __func__,
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
    HOLD(f, 1, NULL, false, __func__, REAL(cuLaunch)(f));
}

CUresult cuLaunchGrid(CUfunction f, int grid_width, int grid_height)
{
    HOLD(f, (uint64_t)grid_width * (uint64_t)grid_height, NULL, false, __func__,
         REAL(cuLaunchGrid)(f, grid_width, grid_height));
}

CUresult cuLaunchGridAsync(CUfunction f, int grid_width, int grid_height, CUstream hStream)
{
    HOLD(f, (uint64_t)grid_width * (uint64_t)grid_height, hStream, false, __func__,
         REAL(cuLaunchGridAsync)(f, grid_width, grid_height, hStream));
}
