#include "stamps.h"

#include <string.h>

#include "arithmetic.h"
#include "capture.h"
#include "driver.h"
#include "share_clock.h"
#include "turns.h"
#include "turns_page.h"

#define STALE_NS   (100 * TURN_MS) // the clocks drift apart, and a float of milliseconds has 24 bits
#define GAP_MAX_NS (3 * TURN_US)
#define AHEAD      8

struct stamp {
    CUevent event;
    _Atomic(CUcontext) context; // that it was made in; NULL: none was
};

static struct pair {
    struct stamp begin, end;
} pairs[HAMI_TURNS_LANES][LANE_SEGMENTS];

// What an empty pair is apart: as such, and with a mark in between, as between the ends of two segments.
static _Atomic uint64_t empty_ns, marked_ns;

static struct pair *pair_of(const struct lane *lane, uint32_t number)
{
    return &pairs[lanes_index(lane)][number % LANE_SEGMENTS];
}

static bool make(struct stamp *stamp, CUcontext wanted)
{
    CUcontext current;
    if (stamp->context == wanted)
        return true;
    stamp->context = NULL; // what was made in another context stays there, and ends with it
    if (REAL(cuCtxGetCurrent)(&current) != CUDA_SUCCESS || current != wanted)
        return false;
    CUstreamCaptureMode mode = capture_relax();
    CUresult result = REAL(cuEventCreate)(&stamp->event, CU_EVENT_DEFAULT);
    capture_restore(mode);
    if (result == CUDA_SUCCESS)
        stamp->context = wanted;
    return stamp->context;
}

static bool record(struct lane *lane, struct stamp *stamp)
{
    if (!make(stamp, atomic_load_explicit(&lane->context, memory_order_relaxed)))
        return false;
    CUstream stream = atomic_load_explicit(&lane->stream, memory_order_relaxed);
    CUresult result = atomic_load_explicit(&lane->per_thread, memory_order_relaxed) && CUDA_HAS(cuEventRecord_ptsz)
                          ? REAL(cuEventRecord_ptsz)(stamp->event, stream)
                          : REAL(cuEventRecord)(stamp->event, stream);
    if (result != CUDA_SUCCESS)
        stamp->context = NULL;
    return result == CUDA_SUCCESS;
}

// False: the driver doesn't say.
static bool between(const struct stamp *begin, const struct stamp *end, uint64_t *ns)
{
    float ms = 0;
    if (!begin->context || begin->context != end->context)
        return false;
    CUstreamCaptureMode mode = capture_relax();
    CUresult result = REAL(cuEventElapsedTime)(&ms, begin->event, end->event);
    capture_restore(mode);
    *ns = ms > 0 ? (uint64_t)((double)ms * 1e6) : 0;
    return result == CUDA_SUCCESS;
}

bool stamps_begin(struct lane *lane, bool exact, bool company)
{
    uint32_t number = lane_next(atomic_load_explicit(&lane->sent, memory_order_relaxed));
    bool begun = false;
    uint64_t now = share_now();
    if (!atomic_load_explicit(&lane->marked, memory_order_relaxed) ||
        atomic_flag_test_and_set_explicit(&lane->closing, memory_order_acquire))
        return false;
    if (exact || !lane->stamp || now - lane->stamp_ns > STALE_NS)
        begun = record(lane, &pair_of(lane, number)->begin);
    if (begun)
        now = share_now();
    atomic_store_explicit(&lane->opened_ns, now, memory_order_relaxed);
    atomic_store_explicit(&lane->call_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&lane->begun, begun, memory_order_relaxed);
    atomic_store_explicit(&lane->company, company, memory_order_relaxed);
    atomic_flag_clear_explicit(&lane->closing, memory_order_release);
    return begun;
}

bool stamps_end(struct lane *lane, uint32_t number)
{
    return record(lane, &pair_of(lane, number)->end);
}

// The segment began with a stamp of its own, on an idle lane: until the first launch had reached the card that waited
// for it.
// Beside others the card came to it at any time: taken for later than it was, its end corrects itself when it's seen;
// taken for earlier, more work would follow too soon.
static bool read_begun(struct lane *lane, struct segment *segment, uint32_t number, uint64_t now, uint64_t *took)
{
    const struct pair *pair = pair_of(lane, number);
    uint64_t ns;
    if (!between(&pair->begin, &pair->end, &ns))
        return false;
    segment->to_ns = segment->company ? now : segment->opened_ns + ns;
    *took = less(ns, segment->call_ns + atomic_load_explicit(&empty_ns, memory_order_relaxed) / 4);
    *took = most(*took, ns / 8);
    return true;
}

