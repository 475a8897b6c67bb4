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
    return share_is_off() && !library_waits();
}

// The long way is a function of its own: the short one then fits into two lines of the processor's cache.
#define LAUNCH(name, parameters, arguments, blocks, stream, per_thread)                                                \
    static __attribute__((noinline)) CUresult name##_held parameters                                                   \
    {                                                                                                                  \
        CUresult refused = before_launch(f, #name);                                                                    \
        if (refused != CUDA_SUCCESS)                                                                                   \
            return refused;                                                                                            \
        struct share_ticket ticket = share_enter(f, blocks, stream, per_thread);                                       \
        CUresult result = REAL(name) arguments;                                                                        \
        share_leave(&ticket);                                                                                          \
        return result;                                                                                                 \
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

#define COOPERATIVE_PARAMETERS                                                                                         \
    (CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ, unsigned int blockDimX,        \
     unsigned int blockDimY, unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,                    \
     void **kernelParams)
#define COOPERATIVE_ARGUMENTS                                                                                          \
    (f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream, kernelParams)

LAUNCH(cuLaunchCooperativeKernel, COOPERATIVE_PARAMETERS, COOPERATIVE_ARGUMENTS, GRID, hStream, false)
LAUNCH(cuLaunchCooperativeKernel_ptsz, COOPERATIVE_PARAMETERS, COOPERATIVE_ARGUMENTS, GRID, hStream, true)

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

// The first ones of CUDA, which take the grid as two numbers or not at all.
#define PLANE ((uint64_t)grid_width * (uint64_t)grid_height)

LAUNCH(cuLaunch, (CUfunction f), (f), 1, NULL, false)
LAUNCH(cuLaunchGrid, (CUfunction f, int grid_width, int grid_height), (f, grid_width, grid_height), PLANE, NULL, false)
LAUNCH(cuLaunchGridAsync, (CUfunction f, int grid_width, int grid_height, CUstream hStream),
       (f, grid_width, grid_height, hStream), PLANE, hStream, false)
