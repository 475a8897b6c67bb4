// A worker: carries out what the controller orders, inside the slice.
//   worker BOARD NUMBER
#include "worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "../programs/check.h"

char **worker_arguments;

static const struct operation_calls *calls_of(enum operation operation)
{
    if (memory_calls[operation].take)
        return &memory_calls[operation];
    return code_calls[operation].take ? &code_calls[operation] : &process_calls[operation];
}

CUresult perform(struct worker *worker, const struct step *step)
{
    const struct operation_calls *calls = calls_of(step->operation);
    struct holding *holding = &worker->holdings[step->operation][step->slot];
    CUresult result;
    if (calls->give && holding->handle) {
        result = calls->give(worker, step, holding);
        if (result != CUDA_ERROR_INVALID_CONTEXT) // it is there still
            *holding = (struct holding){0};
        return result;
    }
    result = calls->take(worker, step, holding);
    if (result != CUDA_SUCCESS && calls->give)
        *holding = (struct holding){0};
    return result;
}

static void count(struct worker *worker, const struct step *step, CUresult result)
{
    struct worker_board *own = worker->own;
    if (result == CUDA_SUCCESS)
        own->good[step->operation]++;
    else if (result == CUDA_ERROR_OUT_OF_MEMORY)
        own->refused[step->operation]++;
    else
        own->other[step->operation]++;
    if (result != CUDA_ERROR_ASSERT || own->failed)
        return;
    snprintf(own->failure, sizeof own->failure, "%s answered what it never may", plan_name(step->operation));
    atomic_store(&own->failed, true);
}

static void make_steps(struct worker *worker)
{
    struct worker_board *own = worker->own;
    while (own->next < own->first + own->count) {
        uint64_t number = atomic_fetch_add(&own->next, 1);
        if (board_skips(worker->board, worker->number, number))
            continue;
        struct step step = plan_step(worker->board->seed, worker->number, number);
        count(worker, &step, perform(worker, &step));
    }
}

// All that was ordered is done, and the limiter has looked at the driver's figures: asking for too much makes it look.
static void settle(struct worker *worker)
{
    CUcontext current = NULL;
    cuCtxGetCurrent(&current);
    for (unsigned card = 0; card < CARDS; card++) {
        if (worker->primary[card] && cuCtxSetCurrent(worker->primary[card]) == CUDA_SUCCESS)
            cuCtxSynchronize();
        for (unsigned i = 0; i < SLOTS; i++)
            if (worker->holdings[OP_CONTEXT][i].handle &&
                cuCtxSetCurrent((CUcontext)(uintptr_t)worker->holdings[OP_CONTEXT][i].handle) == CUDA_SUCCESS)
                cuCtxSynchronize();
    }
    if (cuCtxSetCurrent(current) != CUDA_SUCCESS)
        cuCtxSetCurrent(NULL);
    for (unsigned card = 0; card < CARDS; card++) {
        CUmemAllocationProp prop;
        CUmemGenericAllocationHandle handle;
        memset(&prop, 0, sizeof prop);
        prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
        prop.location = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = (int)card};
        CHECK(cuMemCreate(&handle, worker->board->limit[card] + (UINT64_C(2) << 20), &prop, 0) ==
              CUDA_ERROR_OUT_OF_MEMORY);
    }
}

CUresult give_all(struct worker *worker)
{
    // without any context, which a full slice may refuse, not everything can be freed: then the next time
    if (use_card(worker, 0) != CUDA_SUCCESS)
        use_card(worker, 1);
    // graphs' memory first, contexts last
    for (unsigned slot = 0; slot < SLOTS; slot++) {
        struct step step = {.operation = OP_GRAPH_FREE, .slot = slot};
        perform(worker, &step);
    }
    static const enum operation order[] = {OP_SMALL,   OP_BIG,      OP_PITCH, OP_MANAGED, OP_ASYNC,  OP_FROM_POOL,
                                           OP_MAPPING, OP_PHYSICAL, OP_ARRAY, OP_MIPMAP,  OP_MODULE, OP_LIBRARY,
                                           OP_GRAPH,   OP_IPC,      OP_POOL,  OP_GREEN,   OP_CONTEXT};
    for (unsigned i = 0; i < sizeof order / sizeof *order; i++) {
        for (unsigned slot = 0; slot < SLOTS; slot++) {
            struct step step = {.operation = order[i], .slot = slot, .random = 1};
            if (worker->holdings[order[i]][slot].handle)
                perform(worker, &step);
        }
    }
    for (unsigned card = 0; card < CARDS; card++) {
        if (worker->primary[card] && cuCtxSetCurrent(worker->primary[card]) == CUDA_SUCCESS)
            cuCtxSynchronize();
        cuDeviceGraphMemTrim((CUdevice)card);
        CUmemoryPool pool;
        if (cuDeviceGetDefaultMemPool(&pool, (CUdevice)card) == CUDA_SUCCESS)
            cuMemPoolTrimTo(pool, 0);
        cuDevicePrimaryCtxReset((CUdevice)card);
        worker->primary[card] = NULL;
    }
    cuCtxSetCurrent(NULL);
    return CUDA_SUCCESS;
}

static void carry_out(struct worker *worker)
{
    switch (worker->own->kind) {
    case ORDER_STEPS:
        make_steps(worker);
        break;
    case ORDER_SETTLE:
        settle(worker);
        break;
    case ORDER_GIVE_ALL:
        give_all(worker);
        settle(worker);
        break;
    case ORDER_END:
        break;
    }
}

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    worker_arguments = argv;
    struct worker *worker = calloc(1, sizeof *worker);
    CHECK(worker);
    worker->board = board_map(argv[1]);
    CHECK(worker->board);
    worker->number = (unsigned)atoi(argv[2]);
    worker->own = &worker->board->workers[worker->number];
    char name[16];
    snprintf(name, sizeof name, "fuzz-%u", worker->number);
    prctl(PR_SET_NAME, name);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    CHECK(cuInit(0) == CUDA_SUCCESS);
    use_card(worker, worker->number % CARDS);
    // an image after exec goes on with the order that its predecessor was given
    for (;;) {
        uint32_t done = atomic_load(&worker->own->done);
        board_wait(&worker->own->order, done);
        carry_out(worker);
        uint32_t order = atomic_load(&worker->own->order);
        bool last = worker->own->kind == ORDER_END;
        atomic_store(&worker->own->done, order);
        board_wake(&worker->own->done);
        if (last)
            return 0;
    }
}
