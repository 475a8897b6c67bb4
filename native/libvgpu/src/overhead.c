#include "overhead.h"

#include <string.h>

#include "driver.h"
#include "share_clock.h"
#include "turns.h"

#define FIRST   8  // episodes that are all measured
#define EVERY   32 // afterwards one of so many
#define MOST_NS (50 * TURN_US)

enum state {
    IDLE,
    BEGUN,
    ENDED,
};

static struct overhead {
    atomic_flag busy; // somebody is at it: others let it be
    enum state state;
    CUcontext context;
    CUevent begin, end;
    const struct lane *lane;
    uint64_t started_ns, start_ns; // when the first call began, and how long it took
    uint64_t own_ns;               // what recording took
    unsigned episodes;
    _Atomic uint64_t ns; // plus one; 0: not known
} overheads[HAMI_MAX_CARDS];

static bool enter(struct overhead *overhead)
{
    return !atomic_flag_test_and_set_explicit(&overhead->busy, memory_order_acquire);
}

static void leave(struct overhead *overhead)
{
    atomic_flag_clear_explicit(&overhead->busy, memory_order_release);
}

static bool has_events(struct overhead *overhead, const struct lane *lane)
{
    if (overhead->begin)
        return overhead->context == lane->context;
    if (REAL(cuEventCreate)(&overhead->begin, CU_EVENT_DEFAULT) != CUDA_SUCCESS ||
        REAL(cuEventCreate)(&overhead->end, CU_EVENT_DEFAULT) != CUDA_SUCCESS) {
        overhead->begin = NULL;
        return false;
    }
    overhead->context = lane->context;
    return true;
}

bool overhead_begin(struct lane *lane)
{
    struct overhead *overhead = &overheads[lane->card];
    if (!enter(overhead))
        return false;
    unsigned episode = overhead->episodes++;
    overhead->state = IDLE;
    if ((episode < FIRST || episode % EVERY == 0) && has_events(overhead, lane) &&
        lanes_record(lane, overhead->begin)) {
        overhead->state = BEGUN;
        overhead->lane = lane;
        overhead->started_ns = share_now();
    }
    bool begun = overhead->state == BEGUN;
    leave(overhead);
    return begun;
}

void overhead_started(const struct lane *lane)
{
    struct overhead *overhead = &overheads[lane->card];
    if (!enter(overhead))
        return;
    if (overhead->state == BEGUN && overhead->lane == lane)
        overhead->start_ns = share_now() - overhead->started_ns;
    leave(overhead);
}

void overhead_end(const struct lane *lane, bool all)
{
    struct overhead *overhead = &overheads[lane->card];
    if (overhead->state != BEGUN || !enter(overhead))
        return;
    bool waited = overhead->lane == lane || (all && overhead->lane->context == lane->context);
    uint64_t before = share_now();
    if (overhead->state == BEGUN)
        overhead->state = waited && lanes_record(overhead->lane, overhead->end) ? ENDED : IDLE;
    overhead->own_ns = share_now() - before;
    leave(overhead);
}

void overhead_learn(const struct lane *lane, uint64_t now)
{
    struct overhead *overhead = &overheads[lane->card];
    float ms = 0;
    if (overhead->state != ENDED || !enter(overhead))
        return;
    if (overhead->state == ENDED && REAL(cuEventElapsedTime)(&ms, overhead->begin, overhead->end) == CUDA_SUCCESS) {
        uint64_t between = (uint64_t)((double)ms * 1e6);
        uint64_t worked = between > overhead->start_ns ? between - overhead->start_ns : 0;
        uint64_t taken = now - overhead->started_ns - overhead->own_ns;
        uint64_t ns = taken > worked && now > overhead->started_ns ? taken - worked : 0,
                 known = atomic_load(&overhead->ns);
        ns = ns < MOST_NS ? ns : MOST_NS;
        atomic_store(&overhead->ns, 1 + (known ? ((known - 1) * 7 + ns) / 8 : ns));
    }
    overhead->state = IDLE;
    leave(overhead);
}

uint64_t overhead_ns(unsigned card)
{
    uint64_t known = atomic_load_explicit(&overheads[card].ns, memory_order_relaxed);
    return known ? known - 1 : lanes_latency();
}

void overhead_after_fork(void)
{
    memset(overheads, 0, sizeof overheads);
}
