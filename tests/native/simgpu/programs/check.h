// Cases of one program: CASE(name) { ... }.  The program runs the case that its argument names, and fails loudly.
#ifndef CHECK_H
#define CHECK_H

#include "hamisim.h"

#include <cuda.h>
#include <nvml.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB (UINT64_C(1) << 20)

struct check_case {
    const char *name;
    void (*run)(void);
    struct check_case *next;
};

static struct check_case *check_cases;

#define CASE(name)                                                                                                     \
    static void case_##name(void);                                                                                     \
    __attribute__((constructor)) static void register_##name(void)                                                     \
    {                                                                                                                  \
        static struct check_case self = {#name, case_##name, NULL};                                                    \
        self.next = check_cases;                                                                                       \
        check_cases = &self;                                                                                           \
    }                                                                                                                  \
    static void case_##name(void)

#define GIVES(expected, call)                                                                                          \
    do {                                                                                                               \
        long long gave_ = (long long)(call), expected_ = (long long)(expected);                                        \
        if (gave_ != expected_) {                                                                                      \
            fprintf(stderr, "%s:%d: %s gave %lld, not %lld\n", __FILE__, __LINE__, #call, gave_, expected_);           \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

#define OK(call)        GIVES(0, call)
#define TRUE(condition) GIVES(true, !!(condition))

// NVML's figure of this process on card 0, in MiB; 0 if it isn't listed.
__attribute__((unused)) static unsigned long long held(void)
{
    nvmlDevice_t device;
    nvmlProcessInfo_t infos[256];
    unsigned count = 256;
    OK(nvmlInit_v2());
    OK(nvmlDeviceGetHandleByIndex_v2(0, &device));
    OK(nvmlDeviceGetComputeRunningProcesses_v3(device, &count, infos));
    OK(nvmlShutdown());
    for (unsigned i = 0; i < count; i++)
        if (infos[i].pid == (unsigned)getpid())
            return infos[i].usedGpuMemory / MIB;
    return 0;
}

// All that is taken on card 0, in MiB.
__attribute__((unused)) static unsigned long long taken(void)
{
    size_t left, total;
    OK(cuMemGetInfo_v2(&left, &total));
    return (total - left) / MIB;
}

// A current context on device 0.
__attribute__((unused)) static CUcontext start(void)
{
    CUcontext context;
    OK(cuInit(0));
    OK(cuCtxCreate_v2(&context, 0, 0));
    return context;
}

// Before start(): time stands until hamisim_advance() moves it.
__attribute__((unused)) static void stop_the_clock(void)
{
    OK(setenv("HAMI_SIM_CLOCK", "manual", 1));
}

__attribute__((unused)) static CUfunction spinner(void)
{
    CUmodule module;
    CUfunction function;
    OK(cuModuleLoadData(&module, "//hamisim kernels=sim_spin,nothing,two(4,8)"));
    OK(cuModuleGetFunction(&function, module, "sim_spin"));
    return function;
}

__attribute__((unused)) static void spin(CUfunction function, CUstream stream, uint64_t ns)
{
    void *parameters[] = {&ns};
    OK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, parameters, NULL));
}

int main(int argc, char **argv)
{
    for (struct check_case *c = check_cases; c; c = c->next) {
        if (argc > 1 && strcmp(c->name, argv[1]) == 0) {
            c->run();
            return 0;
        }
    }
    fprintf(stderr, "There is no case %s.\n", argc > 1 ? argv[1] : "without a name");
    return 2;
}

#endif
