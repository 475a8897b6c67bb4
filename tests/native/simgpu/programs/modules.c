#include "check.h"

#define WITH_256 "//hamisim static=256 kernels=sim_spin,two(4,8)"

static const char ptx[] = "//\n"
                          "// compiled\n"
                          ".version 8.0\n.target sm_75\n.address_size 64\n"
                          ".visible .global .align 4 .u32 counter;\n"
                          ".global .align 16 .b8 table[1048576][3];\n"
                          ".extern .global .align 4 .b8 elsewhere[];\n"
                          ".visible .entry add(\n  .param .u64 add_param_0,\n  .param .u32 add_param_1,\n"
                          "  .param .align 8 .b8 add_param_2[24]\n)\n"
                          "{\n  ld.global.u32 %r1, [%rd1];\n  ret;\n}\n"
                          ".visible .entry none()\n{\n ret;\n}\n";

CASE(a_modules_data_is_charged_at_its_load)
{
    start();
    CUmodule module;
    CUdeviceptr pointer;
    size_t bytes;
    OK(cuModuleLoadData(&module, WITH_256));
    GIVES(104 + 256, held());
    OK(cuModuleGetGlobal_v2(&pointer, &bytes, module, "sim_static"));
    GIVES(256 * MIB, bytes);
    OK(cuMemsetD8_v2(pointer, 1, 256));
    OK(cuModuleUnload(module));
    GIVES(104, held());
    GIVES(CUDA_ERROR_INVALID_HANDLE, cuModuleUnload(module));
}

