// Threads that allocate and free at random under one limit, some without a context of their own.
//   threads THREADS ROUNDS LIMIT_MIB      prints allocations made and refused
#include <cuda.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

static CUcontext context;
static int rounds;
static _Atomic uint64_t held, made, refused;
static uint64_t limit;

static CUresult take(unsigned seed, size_t bytes, CUdeviceptr *pointer, CUmemGenericAllocationHandle *handle)
{
    CUmemAllocationProp prop;
    memset(&prop, 0, sizeof prop);
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    *handle = 0;
    switch (seed % 3) {
    case 0:
        return cuMemAlloc(pointer, bytes);
    case 1:
        return cuMemAllocManaged(pointer, bytes, CU_MEM_ATTACH_GLOBAL);
    default:
        return cuMemCreate(handle, bytes, &prop, 0);
    }
}

static void *worker(void *data)
{
    unsigned seed = (unsigned)(uintptr_t)data;
    // cuMemCreate needs no context: every fourth thread has none
    int bare = seed % 4 == 3;
    if (!bare)
        CHECK(cuCtxSetCurrent(context) == CUDA_SUCCESS);
    for (int i = 0; i < rounds; i++) {
        size_t bytes = ((size_t)1 + rand_r(&seed) % 280) << 21;
        CUdeviceptr pointer = 0;
        CUmemGenericAllocationHandle handle;
        CUresult result = take(bare ? 2 : (unsigned)rand_r(&seed), bytes, &pointer, &handle);
        if (result == CUDA_ERROR_OUT_OF_MEMORY) {
            atomic_fetch_add(&refused, 1);
            continue;
        }
        CHECK(result == CUDA_SUCCESS);
        CHECK(atomic_fetch_add(&held, bytes) + bytes <= limit);
        atomic_fetch_add(&made, 1);
        usleep(1000); // so that others find the slice full
        atomic_fetch_sub(&held, bytes);
        CHECK((handle ? cuMemRelease(handle) : cuMemFree(pointer)) == CUDA_SUCCESS);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    CHECK(argc == 4);
    int threads = atoi(argv[1]);
    rounds = atoi(argv[2]);
    limit = (uint64_t)atoi(argv[3]) << 20;
    CHECK(threads <= 64 && cuInit(0) == CUDA_SUCCESS);
    CHECK(cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
    pthread_t others[64];
    for (int i = 0; i < threads; i++)
        CHECK(pthread_create(&others[i], NULL, worker, (void *)(uintptr_t)(i + 1)) == 0);
    for (int i = 0; i < threads; i++)
        pthread_join(others[i], NULL);
    size_t free_bytes, total;
    CHECK(cuCtxSetCurrent(context) == CUDA_SUCCESS && cuMemGetInfo(&free_bytes, &total) == CUDA_SUCCESS);
    printf("%llu %llu %zu\n", (unsigned long long)made, (unsigned long long)refused, (total - free_bytes) >> 20);
    return 0;
}
