// cuCtxSetLimit: memory that the driver takes for the kernels' stacks, heap and printf.
#include "way.h"

#include <stdlib.h>

static const char allocates[] = ".version 6.4\n"
                                ".target sm_75\n"
                                ".address_size 64\n"
                                ".extern .func (.param .b64 result) malloc (.param .b64 bytes);\n"
                                ".visible .entry work()\n"
                                "{\n"
                                "    .reg .b64 %r<3>;\n"
                                "    mov.u64 %r1, 1024;\n"
                                "    {\n"
                                "    .param .b64 given;\n"
                                "    st.param.b64 [given+0], %r1;\n"
                                "    .param .b64 got;\n"
                                "    call.uni (got), malloc, (given);\n"
                                "    ld.param.b64 %r2, [got+0];\n"
                                "    }\n"
                                "    ret;\n"
                                "}\n";

// Only thread 1 prints, and none has that number: a line on stdout would confuse the runner.
static const char prints[] = ".version 6.4\n"
                             ".target sm_75\n"
                             ".address_size 64\n"
                             ".extern .func (.param .b32 result) vprintf (.param .b64 format, .param .b64 values);\n"
                             ".global .align 1 .b8 text[2] = {46, 0};\n"
                             ".visible .entry work()\n"
                             "{\n"
                             "    .reg .pred %p<2>;\n"
                             "    .reg .b32 %a<3>;\n"
                             "    .reg .b64 %r<4>;\n"
                             "    mov.u32 %a1, %tid.x;\n"
                             "    setp.ne.u32 %p1, %a1, 1;\n"
                             "    @%p1 bra done;\n"
                             "    mov.u64 %r1, text;\n"
                             "    cvta.global.u64 %r2, %r1;\n"
                             "    mov.u64 %r3, 0;\n"
                             "    {\n"
                             "    .param .b64 format;\n"
                             "    st.param.b64 [format+0], %r2;\n"
                             "    .param .b64 values;\n"
                             "    st.param.b64 [values+0], %r3;\n"
                             "    .param .b32 got;\n"
                             "    call.uni (got), vprintf, (format, values);\n"
                             "    ld.param.b32 %a2, [got+0];\n"
                             "    }\n"
                             "done:\n"
                             "    ret;\n"
                             "}\n";

// Stacks are taken for as many threads as the card can run at once.
static void stack(void)
{
    open_card();
    int processors, threads;
    need("cuDeviceGetAttribute", cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
    need("cuDeviceGetAttribute", cuDeviceGetAttribute(&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 0));
    uint64_t all = (uint64_t)processors * (uint64_t)threads;
    for (uint64_t bytes = 2048, held = 0; all * bytes < 2 * goal; bytes *= 2) {
        if (!granted("cuCtxSetLimit", cuCtxSetLimit(CU_LIMIT_STACK_SIZE, bytes), all * bytes - held))
            return;
        held = all * bytes;
    }
}

static void set_and_run(CUlimit what, const char *image)
{
    CUmodule module;
    CUfunction work;
    open_card();
    if (!granted("cuCtxSetLimit", cuCtxSetLimit(what, goal), 0))
        return;
    if (!granted("cuModuleLoadData", cuModuleLoadData(&module, image), 0))
        return;
    need("cuModuleGetFunction", cuModuleGetFunction(&work, module, "work"));
    CUresult result = cuLaunchKernel(work, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
    if (granted("cuLaunchKernel", result, 0))
        granted("cuCtxSynchronize", cuCtxSynchronize(), goal);
}

static void heap(void)
{
    set_and_run(CU_LIMIT_MALLOC_HEAP_SIZE, allocates);
}

static void printf_fifo(void)
{
    set_and_run(CU_LIMIT_PRINTF_FIFO_SIZE, prints);
}

const struct way limit_ways[] = {
    {"stack", stack},
    {"heap", heap},
    {"printf_fifo", printf_fifo},
    {0},
};
