#include "meter.h"

#include <sched.h>
#include <string.h>

#include "capture.h"
#include "driver.h"
#include "overhead.h"
#include "share_clock.h"
#include "spending.h"
#include "turns.h"
#include "turns_page.h"

#define LOOK_NS     (10 * TURN_US) // a neighbour's page isn't read more often
#define NEAR_NS     (60 * TURN_US)
#define SLACK_NS    (10 * TURN_US)
#define SPAN_NS     (2 * TURN_MS)
#define BIAS_ONE    1024
#define BIAS_LEAST  (BIAS_ONE / 32)
#define BIAS_MOST   (BIAS_ONE * 9 / 8)
#define PATIENCE_NS (120 * TURN_MS)
#define SPINS       200

static struct meter meters[HAMI_MAX_CARDS];

struct meter *meter_of(unsigned card)
{
    struct meter *meter = &meters[card];
    if (__builtin_expect(!meter->bias, 0)) {
        meter->patience_ns = PATIENCE_NS;
        meter->bias = BIAS_ONE;
    }
    return meter;
}

bool meter_try_lock(struct meter *meter)
{
    return !atomic_flag_test_and_set_explicit(&meter->lock, memory_order_acquire);
}

void meter_lock(struct meter *meter)
{
    for (unsigned spins = 0; !meter_try_lock(meter); spins++)
        if (spins > SPINS)
            sched_yield();
}

