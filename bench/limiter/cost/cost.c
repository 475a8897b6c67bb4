// What a call costs, through the limiter and past it, by turns in one process.
//
// Reads the names of measurements from stdin, one a line, and answers each with "NAME THROUGH DIRECT": the medians in
// ns of the call as a program makes it, and of the driver's own function.  Without a limiter the two are the same, and
// their difference is the noise.
#include "../../raw_symbol.h"

#include <cuda.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define KIB         UINT64_C(1024)
#define MIB         (KIB * KIB)
#define LIVE        3000
#define MAX_THREADS 16
#define BATCHES     100
#define LAUNCHES    200  // in a batch: fewer than the driver queues before it blocks
#define PAIRS       1000 // of an allocation and a free
#define LARGE_PAIRS 60
#define ASYNC_PAIRS 50 // in a batch
#define MAX_SAMPLES (MAX_THREADS * BATCHES)

enum route { THROUGH, DIRECT, ROUTES };

static struct {
    CUresult (*alloc)(CUdeviceptr *, size_t);
    CUresult (*free)(CUdeviceptr);
    CUresult (*alloc_async)(CUdeviceptr *, size_t, CUstream);
    CUresult (*free_async)(CUdeviceptr, CUstream);
    CUresult (*info)(size_t *, size_t *);
    CUresult (*launch)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream,
                       void **, void **);
} calls[ROUTES];

static CUcontext context;
static CUfunction empty;

static const char image[] = ".version 6.4\n.target sm_75\n.address_size 64\n.visible .entry empty()\n{\n    ret;\n}\n";

static void check(const char *call, CUresult result)
{
    if (result == CUDA_SUCCESS)
        return;
    printf("error %s answered %d\n", call, (int)result);
    exit(1);
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *samples, size_t count)
{
    qsort(samples, count, sizeof *samples, ascending);
    return samples[count / 2];
}

static void find_calls(void)
{
    calls[THROUGH].alloc = cuMemAlloc;
    calls[THROUGH].free = cuMemFree;
    calls[THROUGH].alloc_async = cuMemAllocAsync;
    calls[THROUGH].free_async = cuMemFreeAsync;
    calls[THROUGH].info = cuMemGetInfo;
    calls[THROUGH].launch = cuLaunchKernel;
    *(void **)&calls[DIRECT].alloc = raw_symbol("cuMemAlloc_v2");
    *(void **)&calls[DIRECT].free = raw_symbol("cuMemFree_v2");
    *(void **)&calls[DIRECT].alloc_async = raw_symbol("cuMemAllocAsync");
    *(void **)&calls[DIRECT].free_async = raw_symbol("cuMemFreeAsync");
    *(void **)&calls[DIRECT].info = raw_symbol("cuMemGetInfo_v2");
    *(void **)&calls[DIRECT].launch = raw_symbol("cuLaunchKernel");
    if (!calls[DIRECT].alloc || !calls[DIRECT].free || !calls[DIRECT].alloc_async || !calls[DIRECT].free_async ||
        !calls[DIRECT].info || !calls[DIRECT].launch) {
        puts("error the driver's symbol table has not all of the calls");
        exit(1);
    }
}

