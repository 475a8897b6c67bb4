#include "check.h"

#include <pthread.h>
#include <sys/wait.h>

CASE(nothing_works_before_init)
{
    int count;
    CUcontext context;
    GIVES(CUDA_ERROR_NOT_INITIALIZED, cuDeviceGetCount(&count));
    GIVES(CUDA_ERROR_NOT_INITIALIZED, cuCtxGetCurrent(&context));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuInit(1));
    OK(cuDriverGetVersion(&count));
    OK(cuInit(0));
    OK(cuInit(0));
    CUdeviceptr pointer;
    GIVES(CUDA_ERROR_INVALID_CONTEXT, cuMemAlloc_v2(&pointer, 1));
}

CASE(each_thread_has_a_stack_of_contexts)
{
    CUcontext a = start(), b, now;
    OK(cuCtxCreate_v2(&b, 0, 0));
    OK(cuCtxGetCurrent(&now));
    TRUE(now == b);
    OK(cuCtxPopCurrent_v2(&now));
    TRUE(now == b);
    OK(cuCtxGetCurrent(&now));
    TRUE(now == a);
    OK(cuCtxPushCurrent_v2(b));
    OK(cuCtxSetCurrent(NULL)); // pops
    OK(cuCtxGetCurrent(&now));
    TRUE(now == a);
    OK(cuCtxSetCurrent(b)); // replaces
    OK(cuCtxPopCurrent_v2(&now));
    GIVES(CUDA_ERROR_INVALID_CONTEXT, cuCtxPopCurrent_v2(&now));
}

static void *look(void *unused)
{
    (void)unused;
    CUcontext now = (CUcontext)1;
    OK(cuCtxGetCurrent(&now));
    TRUE(now == NULL);
    return NULL;
}

CASE(another_thread_starts_without_a_context)
{
    pthread_t thread;
    start();
    OK(pthread_create(&thread, NULL, look, NULL));
    OK(pthread_join(thread, NULL));
}

static void *destroy(void *context)
{
    OK(cuCtxDestroy_v2(context));
    return NULL;
}

CASE(a_context_that_another_thread_destroyed_is_known_as_such)
{
    CUcontext context = start();
    pthread_t thread;
    CUdeviceptr pointer;
    OK(pthread_create(&thread, NULL, destroy, context));
    OK(pthread_join(thread, NULL));
    GIVES(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuMemAlloc_v2(&pointer, 1));
    GIVES(CUDA_ERROR_INVALID_CONTEXT, cuCtxDestroy_v2(context));
    GIVES(CUDA_ERROR_INVALID_CONTEXT, cuCtxPushCurrent_v2(context));
}

CASE(the_primary_context_is_counted)
{
    OK(cuInit(0));
    CUcontext a, b;
    unsigned flags;
    int active;
    OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    GIVES(0, active);
    GIVES(CUDA_ERROR_INVALID_CONTEXT, cuDevicePrimaryCtxRelease_v2(0));
    OK(cuDevicePrimaryCtxSetFlags_v2(0, CU_CTX_SCHED_YIELD));
    OK(cuDevicePrimaryCtxRetain(&a, 0));
    OK(cuDevicePrimaryCtxRetain(&b, 0));
    TRUE(a == b);
    OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    GIVES(CU_CTX_SCHED_YIELD, flags);
    GIVES(1, active);
    OK(cuDevicePrimaryCtxRelease_v2(0));
    GIVES(104, held());
    GIVES(CUDA_ERROR_INVALID_CONTEXT, cuCtxDestroy_v2(a));
    OK(cuDevicePrimaryCtxRelease_v2(0));
    GIVES(0, held());
    OK(cuDevicePrimaryCtxRetain(&b, 0));
    TRUE(a == b);
    OK(cuCtxSetCurrent(b));
    CUdeviceptr pointer;
    OK(cuMemAlloc_v2(&pointer, 100 * MIB));
    OK(cuDevicePrimaryCtxReset_v2(0));
    GIVES(0, held());
}

CASE(all_versions_of_create)
{
    OK(cuInit(0));
    CUcontext context;
    unsigned version;
    OK(cuCtxCreate(&context, 0, 0));
    OK(cuCtxGetApiVersion(context, &version));
    GIVES(3010, version);
    OK(cuCtxCreate_v2(&context, CU_CTX_SCHED_BLOCKING_SYNC | CU_CTX_MAP_HOST, 0));
    OK(cuCtxCreate_v3(&context, NULL, 0, 0, 0));
    OK(cuCtxCreate_v4(&context, NULL, 0, 0));
    OK(cuCtxGetApiVersion(context, &version));
    GIVES(3020, version);
    GIVES(416, held());
    GIVES(CUDA_ERROR_INVALID_DEVICE, cuCtxCreate_v2(&context, 0, 1));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuCtxCreate_v2(&context, 0x1000, 0));
}

CASE(explicit_contexts_of_cuda_13)
{
    CUcontext a = start(), b;
    CUdevice device;
    OK(cuCtxCreate_v2(&b, 0, 0));
    OK(cuCtxGetDevice_v2(&device, a));
    OK(cuCtxSynchronize_v2(a));
    OK(cuCtxGetDevice_v2(&device, NULL));
    OK(cuCtxGetDevice(&device));
    OK(cuCtxDestroy_v2(a));
    GIVES(CUDA_ERROR_INVALID_CONTEXT, cuCtxGetDevice_v2(&device, a));
}