CASE(a_librarys_data_is_charged_when_a_kernel_is_needed)
{
    start();
    CUlibrary library;
    CUkernel kernel;
    CUfunction function;
    OK(cuLibraryLoadData(&library, WITH_256, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernel(&kernel, library, "sim_spin"));
    GIVES(104, held());
    OK(cuKernelGetFunction(&function, kernel));
    GIVES(104 + 256, held());
    OK(cuKernelGetFunction(&function, kernel));
    GIVES(104 + 256, held());
    OK(cuLibraryUnload(library));
    GIVES(104, held());
}

CASE(launching_a_librarys_kernel_loads_it_into_the_context)
{
    start();
    CUlibrary library;
    CUkernel kernel;
    uint64_t ns = 1000;
    void *parameters[] = {&ns};
    OK(cuLibraryLoadData(&library, WITH_256, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernel(&kernel, library, "sim_spin"));
    OK(cuLaunchKernel((CUfunction)kernel, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
    GIVES(104 + 256, held());
    CUcontext second;
    OK(cuCtxCreate_v2(&second, 0, 0));
    OK(cuLaunchKernel((CUfunction)kernel, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
    GIVES(208 + 512, held());
    OK(cuCtxDestroy_v2(second));
    GIVES(104 + 256, held());
}

CASE(a_full_card_refuses_a_module)
{
    start();
    CUdeviceptr pointer;
    CUmodule module;
    OK(cuMemAlloc_v2(&pointer, 15100 * MIB));
    GIVES(CUDA_ERROR_OUT_OF_MEMORY, cuModuleLoadData(&module, WITH_256));
    GIVES(104 + 15100, held());
}

CASE(an_image_names_its_kernels)
{
    start();
    CUmodule module;
    CUfunction function;
    size_t offset, size;
    const char *name;
    unsigned count;
    OK(cuModuleLoadData(&module, WITH_256));
    GIVES(CUDA_ERROR_NOT_FOUND, cuModuleGetFunction(&function, module, "other"));
    OK(cuModuleGetFunction(&function, module, "two"));
    OK(cuFuncGetParamInfo(function, 1, &offset, &size));
    GIVES(8, offset);
    GIVES(8, size);
    GIVES(CUDA_ERROR_INVALID_VALUE, cuFuncGetParamInfo(function, 2, &offset, &size));
    OK(cuFuncGetName(&name, function));
    OK(strcmp(name, "two"));
    OK(cuModuleGetFunctionCount(&count, module));
    GIVES(2, count);
    CUmodule owner;
    OK(cuFuncGetModule(&owner, function));
    TRUE(owner == module);
    GIVES(CUDA_ERROR_INVALID_IMAGE, cuModuleLoadData(&module, "//hamisim colour=red"));
    GIVES(CUDA_ERROR_INVALID_IMAGE, cuModuleLoadData(&module, "//hamisim kernels=a(x)"));
}

CASE(ptx_tells_its_entries_and_globals)
{
    start();
    CUmodule module;
    CUfunction function;
    CUdeviceptr pointer;
    size_t bytes, offset;
    OK(cuModuleLoadData(&module, ptx));
    GIVES(104 + 4, held()); // 3 MiB and 4 bytes
    OK(cuModuleGetGlobal_v2(&pointer, &bytes, module, "table"));
    GIVES(3 * MIB, bytes);
    OK(cuModuleGetGlobal_v2(&pointer, &bytes, module, "counter"));
    GIVES(4, bytes);
    GIVES(CUDA_ERROR_NOT_FOUND, cuModuleGetGlobal_v2(&pointer, &bytes, module, "elsewhere"));
    OK(cuModuleGetFunction(&function, module, "none"));
    OK(cuModuleGetFunction(&function, module, "add"));
    OK(cuFuncGetParamInfo(function, 2, &offset, &bytes));
    GIVES(16, offset);
    GIVES(24, bytes);
    GIVES(CUDA_ERROR_INVALID_VALUE, cuFuncGetParamInfo(function, 3, &offset, &bytes));
}

CASE(any_other_image_has_any_kernel)
{
    start();
    CUmodule module;
    CUfunction function;
    const unsigned char elf[64] = {0x7f, 'E', 'L', 'F', 2, 1, 1};
    OK(cuModuleLoadData(&module, elf));
    OK(cuModuleGetFunction(&function, module, "_Z3addPfS_i"));
    GIVES(104, held());
    OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    OK(cuCtxSynchronize());
}

CASE(launches_are_checked)
{
    start();
    CUfunction function = spinner();
    uint64_t ns = 1000;
    void *parameters[] = {&ns};
    size_t size = sizeof ns;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &ns, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
    GIVES(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(function, 0, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(function, 1, 1, 1, 1025, 1, 1, 0, NULL, parameters, NULL));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    GIVES(CUDA_ERROR_INVALID_HANDLE, cuLaunchKernel((CUfunction)&ns, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
    GIVES(CUDA_ERROR_INVALID_HANDLE, cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, (CUstream)&ns, parameters, NULL));
    OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra));
    CUlaunchConfig config = {
        .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 1, .blockDimY = 1, .blockDimZ = 1};
    OK(cuLaunchKernelEx(&config, function, parameters, NULL));
    OK(cuLaunchCooperativeKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, parameters));
    OK(cuLaunchKernel_ptsz(function, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
    OK(cuCtxSynchronize());
    GIVES(4000, hamisim_busy_for(0, 0));
}

CASE(a_linker_gives_back_what_it_got)
{
    start();
    CUlinkState linker;
    CUmodule module;
    CUfunction function;
    void *image;
    OK(cuLinkCreate_v2(0, NULL, NULL, &linker));
    OK(cuLinkAddData_v2(linker, CU_JIT_INPUT_PTX, (void *)ptx, sizeof ptx, "x", 0, NULL, NULL));
    OK(cuLinkComplete(linker, &image, NULL));
    OK(cuModuleLoadData(&module, image));
    OK(cuLinkDestroy(linker));
    OK(cuModuleGetFunction(&function, module, "add"));
}

CASE(occupancy_is_plausible)
{
    start();
    CUfunction function = spinner();
    int blocks, grid, block;
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, 256, 0));
    GIVES(4, blocks);
    OK(cuOccupancyMaxPotentialBlockSize(&grid, &block, function, NULL, 0, 0));
    GIVES(1024, block);
    GIVES(40, grid);
}