static void open_card(void)
{
    CUmodule module;
    check("cuInit", cuInit(0));
    check("cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain(&context, 0));
    check("cuCtxSetCurrent", cuCtxSetCurrent(context));
    check("cuModuleLoadData", cuModuleLoadData(&module, image));
    check("cuModuleGetFunction", cuModuleGetFunction(&empty, module, "empty"));
}

// The medians of an allocation and of its free.
static void time_pairs(size_t bytes, size_t pairs, double allocs[ROUTES], double frees[ROUTES])
{
    static double alloc_ns[ROUTES][PAIRS], free_ns[ROUTES][PAIRS];
    // the first tenth warms up and is overwritten
    for (size_t i = 0, warm = pairs / 10; i < pairs + warm; i++)
        for (int route = 0; route < ROUTES; route++) {
            size_t at = i % pairs;
            CUdeviceptr pointer;
            double start = now();
            check("cuMemAlloc", calls[route].alloc(&pointer, bytes));
            double half = now();
            check("cuMemFree", calls[route].free(pointer));
            free_ns[route][at] = now() - half;
            alloc_ns[route][at] = half - start;
        }
    for (int route = 0; route < ROUTES; route++) {
        allocs[route] = median(alloc_ns[route], pairs);
        frees[route] = median(free_ns[route], pairs);
    }
}

static void answer(const char *name, const double ns[ROUTES])
{
    printf("%s %.1f %.1f\n", name, ns[THROUGH], ns[DIRECT]);
}

static void small(const char *name)
{
    static CUdeviceptr live[LIVE];
    double allocs[ROUTES], frees[ROUTES];
    for (int i = 0; i < LIVE; i++)
        check("cuMemAlloc", cuMemAlloc(&live[i], 4 * KIB));
    time_pairs(4 * KIB, PAIRS, allocs, frees);
    for (int i = 0; i < LIVE; i++)
        check("cuMemFree", cuMemFree(live[i]));
    answer(name, strcmp(name, "alloc_4k") == 0 ? allocs : frees);
}

static void large(const char *name)
{
    double allocs[ROUTES], frees[ROUTES];
    time_pairs(64 * MIB, LARGE_PAIRS, allocs, frees);
    answer(name, strcmp(name, "alloc_64m") == 0 ? allocs : frees);
}

static void async_pair(const char *name)
{
    static double samples[ROUTES][BATCHES];
    CUmemoryPool pool;
    CUstream stream = NULL;
    CUdeviceptr pointer;
    cuuint64_t keep = UINT64_MAX;
    bool named = strcmp(name, "alloc_async") == 0;
    double ns[ROUTES];
    check("cuDeviceGetMemPool", cuDeviceGetMemPool(&pool, 0));
    check("cuMemPoolSetAttribute", cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
    if (named)
        check("cuStreamCreate", cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int batch = -1; batch < BATCHES; batch++) // -1 warms up
        for (int route = 0; route < ROUTES; route++) {
            double start = now();
            for (int i = 0; i < ASYNC_PAIRS; i++) {
                check("cuMemAllocAsync", calls[route].alloc_async(&pointer, MIB, stream));
                check("cuMemFreeAsync", calls[route].free_async(pointer, stream));
            }
            samples[route][batch < 0 ? 0 : batch] = (now() - start) / ASYNC_PAIRS;
            check("cuStreamSynchronize", cuStreamSynchronize(stream));
        }
    if (named)
        check("cuStreamDestroy", cuStreamDestroy(stream));
    for (int route = 0; route < ROUTES; route++)
        ns[route] = median(samples[route], BATCHES);
    answer(name, ns);
}

static void info(const char *name)
{
    static double samples[ROUTES][PAIRS];
    size_t free, total;
    double ns[ROUTES];
    for (int i = 0; i < PAIRS; i++)
        for (int route = 0; route < ROUTES; route++) {
            double start = now();
            check("cuMemGetInfo", calls[route].info(&free, &total));
            samples[route][i] = now() - start;
        }
    for (int route = 0; route < ROUTES; route++)
        ns[route] = median(samples[route], PAIRS);
    answer(name, ns);
}

static double launch_ns[ROUTES][MAX_SAMPLES];
static int launch_batches; // of each thread
static pthread_barrier_t together;

// All threads take the same route at the same time, each into its own stream.
static void *launch_in_batches(void *argument)
{
    size_t thread = (size_t)(uintptr_t)argument;
    CUstream stream;
    check("cuCtxSetCurrent", cuCtxSetCurrent(context));
    check("cuStreamCreate", cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int batch = -1; batch < launch_batches; batch++)
        for (int route = 0; route < ROUTES; route++) {
            pthread_barrier_wait(&together);
            double start = now();
            for (int i = 0; i < LAUNCHES; i++)
                check("cuLaunchKernel", calls[route].launch(empty, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
            launch_ns[route][thread * (size_t)launch_batches + (batch < 0 ? 0 : (size_t)batch)] =
                (now() - start) / LAUNCHES;
            check("cuStreamSynchronize", cuStreamSynchronize(stream));
        }
    check("cuStreamDestroy", cuStreamDestroy(stream));
    return NULL;
}

static void launch(const char *name)
{
    size_t count = strtoul(strrchr(name, '_') + 1, NULL, 10);
    pthread_t threads[MAX_THREADS];
    double ns[ROUTES];
    count = count < 1 ? 1 : count > MAX_THREADS ? MAX_THREADS : count;
    launch_batches = count == 1 ? BATCHES : BATCHES / 4;
    pthread_barrier_init(&together, NULL, (unsigned)count);
    for (size_t i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, launch_in_batches, (void *)(uintptr_t)i))
            check("pthread_create", CUDA_ERROR_OUT_OF_MEMORY);
    for (size_t i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&together);
    for (int route = 0; route < ROUTES; route++)
        ns[route] = median(launch_ns[route], count * (size_t)launch_batches);
    answer(name, ns);
}

static const struct {
    const char *name;
    void (*measure)(const char *);
} measurements[] = {
    {"alloc_4k", small},    {"free_4k", small},          {"alloc_64m", large},
    {"free_64m", large},    {"alloc_async", async_pair}, {"alloc_async_default", async_pair},
    {"mem_get_info", info}, {"launch_1", launch},        {"launch_4", launch},
    {"launch_16", launch},
};

int main(void)
{
    char line[64];
    setvbuf(stdout, NULL, _IOLBF, 0);
    find_calls();
    open_card();
    puts("ready");
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = '\0';
        for (size_t i = 0; i < sizeof measurements / sizeof *measurements; i++)
            if (strcmp(measurements[i].name, line) == 0)
                measurements[i].measure(line);
    }
    return 0;
}
