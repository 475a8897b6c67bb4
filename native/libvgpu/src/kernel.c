// The calls on libraries and kernels that take no VRAM: they only need a living handle, since one that library.c had to unload
// is unknown to the driver.
#include "driver.h"
#include "library.h"

CUresult cuLibraryGetKernel(CUkernel *pKernel, CUlibrary library, const char *name)
{
    if (library_is_dead(library))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = (cuda_enter(), REAL(cuLibraryGetKernel)(pKernel, library, name));
    if (result == CUDA_SUCCESS && cuda_enter() == DRIVER_ACTIVE)
        library_know_kernel(*pKernel, library);
    return result;
}

CUresult cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int numKernels, CUlibrary lib)
{
    if (library_is_dead(lib))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = (cuda_enter(), REAL(cuLibraryEnumerateKernels)(kernels, numKernels, lib));
    unsigned count = 0;
    if (result != CUDA_SUCCESS || cuda_enter() != DRIVER_ACTIVE ||
        REAL(cuLibraryGetKernelCount)(&count, lib) != CUDA_SUCCESS)
        return result;
    for (unsigned i = 0; i < count && i < numKernels; i++)
        library_know_kernel(kernels[i], lib);
    return result;
}

#define LIVING(dead, call_driver)                                                                                      \
    if (dead)                                                                                                          \
        return CUDA_ERROR_OUT_OF_MEMORY;                                                                               \
    cuda_enter();                                                                                                      \
    return call_driver

CUresult cuLibraryGetKernelCount(unsigned int *count, CUlibrary lib)
{
    LIVING(library_is_dead(lib), REAL(cuLibraryGetKernelCount)(count, lib));
}

CUresult cuKernelGetAttribute(int *pi, CUfunction_attribute attrib, CUkernel kernel, CUdevice dev)
{
    LIVING(library_is_dead_kernel(kernel), REAL(cuKernelGetAttribute)(pi, attrib, kernel, dev));
}

CUresult cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel, CUdevice dev)
{
    LIVING(library_is_dead_kernel(kernel), REAL(cuKernelSetAttribute)(attrib, val, kernel, dev));
}

CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice dev)
{
    LIVING(library_is_dead_kernel(kernel), REAL(cuKernelSetCacheConfig)(kernel, config, dev));
}

CUresult cuKernelGetName(const char **name, CUkernel hfunc)
{
    LIVING(library_is_dead_kernel(hfunc), REAL(cuKernelGetName)(name, hfunc));
}

CUresult cuKernelGetParamInfo(CUkernel kernel, size_t paramIndex, size_t *paramOffset, size_t *paramSize)
{
    LIVING(library_is_dead_kernel(kernel), REAL(cuKernelGetParamInfo)(kernel, paramIndex, paramOffset, paramSize));
}

CUresult cuKernelGetParamCount(CUkernel kernel, size_t *paramCount)
{
    LIVING(library_is_dead_kernel(kernel), REAL(cuKernelGetParamCount)(kernel, paramCount));
}

CUresult cuKernelGetLibrary(CUlibrary *pLib, CUkernel kernel)
{
    LIVING(library_is_dead_kernel(kernel), REAL(cuKernelGetLibrary)(pLib, kernel));
}
