#include "launches.h"

#include "../raw_symbol.h"
#include "worker.h"

#include <pthread.h>

#define MAX_THREADS 64
#define MAX_PAIRS   (MAX_THREADS * 1000)
#define BATCH       100
#define WARM_UP     20

typedef CUresult (*launch_call)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                                CUstream, void **, void **);

static launch_call drivers_own;
static struct {
    CUcontext context;
    CUfunction kernel;
    void **parameters;
    unsigned pairs; // of each thread
} wanted;
static double straight[MAX_PAIRS], wrapped[MAX_PAIRS];
static pthread_barrier_t together;

static double time_batch(launch_call call, CUstream stream)
{
    pthread_barrier_wait(&together);
    uint64_t began = now();
    for (unsigned i = 0; i < BATCH; i++)
        CHECK(call(wanted.kernel, 1, 1, 1, 32, 1, 1, 0, stream, wanted.parameters, NULL));
    double took = (double)(now() - began) / BATCH;
    pthread_barrier_wait(&together);
    CHECK(cuStreamSynchronize(stream));
    return took;
}

// All threads launch in one way, then all in the other.
static void *time_launches(void *argument)
{
    CUstream stream;
    unsigned first = *(unsigned *)argument * wanted.pairs;
    CHECK(cuCtxSetCurrent(wanted.context));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (unsigned i = 0; i < wanted.pairs + WARM_UP; i++) {
        unsigned at = first + (i < WARM_UP ? 0 : i - WARM_UP);
        for (unsigned way = 0; way < 2; way++)
            if ((i + way) % 2)
                straight[at] = time_batch(drivers_own, stream);
            else
                wrapped[at] = time_batch(cuLaunchKernel, stream);
    }
    return NULL;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Medians, and of the differences the bounds of a 95 % interval.
static void print_medians(unsigned all)
{
    static double added[MAX_PAIRS];
    for (unsigned i = 0; i < all; i++)
        added[i] = wrapped[i] - straight[i];
    qsort(added, all, sizeof *added, ascending);
    qsort(straight, all, sizeof *straight, ascending);
    unsigned off = 0;
    while (off * off < all)
        off++;
    printf("{\"straight\": %.1f, \"added\": %.1f, \"low\": %.1f, \"high\": %.1f}\n", straight[all / 2], added[all / 2],
           added[all / 2 - off], added[all / 2 + off]);
}

void measure_launches(CUcontext context, CUfunction kernel, void **parameters, unsigned threads, unsigned pairs)
{
    pthread_t running[MAX_THREADS];
    unsigned numbers[MAX_THREADS];
    *(void **)&drivers_own = raw_symbol("cuLaunchKernel");
    if (!drivers_own)
        exit(3);
    wanted = (typeof(wanted)){context, kernel, parameters, pairs};
    pthread_barrier_init(&together, NULL, threads);
    for (unsigned i = 0; i < threads; i++) {
        numbers[i] = i;
        pthread_create(&running[i], NULL, time_launches, &numbers[i]);
    }
    for (unsigned i = 0; i < threads; i++)
        pthread_join(running[i], NULL);
    print_medians(threads * pairs);
}
