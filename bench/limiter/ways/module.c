// Static data of modules and libraries: 256 MiB each.  A library's is taken when it is first used, not at its load.
#include "way.h"

#define STATIC (256 * MIB)

static const char image[] = ".version 6.4\n"
                            ".target sm_75\n"
                            ".address_size 64\n"
                            ".visible .global .align 8 .b8 big[268435456];\n"
                            ".visible .entry work()\n"
                            "{\n"
                            "    ret;\n"
                            "}\n";

static CUlibrary load_library(void)
{
    CUlibrary library;
    need("cuLibraryLoadData", cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
    return library;
}

static CUkernel load_kernel(void)
{
    CUkernel kernel;
    need("cuLibraryGetKernel", cuLibraryGetKernel(&kernel, load_library(), "work"));
    return kernel;
}

static void module_data(void)
{
    open_card();
    CUmodule module;
    while (wanting() && granted("cuModuleLoadData", cuModuleLoadData(&module, image), STATIC))
        ;
}

static void library_function(void)
{
    open_card();
    CUfunction function;
    while (wanting() && granted("cuKernelGetFunction", cuKernelGetFunction(&function, load_kernel()), STATIC))
        ;
}

static CUresult launch(CUkernel kernel)
{
    CUresult result = cuLaunchKernel((CUfunction)kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
    return result ? result : cuCtxSynchronize();
}

static void library_launch(void)
{
    open_card();
    while (wanting() && granted("cuLaunchKernel", launch(load_kernel()), STATIC))
        ;
}

static CUresult create_context(CUcontext *context)
{
#if CUDA_VERSION >= 13000
    return cuCtxCreate(context, NULL, 0, 0);
#else
    return cuCtxCreate(context, 0, 0);
#endif
}

// One library in many contexts: it comes into each with all its data.
static void library_contexts(void)
{
    open_card();
    CUkernel kernel = load_kernel();
    CUcontext context;
    while (wanting() && granted("cuLaunchKernel", launch(kernel), STATIC) &&
           granted("cuCtxCreate", create_context(&context), context_bytes))
        ;
}

static void library_variable(void)
{
    open_card();
    CUdeviceptr pointer;
    size_t bytes;
    while (wanting() &&
           granted("cuLibraryGetGlobal", cuLibraryGetGlobal(&pointer, &bytes, load_library(), "big"), STATIC))
        ;
}

const struct way module_ways[] = {
    {"module_data", module_data},           {"library_function", library_function}, {"library_launch", library_launch},
    {"library_contexts", library_contexts}, {"library_variable", library_variable}, {0},
};