void meter_unlock(struct meter *meter)
{
    atomic_flag_clear_explicit(&meter->lock, memory_order_release);
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t scaled(const struct meter *meter, uint64_t estimate)
{
    return estimate * (uint64_t)meter->bias / BIAS_ONE;
}

// ---- what the lanes say ------------------------------------------------------------------------------------------------

struct tally {
    uint64_t finished, undone, open; // estimates
    uint64_t next;                   // of what will be finished first
    unsigned segments;               // that finished
    bool unknown_finished, unknown_undone;
    struct cost *only;
    uint32_t count;
};

static void collect_lane(struct lane *lane, struct tally *tally)
{
    uint32_t done = lane->seen;
    if (lane->marked)
        done = atomic_load_explicit(&turns_page_member()->lanes[lane->index].done, memory_order_acquire);
    while (lane->seen != lane->sent && (int32_t)(done - (lane->seen + 1)) >= 0) {
        const struct segment *segment = &lane->segments[++lane->seen % LANE_SEGMENTS];
        tally->finished += segment->ns;
        tally->segments++;
        tally->unknown_finished |= segment->probe;
        tally->only = segment->only;
        tally->count = segment->count;
    }
    for (uint32_t number = lane->seen; number != lane->sent; number++) {
        const struct segment *segment = &lane->segments[(number + 1) % LANE_SEGMENTS];
        if (number == lane->seen && (!tally->next || segment->ns < tally->next))
            tally->next = segment->ns;
        tally->undone += segment->ns;
        tally->unknown_undone |= segment->probe;
    }
    tally->open += atomic_load_explicit(&lane->open_ns, memory_order_relaxed);
}

static struct tally collect(struct meter *meter, unsigned card)
{
    struct tally tally = {.finished = meter->settled.ns,
                          .segments = meter->settled.count > 0,
                          .only = meter->settled.only,
                          .count = meter->settled.count};
    meter->settled = (struct segment){0};
    unsigned high = lanes_high();
    for (unsigned i = 0; i < high; i++)
        if (lanes_at(i)->card == (int)card)
            collect_lane(lanes_at(i), &tally);
    return tally;
}

// Work without a mark, which nobody waited for: it has had its time.
static void expire(struct meter *meter, unsigned card, struct tally *tally, uint64_t now)
{
    uint64_t expected = scaled(meter, tally->open);
    if (!tally->open || tally->undone || tally->unknown_undone ||
        now - meter->progress_ns < expected + expected / 4 + NEAR_NS)
        return;
    unsigned high = lanes_high();
    for (unsigned i = 0; i < high; i++) {
        struct lane *lane = lanes_at(i);
        if (lane->card != (int)card)
            continue;
        tally->finished += atomic_exchange(&lane->open_ns, 0);
        atomic_store(&lane->open_count, 0);
    }
    tally->open = 0;
}

// ---- learning ----------------------------------------------------------------------------------------------------------

// What was finished took between `low` and `high`: the nearest to what was expected is the most likely.
static uint64_t nearest(uint64_t expected, uint64_t low, uint64_t high)
{
    return expected < low ? low : expected > high ? high : expected;
}

static void learn_bias(struct meter *meter, uint64_t estimated, uint64_t taken)
{
    meter->span_estimated += estimated;
    meter->span_taken += taken;
    if (meter->span_taken < SPAN_NS || !meter->span_estimated)
        return;
    int64_t bias = (3 * meter->bias + (int64_t)(meter->span_taken * BIAS_ONE / meter->span_estimated)) / 4;
    // kernels may run side by side, and one that is measured doesn't take much longer than that
    meter->bias = bias < BIAS_LEAST ? BIAS_LEAST : bias > BIAS_MOST ? BIAS_MOST : bias;
    meter->span_estimated = meter->span_taken = 0;
}

static void learn(struct meter *meter, unsigned card, const struct tally *tally, uint64_t now, enum meter_look look)
{
    if (!tally->segments)
        return;
    uint64_t high = now - meter->progress_ns, low = 0;
    if (look == METER_RETURN) {
        uint64_t overhead = overhead_ns(card), latency = meter->progress_ns > meter->began_ns ? lanes_latency() : 0;
        overhead = overhead > latency ? overhead - latency : 0;
        low = high = high > overhead + high / 8 ? high - overhead : high / 8;
    }
    if (look != METER_RETURN && meter->pending && meter->polled_ns > meter->progress_ns)
        low = meter->polled_ns - meter->progress_ns;
    if (meter->crowd > 1) // part of it may have been theirs
        low /= meter->crowd;
    bool close = look != METER_GLANCE && meter->crowd <= 1;
    uint64_t taken = close ? (low + high) / 2 : nearest(scaled(meter, tally->finished), low, high);
    if (taken > meter->longest_ns)
        meter->longest_ns = taken;
    else
        meter->longest_ns -= meter->longest_ns / 64;
    bool uniform = tally->segments == 1 && tally->only && tally->count;
    if (uniform && !atomic_load_explicit(&tally->only->measured, memory_order_relaxed)) {
        bool guess = look == METER_GLANCE && tally->unknown_finished;
        costs_learn(tally->only, (guess ? (low + high) / 2 : taken) / tally->count);
        meter->bias += (BIAS_ONE - meter->bias) / 8;
    } else if (!tally->unknown_finished) {
        learn_bias(meter, tally->finished, taken);
    }
}

// ---- polling -----------------------------------------------------------------------------------------------------------

static bool still_pending(const struct tally *tally)
{
    return tally->undone || tally->open || tally->unknown_undone;
}

// Of the time since the last look, what the card worked for this process.
static uint64_t time_used(const struct meter *meter, unsigned card, const struct tally *tally, uint64_t now,
                          enum meter_look look)
{
    uint64_t dt = now - meter->polled_ns;
    if (look == METER_RETURN && meter->pending && !still_pending(tally)) { // the way back isn't the card's work
        uint64_t overhead = overhead_ns(card), latency = lanes_latency();
        overhead = overhead > latency ? overhead - latency : 0; // that much wasn't charged to begin with
        return dt > overhead + dt / 8 ? dt - overhead : dt / 8;
    }
    uint64_t all = tally->finished + tally->undone + tally->open;
    if (!meter->pending)
        return least(dt, scaled(meter, all));
    uint64_t added = all > meter->expected_ns ? all - meter->expected_ns : 0;
    uint64_t known = meter->left_ns + scaled(meter, added);
    if (look == METER_RETURN || tally->unknown_finished || tally->unknown_undone)
        return dt;
    if (still_pending(tally)) // it may have idled in between, when the program is slow to launch
        return look == METER_GLANCE ? least(dt, known + known / 8 + SLACK_NS) : dt;
    return look == METER_WATCH || dt <= NEAR_NS ? dt / 2 : least(dt, known);
}

static void note_state(struct meter *meter, const struct tally *tally, uint64_t now)
{
    bool pending = still_pending(tally);
    if (meter->crowd < meter->contexts)
        meter->crowd = meter->contexts;
    if (tally->finished || tally->segments || !meter->pending) {
        meter->crowd = meter->contexts;
        meter->progress_ns = now;
        meter->patience_ns = PATIENCE_NS;
    }
    if (meter->pending && !pending)
        meter->ended_ns = now;
    meter->pending = pending;
    meter->unknown = tally->unknown_undone;
    meter->expected_ns = tally->undone + tally->open;
    uint64_t left = scaled(meter, meter->expected_ns),
             gone = (now - meter->progress_ns) / (meter->contexts ? meter->contexts : 1);
    uint64_t next = scaled(meter, tally->next ? tally->next : tally->open);
    meter->left_ns = left > gone ? left - gone : 0;
    meter->next_ns = next > gone ? next - gone : 0;
    if (pending || meter->ring.own || meter->ring.contexts)
        meter->free_since = 0;
    else if (!meter->free_since)
        meter->free_since = now;
    if (!pending) // the next launch is to be seen
        atomic_store_explicit(&meter->permit, 0, memory_order_relaxed);
}

void meter_poll(struct meter *meter, unsigned card, uint64_t now, enum meter_look look)
{
    ring_look(card, &meter->ring, meter->pending, now, LOOK_NS);
    if (now <= meter->polled_ns) // what it takes to begin isn't charged
        return;
    struct tally tally = collect(meter, card);
    expire(meter, card, &tally, now);
    learn(meter, card, &tally, now, look);
    unsigned contexts = 1 + meter->ring.own + meter->ring.contexts;
    uint64_t used = time_used(meter, card, &tally, now, look);
    if (used)
        spending_charge(card, used * 2 / (contexts + (meter->contexts ? meter->contexts : contexts)), now);
    meter->contexts = contexts;
    note_state(meter, &tally, now);
    meter->polled_ns = now;
}

bool meter_begin(struct meter *meter, uint64_t now)
{
    if (meter->pending)
        return false;
    meter->began_ns = now;
    meter->pending = true;
    meter->free_since = 0;
    meter->expected_ns = meter->left_ns = meter->next_ns = 0;
    meter->polled_ns = meter->progress_ns = now + lanes_latency();
    return true;
}

// ---- segments ----------------------------------------------------------------------------------------------------------

// Take what is open as a segment.  0: there is nothing, or no room for one more.
static uint32_t new_segment(struct lane *lane, bool probe)
{
    uint32_t count = atomic_load(&lane->open_count);
    if ((!count && !probe) || lane->sent - lane->seen >= LANE_SEGMENTS - 1 || !atomic_load(&lane->key))
        return 0;
    uint32_t number = lane->sent + 1;
    number += number == 0; // 0 is "nothing"
    lane->segments[number % LANE_SEGMENTS] = (struct segment){
        .ns = atomic_exchange(&lane->open_ns, 0),
        .only = atomic_exchange(&lane->only, NULL),
        .count = atomic_exchange(&lane->open_count, 0),
        .probe = probe,
    };
    lane->sent = number;
    return number;
}

void meter_close(struct lane *lane, bool probe)
{
    if (!lane->marked || atomic_flag_test_and_set_explicit(&lane->closing, memory_order_acquire))
        return;
    struct meter *meter = meter_of((unsigned)lane->card);
    struct hami_lane *word = &turns_page_member()->lanes[lane->index];
    if (!capture_active(lane->stream, lane->per_thread)) {
        meter_lock(meter);
        uint32_t number = new_segment(lane, probe);
        if (number)
            atomic_store_explicit(&word->sent, number, memory_order_release);
        meter_unlock(meter);
        if (number && !lanes_mark(lane, number))
            atomic_store_explicit(&word->done, number, memory_order_release);
    }
    atomic_flag_clear_explicit(&lane->closing, memory_order_release);
}

void meter_settle(struct meter *meter, struct lane *lane, uint64_t open_ns, bool all)
{
    struct segment *settled = &meter->settled;
    uint64_t open = atomic_load(&lane->open_ns);
    if (!open_ns || !open)
        return;
    if (all || open == open_ns) {
        settled->ns += atomic_exchange(&lane->open_ns, 0);
        settled->only = settled->count ? NULL : atomic_load(&lane->only);
        settled->count += atomic_exchange(&lane->open_count, 0);
        return;
    }
    // another thread has launched more since then
    settled->ns += open_ns;
    settled->only = NULL;
    settled->count++;
    while (!atomic_compare_exchange_weak(&lane->open_ns, &open, open > open_ns ? open - open_ns : 0))
        ;
}

void meter_after_fork(void)
{
    memset(meters, 0, sizeof meters);
}
