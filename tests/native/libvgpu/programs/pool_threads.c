// Threads that take memory from pools, the device's own and theirs, in streams that come and go, with as many other pools made
// and destroyed meanwhile.
//   pool_threads THREADS ROUNDS      prints allocations made and refused, and what is held at the end, MiB
#include <cuda.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "check.h"

#define MOST 8 // live allocations of a thread

static CUcontext context;
static int rounds;
static _Atomic unsigned long long made, refused;

static CUmemoryPool new_pool(void)
{
    CUmemPoolProps props;
    CUmemoryPool pool;
    memset(&props, 0, sizeof props);
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CHECK(cuMemPoolCreate(&pool, &props) == CUDA_SUCCESS);
    return pool;
}

static void give_back(CUdeviceptr *pointers, int count, CUstream stream)
{
    for (int i = 0; i < count; i++)
        CHECK(cuMemFreeAsync(pointers[i], stream) == CUDA_SUCCESS);
    CHECK(cuStreamSynchronize(stream) == CUDA_SUCCESS);
}

static void one_round(unsigned *seed, CUmemoryPool own)
{
    CUdeviceptr pointers[MOST];
    CUstream stream;
    int count = 0;
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    for (int i = 0; i < MOST; i++) {
        size_t bytes = ((size_t)1 + rand_r(seed) % 24) << 20;
        CUresult result = rand_r(seed) % 2 ? cuMemAllocAsync(&pointers[count], bytes, stream)
                                           : cuMemAllocFromPoolAsync(&pointers[count], bytes, own, stream);
        CHECK(result == CUDA_SUCCESS || result == CUDA_ERROR_OUT_OF_MEMORY);
        count += result == CUDA_SUCCESS;
        atomic_fetch_add(result == CUDA_SUCCESS ? &made : &refused, 1);
    }
    give_back(pointers, count, stream);
    CHECK(cuStreamDestroy(stream) == CUDA_SUCCESS);
}

static void *worker(void *data)
{
    unsigned seed = (unsigned)(uintptr_t)data;
    CHECK(cuCtxSetCurrent(context) == CUDA_SUCCESS);
    CUmemoryPool own = new_pool();
    for (int i = 0; i < rounds; i++) {
        one_round(&seed, own);
        if (rand_r(&seed) % 4 == 0) {
            CHECK(cuMemPoolDestroy(own) == CUDA_SUCCESS);
            own = new_pool();
        }
    }
    CHECK(cuMemPoolDestroy(own) == CUDA_SUCCESS);
    return NULL;
}

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    int threads = atoi(argv[1]);
    rounds = atoi(argv[2]);
    CHECK(threads <= 64 && cuInit(0) == CUDA_SUCCESS);
    CHECK(cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS && cuCtxSetCurrent(context) == CUDA_SUCCESS);
    pthread_t others[64];
    for (int i = 0; i < threads; i++)
        CHECK(pthread_create(&others[i], NULL, worker, (void *)(uintptr_t)(i + 1)) == 0);
    for (int i = 0; i < threads; i++)
        pthread_join(others[i], NULL);
    size_t free_bytes, total;
    CHECK(cuCtxSynchronize() == CUDA_SUCCESS && cuMemGetInfo(&free_bytes, &total) == CUDA_SUCCESS);
    printf("%llu %llu %zu\n", made, refused, (total - free_bytes) >> 20);
    return 0;
}
