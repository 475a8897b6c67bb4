#include "footprint.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "arithmetic.h"
#include "capture.h"
#include "cards.h"
#include "clock.h"
#include "driver.h"
#include "graph.h"
#include "heap.h"
#include "member.h"
#include "pool.h"
#include "slice.h"

#define INTERVAL_NS UINT64_C(100000000)
#define TRIES       4
// Without any NVML a first context can't be measured.  Rather too much than a way to take VRAM for nothing.
#define BLIND_CONTEXT (UINT64_C(512) << 20)
#define FIRST_ROOM    64 // processes on one card; more are asked for again

static pthread_mutex_t comparing = PTHREAD_MUTEX_INITIALIZER;

enum way { WAY_UNKNOWN, WAY_FIGURE, WAY_DIFFERENCE };

static struct {
    _Atomic uint32_t in_flight;
    _Atomic uint32_t generation; // operations finished
    _Atomic int64_t hidden;
    _Atomic uint64_t last_ns;
    _Atomic bool doubted;
    _Atomic bool exceeded;
    _Atomic int way; // enum way
    uint64_t exact;  // the overhead as it was last known; under `comparing`
} cards[HAMI_MAX_CARDS];

void footprint_enter(int card)
{
    atomic_fetch_add(&cards[card].in_flight, 1);
}

void footprint_leave(int card)
{
    atomic_fetch_add(&cards[card].generation, 1);
    atomic_fetch_sub(&cards[card].in_flight, 1);
}

void footprint_hide(int card, int64_t bytes)
{
    atomic_fetch_add(&cards[card].hidden, bytes);
}

void footprint_doubt(int card)
{
    atomic_store_explicit(&cards[card].doubted, true, memory_order_relaxed);
}

static uint64_t now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC_COARSE);
}

typedef nvmlReturn_t (*list_processes)(nvmlDevice_t, unsigned *, nvmlProcessInfo_t *);

// The figure of a process in one list.  0: not in it, -1: no figures here.
static int find_in_list(list_processes list, nvmlDevice_t handle, unsigned pid, uint64_t *bytes)
{
    nvmlProcessInfo_t few[FIRST_ROOM], *infos = few;
    unsigned count = FIRST_ROOM;
    nvmlReturn_t result = list(handle, &count, infos);
    while (result == NVML_ERROR_INSUFFICIENT_SIZE) {
        count = count * 2 + FIRST_ROOM;
        nvmlProcessInfo_t *more = realloc(infos == few ? NULL : infos, count * sizeof *more);
        if (!more)
            break;
        infos = more;
        result = list(handle, &count, infos);
    }
    int found = result == NVML_SUCCESS ? 0 : -1;
    for (unsigned i = 0; found == 0 && i < count; i++) {
        if (infos[i].pid != pid)
            continue;
        *bytes = infos[i].usedGpuMemory;
        found = *bytes == (uint64_t)NVML_VALUE_NOT_AVAILABLE ? -1 : 1;
    }
    if (infos != few)
        free(infos);
    return found;
}

// 1: `bytes` is the process's; 0: NVML works and doesn't list it; -1: no figures.
static int read_figure_of(int card, unsigned pid, uint64_t *bytes)
{
    nvmlDevice_t handle;
    *bytes = 0;
    // version 2 has the same layout as 3; older drivers have neither
    bool third = NVML_HAS(nvmlDeviceGetComputeRunningProcesses_v3);
    if (!cards_nvml_handle(card, &handle) || (!third && !NVML_HAS(nvmlDeviceGetComputeRunningProcesses_v2)))
        return -1;
    int found = find_in_list(third ? NVML_REAL(nvmlDeviceGetComputeRunningProcesses_v3)
                                   : NVML_REAL(nvmlDeviceGetComputeRunningProcesses_v2),
                             handle, pid, bytes);
    if (found == 0 && NVML_HAS(nvmlDeviceGetMPSComputeRunningProcesses_v3) &&
        find_in_list(NVML_REAL(nvmlDeviceGetMPSComputeRunningProcesses_v3), handle, pid, bytes) == 1)
        found = 1;
    return found;
}

static int read_figure(int card, uint64_t *bytes)
{
    return read_figure_of(card, (unsigned)getpid(), bytes);
}

bool footprint_figure_of(int card, uint32_t pid, uint64_t *bytes)
{
    return read_figure_of(card, pid, bytes) == 1;
}

static uint64_t visible(const struct ledger *ledger, int card)
{
    int64_t shown = (int64_t)atomic_load(&ledger->self->held[card]) - atomic_load(&cards[card].hidden);
    return shown > 0 ? (uint64_t)shown : 0;
}