CASE(the_stack_limit_takes_memory_for_every_thread)
{
    start();
    size_t value;
    OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 16384));
    GIVES(104 + 600, held()); // 40 SMs x 1024 threads x 15 KiB
    OK(cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE));
    GIVES(16384, value);
    OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024));
    GIVES(104, held());
    GIVES(CUDA_ERROR_OUT_OF_MEMORY, cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 512 << 10));
    GIVES(104, held());
}

CASE(other_limits_take_nothing_and_unknown_ones_are_0)
{
    start();
    size_t value = 1;
    OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 512 * MIB));
    GIVES(104, held());
    OK(cuCtxGetLimit(&value, CU_LIMIT_MALLOC_HEAP_SIZE));
    GIVES(512 * MIB, value);
    OK(cuCtxGetLimit(&value, CU_LIMIT_CIG_ENABLED));
    GIVES(0, value);
    value = 1;
    OK(cuCtxGetLimit(&value, (CUlimit)77));
    GIVES(0, value);
    GIVES(CUDA_ERROR_UNSUPPORTED_LIMIT, cuCtxSetLimit((CUlimit)77, 1));
}

static int in_child(CUresult (*call)(void))
{
    pid_t child = fork();
    if (child == 0)
        _exit((int)call());
    int status;
    TRUE(waitpid(child, &status, 0) == child && WIFEXITED(status));
    return WEXITSTATUS(status);
}

static CUresult init_again(void)
{
    return cuInit(0);
}

static CUresult use(void)
{
    CUdeviceptr pointer;
    return cuMemAlloc_v2(&pointer, 100);
}

static CUresult count_devices(void)
{
    int count;
    return cuDeviceGetCount(&count);
}

static CUresult init_and_allocate(void)
{
    CUcontext context;
    CUdeviceptr pointer;
    CUresult result = cuInit(0);
    if (result == CUDA_SUCCESS)
        result = cuCtxCreate_v2(&context, 0, 0);
    if (result == CUDA_SUCCESS)
        result = cuMemAlloc_v2(&pointer, 10 * MIB);
    return result == CUDA_SUCCESS && held() != 114 ? CUDA_ERROR_UNKNOWN : result;
}

CASE(a_child_of_a_user_can_use_nothing)
{
    start();
    CUdeviceptr pointer;
    OK(cuMemAlloc_v2(&pointer, 100 * MIB));
    GIVES(CUDA_ERROR_NOT_INITIALIZED, in_child(use));
    GIVES(CUDA_ERROR_NOT_INITIALIZED, in_child(init_again));
    GIVES(CUDA_ERROR_NOT_INITIALIZED, in_child(count_devices));
    GIVES(204, held()); // the child's end took nothing with it
    OK(cuMemFree_v2(pointer));
}

CASE(a_child_of_one_that_did_not_init_can)
{
    GIVES(0, held()); // NVML has opened the state before
    OK(in_child(init_and_allocate));
    OK(cuInit(0));
    GIVES(0, held());
}

CASE(devices_say_who_they_are)
{
    OK(cuInit(0));
    char name[64], short_name[4], bus[16];
    CUuuid a, b;
    int major, minor, value;
    CUdevice device;
    OK(cuDeviceGetName(name, sizeof name, 0));
    OK(strcmp(name, "Tesla T4"));
    OK(cuDeviceGetName(short_name, sizeof short_name, 0));
    OK(strcmp(short_name, "Tes"));
    OK(cuDeviceGetUuid(&a, 0));
    OK(cuDeviceGetUuid_v2(&b, 0));
    OK(memcmp(&a, &b, sizeof a));
    OK(cuDeviceComputeCapability(&major, &minor, 0));
    GIVES(75, major * 10 + minor);
    OK(cuDeviceGetPCIBusId(bus, sizeof bus, 0));
    OK(cuDeviceGetByPCIBusId(&device, bus));
    GIVES(0, device);
    GIVES(CUDA_ERROR_INVALID_DEVICE, cuDeviceGetByPCIBusId(&device, "0000:ff:00.0"));
    OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
    GIVES(40, value);
    for (int i = 1; i < CU_DEVICE_ATTRIBUTE_MAX; i++)
        OK(cuDeviceGetAttribute(&value, (CUdevice_attribute)i, 0));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MAX, 0));
    GIVES(CUDA_ERROR_INVALID_DEVICE, cuDeviceGetName(name, sizeof name, 1));
    GIVES(CUDA_ERROR_INVALID_DEVICE, cuDeviceGet(&device, -1));
}

CASE(errors_have_names_and_words)
{
    const char *text;
    OK(cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &text));
    OK(strcmp(text, "CUDA_ERROR_OUT_OF_MEMORY"));
    OK(cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text));
    OK(strcmp(text, "out of memory"));
    OK(cuGetErrorString(CUDA_SUCCESS, &text));
    OK(strcmp(text, "no error"));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuGetErrorName((CUresult)12345, &text));
    TRUE(text == NULL);
}

CASE(what_libcudart_checks_is_not_imitated)
{
    OK(cuInit(0));
    const void *table = NULL;
    CUuuid id = {{1}};
    GIVES(CUDA_ERROR_NOT_SUPPORTED, cuGetExportTable(&table, &id));
}
