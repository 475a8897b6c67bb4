// A thread that makes and frees 4 KiB again and again, beside a block that stays, until stdin closes.
//   small_churn      prints "ready" when it is at it
#include <cuda.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "check.h"

static CUcontext context;
static atomic_bool ends;

static void *churn(void *unused)
{
    CUdeviceptr pointer;
    CHECK(cuCtxSetCurrent(context) == CUDA_SUCCESS);
    while (!atomic_load(&ends))
        CHECK(cuMemAlloc(&pointer, 4096) == CUDA_SUCCESS && cuMemFree(pointer) == CUDA_SUCCESS);
    return unused;
}

int main(void)
{
    CUdeviceptr stays;
    pthread_t thread;
    CHECK(cuInit(0) == CUDA_SUCCESS && cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
    CHECK(cuCtxSetCurrent(context) == CUDA_SUCCESS && cuMemAlloc(&stays, 4096) == CUDA_SUCCESS);
    CHECK(pthread_create(&thread, NULL, churn, NULL) == 0);
    puts("ready");
    fflush(stdout);
    while (getchar() != EOF)
        ;
    atomic_store(&ends, true);
    pthread_join(thread, NULL);
    return 0;
}
