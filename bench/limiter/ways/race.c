// Racers: processes and threads that allocate at the same moment.
#include "way.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

#define RACERS 8

struct race {
    pthread_barrier_t barrier;
    _Atomic bool led;   // there is a leader
    _Atomic bool ready; // the barrier is for all that came
    _Atomic uint64_t block;
    _Atomic int winners;
    _Atomic int rounds_without;
    _Atomic bool stuck; // a winner can't give its block back
};

static struct race *race;

static void make_barrier(unsigned count)
{
    pthread_barrierattr_t attributes;
    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    if (pthread_barrier_init(&race->barrier, &attributes, count))
        broken("pthread_barrier_init");
}

static void race_from_nothing(int index)
{
    (void)index;
    pthread_barrier_wait(&race->barrier);
    open_card();
    fill(goal);
}

// Eight processes, contexts and all.
static void racing_children(void)
{
    race = share_with_children(sizeof *race);
    make_barrier(RACERS);
    for (int i = 0; i < RACERS; i++)
        start_child(race_from_nothing, i);
    await_children();
}

// Two blocks of this size don't fit.  0: nobody says what is free.
static uint64_t most_of_what_is_free(void)
{
    size_t free, total;
    if (!granted("cuMemGetInfo", cuMemGetInfo(&free, &total), 0))
        return 0;
    uint64_t most = limit < free ? limit : free;
    return most / 5 * 3 / MIB * MIB;
}

// False: it was the last, for all: what makes it so is set before a barrier and read behind it, so that nobody is left waiting.
static bool race_one_round(bool leads)
{
    if (leads) {
        atomic_store(&race->winners, 0);
        atomic_store(&race->block, most_of_what_is_free());
    }
    pthread_barrier_wait(&race->barrier);
    CUdeviceptr pointer;
    uint64_t block = atomic_load(&race->block);
    if (block == 0)
        return false;
    bool won = granted("cuMemAlloc", cuMemAlloc(&pointer, block), block);
    if (won)
        atomic_fetch_add(&race->winners, 1);
    pthread_barrier_wait(&race->barrier);
    int winners = atomic_load(&race->winners);
    if (winners > 1)
        return false;
    if (leads && winners == 0)
        atomic_fetch_add(&race->rounds_without, 1);
    if (won && granted("cuMemFree", cuMemFree(pointer), 0))
        gave_back(block);
    else if (won)
        atomic_store(&race->stuck, true);
    pthread_barrier_wait(&race->barrier);
    return !atomic_load(&race->stuck);
}

static void race_in_rounds(int index)
{
    (void)index;
    open_card();
    bool leads = !atomic_exchange(&race->led, true);
    arrive();
    while (!atomic_load(&race->ready))
        usleep(1000);
    for (int round = 0; round < rounds && race_one_round(leads); round++)
        ;
}

// As many processes as have room for their contexts in half of the slice; only one block fits at a time.
static void racing_rounds(void)
{
    int racers = (int)(limit / 2 / context_bytes);
    racers = racers > RACERS ? RACERS : racers;
    race = share_with_children(sizeof *race);
    for (int i = 0; i < racers; i++)
        start_child(race_in_rounds, i);
    int came = await_arrivals();
    if (came < 2) {
        note("fewer than 2 of %d processes got a context", racers);
        return;
    }
    make_barrier((unsigned)came);
    atomic_store(&race->ready, true);
    await_children();
    note("%d processes, %d rounds, %d without a winner", came, rounds, race->rounds_without);
}

static void *race_thread(void *context)
{
    need("cuCtxSetCurrent", cuCtxSetCurrent(context));
    pthread_barrier_wait(&race->barrier);
    fill(goal);
    return NULL;
}

static void racing_threads(void)
{
    CUcontext context;
    pthread_t threads[RACERS];
    open_card();
    need("cuCtxGetCurrent", cuCtxGetCurrent(&context));
    race = share_with_children(sizeof *race);
    make_barrier(RACERS);
    for (int i = 0; i < RACERS; i++)
        if (pthread_create(&threads[i], NULL, race_thread, context))
            broken("pthread_create");
    for (int i = 0; i < RACERS; i++)
        pthread_join(threads[i], NULL);
}

const struct way race_ways[] = {
    {"racing_children", racing_children},
    {"racing_rounds", racing_rounds},
    {"racing_threads", racing_threads},
    {0},
};