// It follows on the segment before, or began when the host says so.
static bool read_following(struct lane *lane, struct segment *segment, uint32_t number, uint64_t *took)
{
    uint64_t ns;
    if (!lane->stamp || lane_next(lane->stamp) != number ||
        !between(&pair_of(lane, lane->stamp)->end, &pair_of(lane, number)->end, &ns))
        return false;
    segment->to_ns = lane->stamp_ns + ns;
    *took = less(ns, atomic_load_explicit(&marked_ns, memory_order_relaxed));
    uint64_t opened = segment->opened_ns + lanes_latency();
    segment->guessed = segment->opened_ns && opened > lane->stamp_ns;
    if (segment->guessed)
        *took = less(segment->to_ns, opened);
    return true;
}

// What the clocks have drifted apart shows in a mark that would have been passed before it was last seen open, or after
// now.
static void read_segment(struct lane *lane, uint32_t number, uint64_t now)
{
    struct segment *segment = lane_segment(lane, number);
    uint64_t took = 0;
    segment->from_ns = segment->to_ns = 0;
    bool known = segment->ended && (segment->begun ? read_begun(lane, segment, number, now, &took)
                                                   : read_following(lane, segment, number, &took));
    if (!known) {
        lane->stamp = 0;
        if (segment->ended) { // the next segment can follow on this one
            lane->stamp = number;
            lane->stamp_ns = now;
        }
        return;
    }
    if (segment->to_ns < lane->undone_ns)
        segment->to_ns = lane->undone_ns;
    if (segment->to_ns > now)
        segment->to_ns = now;
    segment->from_ns = segment->to_ns - took;
    lane->stamp = number;
    lane->stamp_ns = segment->to_ns;
}

static void read_lane(struct lane *lane, uint64_t now)
{
    uint32_t done = lanes_done(lane);
    if (atomic_flag_test_and_set_explicit(&lane->closing, memory_order_acquire))
        return;
    uint32_t sent = atomic_load_explicit(&lane->sent, memory_order_relaxed);
    if ((int32_t)(done - sent) > 0) // only the card writes there, but it's memory of the program
        done = sent;
    uint32_t read = atomic_load_explicit(&lane->read, memory_order_relaxed);
    while (read != done && (int32_t)(done - read) > 0) {
        read = lane_next(read);
        read_segment(lane, read, now);
        atomic_store_explicit(&lane->read, read, memory_order_release);
    }
    lane->undone_ns = now;
    atomic_flag_clear_explicit(&lane->closing, memory_order_release);
}

void stamps_read(unsigned card)
{
    unsigned high = lanes_high();
    for (unsigned i = 0; i < high; i++) {
        struct lane *lane = lanes_at(i);
        if (atomic_load_explicit(&lane->card, memory_order_relaxed) == (int)card &&
            atomic_load_explicit(&lane->marked, memory_order_relaxed) &&
            atomic_load_explicit(&lane->read, memory_order_relaxed) !=
                atomic_load_explicit(&lane->sent, memory_order_relaxed))
            read_lane(lane, share_now());
    }
}

static void learn_pair(struct lane *lane, bool marked, _Atomic uint64_t *apart)
{
    struct pair *pair = pair_of(lane, 0);
    uint64_t ns, until = share_now() + TURN_MS;
    uint32_t number = lane_next(atomic_load(&lane->sent));
    for (int i = 0; i < AHEAD; i++) // the card isn't to wait for the host between the two
        if (!record(lane, &pair->begin))
            return;
    if (marked && !lanes_mark(lane, number))
        return;
    number += marked;
    if (!record(lane, &pair->end) || !lanes_mark(lane, number))
        return;
    while (lanes_done(lane) != number && share_now() < until)
        share_sleep_until(share_now() + TURN_US);
    if (between(&pair->begin, &pair->end, &ns))
        atomic_store(apart, ns < GAP_MAX_NS ? ns : GAP_MAX_NS);
    atomic_store(&lane->sent, number);
    atomic_store(&lane->read, number);
    lane->seen = number;
}

void stamps_learn(struct lane *lane)
{
    learn_pair(lane, false, &empty_ns);
    learn_pair(lane, true, &marked_ns);
}

void stamps_context_gone(const void *context)
{
    for (unsigned i = 0; i < HAMI_TURNS_LANES; i++)
        for (unsigned number = 0; number < LANE_SEGMENTS; number++) {
            struct pair *pair = &pairs[i][number];
            if (pair->begin.context == context)
                pair->begin.context = NULL;
            if (pair->end.context == context)
                pair->end.context = NULL;
        }
}

void stamps_after_fork(void)
{
    memset(pairs, 0, sizeof pairs);
    atomic_store(&empty_ns, 0);
    atomic_store(&marked_ns, 0);
}
