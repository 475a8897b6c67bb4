#include "timing.h"

#include <string.h>

#include "driver.h"
#include "share_clock.h"

enum state {
    FREE,
    BEGUN,
    ENDED,
};

static struct timer {
    atomic_flag busy; // somebody is at it: others let it be
    _Atomic int state;
    CUcontext context;
    CUevent begin, end;
    const struct lane *lane;
    struct cost *cost;
    bool idle;
    uint64_t started_ns, start_ns;
} timers[HAMI_MAX_CARDS];

static bool enter(struct timer *timer, int state)
{
    if (atomic_load_explicit(&timer->state, memory_order_relaxed) != state ||
        atomic_flag_test_and_set_explicit(&timer->busy, memory_order_acquire))
        return false;
    if (atomic_load(&timer->state) == state)
        return true;
    atomic_flag_clear_explicit(&timer->busy, memory_order_release);
    return false;
}

static void leave(struct timer *timer, int state)
{
    atomic_store(&timer->state, state);
    atomic_flag_clear_explicit(&timer->busy, memory_order_release);
}

static bool has_events(struct timer *timer, const struct lane *lane)
{
    if (timer->begin)
        return timer->context == lane->context;
    if (REAL(cuEventCreate)(&timer->begin, CU_EVENT_DEFAULT) != CUDA_SUCCESS)
        return false;
    if (REAL(cuEventCreate)(&timer->end, CU_EVENT_DEFAULT) != CUDA_SUCCESS) {
        timer->begin = NULL;
        return false;
    }
    timer->context = lane->context;
    return true;
}

bool timing_begin(struct lane *lane, struct cost *cost, bool idle)
{
    struct timer *timer = &timers[lane->card];
    if (!enter(timer, FREE))
        return false;
    bool begun = has_events(timer, lane) && lanes_record(lane, timer->begin);
    timer->lane = lane;
    timer->cost = cost;
    timer->idle = idle;
    timer->started_ns = share_now();
    leave(timer, begun ? BEGUN : FREE);
    return begun;
}

void timing_end(const struct lane *lane)
{
    struct timer *timer = &timers[lane->card];
    if (!enter(timer, BEGUN))
        return;
    timer->start_ns = timer->idle ? share_now() - timer->started_ns : 0;
    bool ended = timer->lane == lane && lanes_record(lane, timer->end);
    leave(timer, ended ? ENDED : FREE);
}

void timing_collect(unsigned card)
{
    struct timer *timer = &timers[card];
    float ms = 0;
    if (!enter(timer, ENDED))
        return;
    CUresult result = REAL(cuEventElapsedTime)(&ms, timer->begin, timer->end);
    if (result == CUDA_SUCCESS) {
        uint64_t ns = (uint64_t)((double)ms * 1e6);
        costs_measure(timer->cost, ns > timer->start_ns + ns / 4 ? ns - timer->start_ns : ns / 4);
    }
    leave(timer, result == CUDA_ERROR_NOT_READY ? ENDED : FREE);
}

void timing_after_fork(void)
{
    memset(timers, 0, sizeof timers);
}