// Pools and graphs give memory back by themselves: their charges must not be older than the figure.
static void settle_estimates(int card)
{
    pool_refresh(card);
    graph_refresh(card);
}

// A slice that was made smaller than what it holds is over its limit without anybody's doing.
static void note_excess(const struct ledger *ledger, int card, uint64_t grown)
{
    uint64_t used = ledger_used(ledger->usage, (unsigned)card), limit = slice_vram((unsigned)card);
    if (used <= limit)
        atomic_store_explicit(&cards[card].exceeded, false, memory_order_relaxed);
    else if (used - limit <= grown)
        atomic_store_explicit(&cards[card].exceeded, true, memory_order_relaxed);
}

bool footprint_exceeded(int card)
{
    return atomic_load_explicit(&cards[card].exceeded, memory_order_relaxed);
}

// The overhead is known anew.  What `held` has reserved for a part of it comes off: by the caller's word, or because it is a
// heap that was promised.  With `comparing` held, so that an older result never replaces a newer one.
static void settle(struct ledger *ledger, int card, uint64_t reserved, uint64_t overhead)
{
    uint64_t grown = overhead > cards[card].exact ? overhead - cards[card].exact : 0;
    cards[card].exact = overhead;
    if (reserved == 0)
        reserved = heap_arrived(card, grown);
    uint64_t before = atomic_load(&ledger->self->overhead[card]);
    ledger_settle(ledger, (unsigned)card, reserved, overhead);
    note_excess(ledger, card, overhead > before + reserved ? overhead - before - reserved : 0);
}

// With the figure and the ledger read while nothing was under way, the overhead is exact.  With operations under way it is
// only raised, and looked at again soon.
static bool compare_with_figure(struct ledger *ledger, int card)
{
    uint64_t figure = 0, shown = 0;
    for (int i = 0; i < TRIES; i++) {
        uint32_t generation = atomic_load(&cards[card].generation);
        bool quiet = atomic_load(&cards[card].in_flight) == 0;
        settle_estimates(card);
        shown = visible(ledger, card);
        int found = read_figure(card, &figure);
        settle_estimates(card);
        if (found < 0)
            return false;
        if (found == 0 && atomic_load(&cards[card].way) != WAY_FIGURE)
            return false;
        atomic_store(&cards[card].way, WAY_FIGURE);
        uint64_t after = visible(ledger, card);
        quiet = quiet && atomic_load(&cards[card].in_flight) == 0 &&
                atomic_load(&cards[card].generation) == generation && after == shown;
        // what came between the two is in the figure too: it must not be raised by that
        shown = most(after, shown);
        if (quiet) {
            settle(ledger, card, 0, less(figure, shown));
            return true;
        }
    }
    if (figure > shown && figure - shown > atomic_load(&ledger->self->overhead[card]))
        ledger_set_overhead(ledger, (unsigned)card, figure - shown);
    footprint_doubt(card);
    return true;
}

static bool refresh_by_figure(struct ledger *ledger, int card)
{
    pthread_mutex_lock(&comparing);
    bool done = compare_with_figure(ledger, card);
    pthread_mutex_unlock(&comparing);
    return done;
}

void footprint_refresh(int card)
{
    struct ledger *ledger = member_ledger();
    if (!ledger || atomic_load(&cards[card].way) == WAY_DIFFERENCE)
        return;
    atomic_store_explicit(&cards[card].doubted, false, memory_order_relaxed);
    atomic_store_explicit(&cards[card].last_ns, now_ns(), memory_order_relaxed);
    refresh_by_figure(ledger, card);
}

CUresult footprint_looked(CUresult result, int card)
{
    if (result == CUDA_SUCCESS && card >= 0)
        footprint_refresh(card);
    return result;
}

void footprint_look_where_doubted(void)
{
    for (int card = 0; card < HAMI_MAX_CARDS; card++)
        if (atomic_load_explicit(&cards[card].doubted, memory_order_relaxed))
            footprint_refresh(card);
}

static bool half_is_used(int card)
{
    return ledger_used(slice()->usage, (unsigned)card) > slice_vram((unsigned)card) / 2;
}

void footprint_refresh_sometimes(int card)
{
    if (!atomic_load_explicit(&cards[card].doubted, memory_order_relaxed)) {
        uint64_t now = now_ns();
        if (now - atomic_load_explicit(&cards[card].last_ns, memory_order_relaxed) <= INTERVAL_NS)
            return;
        if (atomic_load(&cards[card].way) == WAY_UNKNOWN && !half_is_used(card)) {
            atomic_store_explicit(&cards[card].last_ns, now, memory_order_relaxed);
            return;
        }
    }
    footprint_refresh(card);
}

static uint64_t card_in_use(int card)
{
    nvmlDevice_t handle;
    nvmlMemory_t memory;
    if (cards_nvml_handle(card, &handle) && NVML_REAL(nvmlDeviceGetMemoryInfo)(handle, &memory) == NVML_SUCCESS)
        return memory.used;
    size_t free_bytes, total;
    CUstreamCaptureMode mode = capture_relax();
    CUresult result = REAL(cuMemGetInfo_v2)(&free_bytes, &total);
    capture_restore(mode);
    return result == CUDA_SUCCESS ? total - free_bytes : 0;
}

void footprint_before(struct measure *measure, int card)
{
    measure->card = card;
    measure->before = 0;
    if (card >= 0 && atomic_load(&cards[card].way) != WAY_FIGURE)
        measure->before = card_in_use(card);
}

uint64_t footprint_after(const struct measure *measure)
{
    int card = measure->card;
    struct ledger *ledger = card >= 0 ? member_ledger() : NULL;
    if (!ledger)
        return 0;
    if (atomic_load(&cards[card].way) != WAY_DIFFERENCE) {
        if (refresh_by_figure(ledger, card))
            return 0;
        // there is a context, so NVML would list this process if it could
        int unknown = WAY_UNKNOWN;
        atomic_compare_exchange_strong(&cards[card].way, &unknown, WAY_DIFFERENCE);
    }
    uint64_t after = card_in_use(card);
    uint64_t cost = measure->before && after > measure->before ? after - measure->before : 0;
    if (!cost)
        return 0;
    pthread_mutex_lock(&comparing);
    settle(ledger, card, 0, atomic_load(&ledger->self->overhead[card]) + cost);
    pthread_mutex_unlock(&comparing);
    return cost;
}

void footprint_forget(int card, uint64_t bytes)
{
    struct ledger *ledger = card >= 0 && bytes ? member_ledger() : NULL;
    if (!ledger || footprint_is_exact(card))
        return;
    pthread_mutex_lock(&comparing);
    uint64_t now = atomic_load(&ledger->self->overhead[card]);
    settle(ledger, card, 0, less(now, bytes));
    pthread_mutex_unlock(&comparing);
}

bool footprint_is_exact(int card)
{
    return atomic_load(&cards[card].way) == WAY_FIGURE;
}

void footprint_take_over(int card, uint64_t reserved)
{
    struct ledger *ledger = member_ledger();
    if (!ledger)
        return;
    pthread_mutex_lock(&comparing);
    settle(ledger, card, reserved, atomic_load(&ledger->self->overhead[card]) + reserved);
    pthread_mutex_unlock(&comparing);
}

// What the driver shows for the first context: NVML's figure of this process, less what it had before.
static uint64_t measure_context(const struct ledger *ledger, const struct measure *measure, uint64_t reserved)
{
    int card = measure->card;
    uint64_t figure, before = visible(ledger, card) + atomic_load(&ledger->self->overhead[card]);
    before = less(before, reserved);
    if (read_figure(card, &figure) == 1) {
        atomic_store(&cards[card].way, WAY_FIGURE);
        return less(figure, before);
    }
    atomic_store(&cards[card].way, WAY_DIFFERENCE);
    uint64_t after = card_in_use(card);
    uint64_t cost = measure->before && after > measure->before ? after - measure->before : 0;
    // what a neighbour took at the same moment must not stand in the way of every further context
    return cost < BLIND_CONTEXT ? cost : BLIND_CONTEXT;
}

uint64_t footprint_learn_context(const struct measure *measure, uint64_t reserved)
{
    int card = measure->card;
    struct ledger *ledger = member_ledger();
    if (!ledger)
        return BLIND_CONTEXT;
    pthread_mutex_lock(&comparing);
    uint64_t cost = measure_context(ledger, measure, reserved);
    if (!cost)
        cost = BLIND_CONTEXT;
    settle(ledger, card, reserved, atomic_load(&ledger->self->overhead[card]) + cost);
    pthread_mutex_unlock(&comparing);
    return cost;
}

void footprint_after_fork(void)
{
    pthread_mutex_init(&comparing, NULL);
    for (int card = 0; card < HAMI_MAX_CARDS; card++) {
        atomic_store(&cards[card].in_flight, 0);
        atomic_store(&cards[card].hidden, 0);
        atomic_store(&cards[card].last_ns, 0);
        atomic_store(&cards[card].way, WAY_UNKNOWN);
        atomic_store(&cards[card].exceeded, false);
        cards[card].exact = 0;
    }
}
