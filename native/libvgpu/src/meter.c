#include "meter.h"

#include <sched.h>
#include <string.h>

#include "arithmetic.h"
#include "capture.h"
#include "driver.h"
#include "share_clock.h"
#include "spending.h"
#include "stamps.h"
#include "turns.h"
#include "turns_page.h"

#define LOOK_NS     (10 * TURN_US) // a neighbour's page isn't read more often
#define NEAR_NS     (60 * TURN_US)
#define UNBROKEN_NS (2 * TURN_MS) // the card leaves a process its slice of 2 ms before others have theirs
#define SLACK_NS    (10 * TURN_US)
#define SPAN_NS     (2 * TURN_MS)
#define BIAS_LEAST  (METER_BIAS_ONE / 32)
#define BIAS_MOST   (METER_BIAS_ONE * 9 / 8)
#define PATIENCE_NS (120 * TURN_MS)
#define SPINS       200

static struct meter meters[HAMI_MAX_CARDS];

static void prepare(struct meter *meter)
{
    if (meter->bias)
        return;
    meter->patience_ns = PATIENCE_NS;
    meter->bias = METER_BIAS_ONE;
}

struct meter *meter_of(unsigned card)
{
    return &meters[card];
}

bool meter_try_lock(struct meter *meter)
{
    if (atomic_flag_test_and_set_explicit(&meter->lock, memory_order_acquire))
        return false;
    prepare(meter);
    return true;
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

// What took between `low` and `high`: the nearest to what was expected is the most likely.
static uint64_t nearest(uint64_t expected, uint64_t low, uint64_t high)
{
    return expected < low ? low : expected > high ? high : expected;
}

// ---- learning -------------------------------------------------------------------------------------------------------

static void learn_bias(struct meter *meter, uint64_t estimated, uint64_t taken)
{
    meter->span_estimated += estimated;
    meter->span_taken += taken;
    if (meter->span_taken < SPAN_NS || !meter->span_estimated)
        return;
    int64_t bias = (3 * meter->bias + (int64_t)(meter->span_taken * METER_BIAS_ONE / meter->span_estimated)) / 4;
    // kernels may run side by side, and one that is measured doesn't take much longer than that
    meter->bias = bias < BIAS_LEAST ? BIAS_LEAST : bias > BIAS_MOST ? BIAS_MOST : bias;
    meter->span_estimated = meter->span_taken = 0;
}

static void learn_longest(struct meter *meter, uint64_t taken)
{
    if (taken > meter->longest_ns)
        meter->longest_ns = taken;
    else
        meter->longest_ns -= meter->longest_ns / 64;
}

// ---- what the lanes say ---------------------------------------------------------------------------------------------

struct tally {
    uint64_t taken;        // by what was finished and has stamps
    uint64_t stamped;      // estimates of that
    uint64_t unstamped;    // of what was finished and has none
    uint64_t undone, open; // estimates
    uint64_t next;         // of what will be finished first
    uint64_t ended_ns;     // when the card last passed a stamp, 0: not known
    unsigned segments;     // that were finished
    bool several;          // lanes at work at once: how their stamps overlap isn't known
    bool unknown_finished, unknown_undone;
    struct cost *only; // of the last without stamps
    uint32_t count;
};

static bool is_sure(const struct segment *segment)
{
    return !segment->probe && (!segment->only || atomic_load_explicit(&segment->only->times, memory_order_relaxed));
}

static void learn(struct meter *meter, const struct segment *segment, uint64_t taken, bool exact)
{
    bool uniform = segment->only && segment->count;
    if (uniform && exact) {
        costs_measure(segment->only, taken / segment->count);
        meter->bias += (METER_BIAS_ONE - meter->bias) / 8;
    } else if (uniform) {
        costs_guess(segment->only, taken / segment->count);
    } else if (exact && !segment->probe) {
        learn_bias(meter, segment->ns, taken);
    }
}

// Between its bounds: gaps lie before the last launch.
static void book_stamped(struct meter *meter, const struct segment *segment, struct tally *tally)
{
    uint64_t high = less(segment->to_ns, segment->from_ns);
    uint64_t low = least(high, less(segment->to_ns, segment->closed_ns));
    bool crowded = meter->crowd > 1, whole = !crowded || high < UNBROKEN_NS;
    bool tight = whole && !segment->guessed && high - low <= high / 8 + SLACK_NS / 4;
    uint64_t expected = !segment->probe ? meter_scaled(meter, segment->ns) : whole ? high : meter->advance_ns;
    if (!whole) // part of it was theirs
        low /= meter->crowd;
    if (crowded && is_sure(segment))
        low = least(low, expected);
    uint64_t taken = nearest(expected, low, high);
    tally->taken += taken;
    tally->stamped += segment->ns;
    tally->ended_ns = most(tally->ended_ns, segment->to_ns);
    learn_longest(meter, taken);
    learn(meter, segment, taken, tight && !tally->several);
}

static void collect_lane(struct meter *meter, struct lane *lane, struct tally *tally)
{
    uint32_t sent = atomic_load_explicit(&lane->sent, memory_order_relaxed);
    uint32_t read = atomic_load_explicit(&lane->read, memory_order_acquire);
    while (lane->seen != read) {
        lane->seen = lane_next(lane->seen);
        const struct segment *segment = lane_segment(lane, lane->seen);
        tally->segments++;
        if (segment->to_ns) {
            tally->several |= segment->from_ns < meter->several_ns;
            book_stamped(meter, segment, tally);
            continue;
        }
        tally->unstamped += segment->ns;
        tally->unknown_finished |= segment->probe;
        tally->only = segment->only;
        tally->count = segment->count;
    }
    for (uint32_t number = lane->seen; number != sent;) {
        bool first = number == lane->seen;
        number = lane_next(number);
        const struct segment *segment = lane_segment(lane, number);
        if (first && (!tally->next || segment->ns < tally->next))
            tally->next = segment->ns;
        tally->undone += segment->ns;
        tally->unknown_undone |= segment->probe;
    }
    tally->open += open_ns(atomic_load_explicit(&lane->open, memory_order_relaxed));
}

static bool is_on(const struct lane *lane, unsigned card)
{
    return atomic_load_explicit(&lane->card, memory_order_relaxed) == (int)card;
}

static unsigned lanes_at_work(unsigned card)
{
    unsigned count = 0, high = lanes_high();
    for (unsigned i = 0; i < high; i++) {
        const struct lane *lane = lanes_at(i);
        count += is_on(lane, card) && (atomic_load_explicit(&lane->sent, memory_order_relaxed) != lane->seen ||
                                       atomic_load_explicit(&lane->open, memory_order_relaxed));
    }
    return count;
}

static struct tally collect(struct meter *meter, unsigned card, uint64_t now)
{
    struct tally tally = {.unstamped = meter->settled.ns,
                          .segments = meter->settled.count > 0,
                          .only = meter->settled.only,
                          .count = meter->settled.count};
    meter->settled = (struct segment){0};
    if (lanes_at_work(card) > 1)
        meter->several_ns = now;
    tally.several = meter->several_ns == now;
    unsigned high = lanes_high();
    for (unsigned i = 0; i < high; i++)
        if (is_on(lanes_at(i), card))
            collect_lane(meter, lanes_at(i), &tally);
    return tally;
}

// Work without a mark, which nobody waited for: it has had its time.
static void expire(struct meter *meter, unsigned card, struct tally *tally, uint64_t now)
{
    uint64_t expected = meter_scaled(meter, tally->open);
    if (!tally->open || tally->undone || tally->unknown_undone ||
        now - meter->progress_ns < expected + expected / 4 + NEAR_NS)
        return;
    unsigned high = lanes_high();
    for (unsigned i = 0; i < high; i++)
        if (is_on(lanes_at(i), card))
            tally->unstamped += open_ns(atomic_exchange(&lanes_at(i)->open, 0));
    tally->segments++;
    tally->open = 0;
}

// ---- charging -------------------------------------------------------------------------------------------------------

static bool still_pending(const struct tally *tally)
{
    return tally->undone || tally->open || tally->unknown_undone;
}

// Finished work without stamps: by the estimates, within what the host's clock says.
static uint64_t unstamped_taken(struct meter *meter, const struct tally *tally, uint64_t now)
{
    if (!tally->unstamped && !tally->unknown_finished)
        return 0;
    uint64_t high = less(now + lanes_latency(), meter->progress_ns + tally->taken);
    uint64_t taken = tally->unknown_finished ? high / 2 : least(meter_scaled(meter, tally->unstamped), high);
    if (tally->unknown_finished && tally->only && tally->count)
        costs_guess(tally->only, taken / tally->count);
    return taken;
}

// Of the time since the last look, that in which there was work: the program may be slow to launch.
static uint64_t time_worked(const struct meter *meter, const struct tally *tally, uint64_t now, bool watched)
{
    uint64_t dt = now - meter->polled_ns, all = tally->unstamped + tally->stamped + tally->undone + tally->open;
    uint64_t known =
        meter->pending ? meter->left_ns + meter_scaled(meter, less(all, meter->expected_ns)) : meter_scaled(meter, all);
    if (!still_pending(tally))
        return meter->pending && (watched || dt <= NEAR_NS) ? dt / 2 : least(dt, known);
    return watched || tally->unknown_undone ? dt : least(dt, known + known / 8 + SLACK_NS);
}

static void charge(struct meter *meter, unsigned card, const struct tally *tally, uint64_t now, bool watched)
{
    unsigned contexts = 1 + meter->ring.own + meter->ring.contexts;
    uint64_t worked = time_worked(meter, tally, now, watched);
    worked = worked * 2 / (contexts + (meter->contexts ? meter->contexts : contexts));
    if (tally->segments && !tally->several) {
        uint64_t taken = tally->taken + unstamped_taken(meter, tally, now);
        spending_charge(card, (int64_t)(taken - meter->advance_ns), now);
        meter->advance_ns = 0;
    } else if (tally->segments || still_pending(tally)) {
        spending_charge(card, (int64_t)worked, now);
        meter->advance_ns = tally->several ? 0 : meter->advance_ns + worked;
        if (tally->several && contexts == 1)
            learn_bias(meter, tally->stamped + tally->unstamped, worked);
    }
    meter->contexts = contexts;
    atomic_store_explicit(&meter->company, contexts - 1, memory_order_relaxed);
}

// ---- polling --------------------------------------------------------------------------------------------------------

// Nothing may go unseen from now on.
static void withdraw(struct meter *meter, unsigned card)
{
    atomic_store_explicit(&meter->permit, 0, memory_order_relaxed);
    unsigned high = lanes_high();
    for (unsigned i = 0; i < high; i++)
        if (is_on(lanes_at(i), card) && atomic_load_explicit(&lanes_at(i)->left_ns, memory_order_relaxed) > 0)
            atomic_store_explicit(&lanes_at(i)->left_ns, 0, memory_order_relaxed);
}

static void note_state(struct meter *meter, unsigned card, const struct tally *tally, uint64_t now)
{
    bool pending = still_pending(tally);
    if (meter->crowd < meter->contexts)
        meter->crowd = meter->contexts;
    if (tally->segments || !meter->pending) {
        meter->crowd = meter->contexts;
        meter->progress_ns = tally->ended_ns ? nearest(tally->ended_ns, meter->polled_ns, now) : now;
        meter->patience_ns = PATIENCE_NS;
    }
    if (meter->pending && !pending)
        meter->ended_ns = now;
    meter->unknown = tally->unknown_undone;
    meter->expected_ns = tally->undone + tally->open;
    uint64_t left = meter_scaled(meter, meter->expected_ns),
             gone = less(now, meter->progress_ns) / (meter->contexts ? meter->contexts : 1);
    meter->left_ns = less(left, gone);
    meter->next_ns = less(meter_scaled(meter, tally->next ? tally->next : tally->open), gone);
    if (pending || meter->ring.own || meter->ring.contexts)
        meter->free_since = 0;
    else if (!meter->free_since)
        meter->free_since = now;
    if (!pending && !atomic_load_explicit(&meter->unhurried, memory_order_relaxed))
        withdraw(meter, card);
    atomic_store_explicit(&meter->pending, pending, memory_order_relaxed);
}

void meter_poll(struct meter *meter, unsigned card, uint64_t now, bool watched)
{
    ring_look(card, &meter->ring, meter->pending, now, LOOK_NS);
    if (now <= meter->polled_ns) // what it takes to begin isn't charged
        return;
    struct tally tally = collect(meter, card, now);
    expire(meter, card, &tally, now);
    charge(meter, card, &tally, now, watched);
    note_state(meter, card, &tally, now);
    meter->polled_ns = now;
}

void meter_begin(struct meter *meter, uint64_t now)
{
    if (meter->pending)
        return;
    meter->began_ns = now;
    atomic_store_explicit(&meter->pending, true, memory_order_relaxed);
    meter->free_since = 0;
    meter->expected_ns = meter->left_ns = meter->next_ns = 0;
    meter->polled_ns = meter->progress_ns = now + lanes_latency();
}

// ---- segments -------------------------------------------------------------------------------------------------------

// Take what is open as a segment.  0: there is nothing, or no room for one more.
static uint32_t new_segment(struct lane *lane, bool probe, uint64_t now)
{
    uint32_t sent = atomic_load_explicit(&lane->sent, memory_order_relaxed);
    if (!open_count(atomic_load(&lane->open)) || sent - lane->seen >= LANE_SEGMENTS - 1 || !atomic_load(&lane->key))
        return 0;
    uint32_t number = lane_next(sent);
    uint64_t open = atomic_exchange(&lane->open, 0);
    *lane_segment(lane, number) = (struct segment){
        .ns = open_ns(open),
        .only = atomic_exchange(&lane->only, NULL),
        .count = open_count(open),
        .probe = probe,
        .begun = atomic_exchange(&lane->begun, false),
        .company = atomic_load_explicit(&lane->company, memory_order_relaxed),
        .opened_ns = atomic_exchange(&lane->opened_ns, 0),
        .call_ns = atomic_exchange(&lane->call_ns, 0),
        .closed_ns = now,
    };
    atomic_store_explicit(&lane->sent, number, memory_order_relaxed);
    return number;
}

void meter_close(struct lane *lane, bool probe)
{
    if (!atomic_load_explicit(&lane->marked, memory_order_relaxed) ||
        atomic_flag_test_and_set_explicit(&lane->closing, memory_order_acquire))
        return;
    struct meter *meter = meter_of((unsigned)atomic_load_explicit(&lane->card, memory_order_relaxed));
    struct hami_lane *word = &turns_page_member()->lanes[lanes_index(lane)];
    if (!capture_active(atomic_load_explicit(&lane->stream, memory_order_relaxed),
                        atomic_load_explicit(&lane->per_thread, memory_order_relaxed))) {
        uint64_t now = share_now();
        meter_lock(meter);
        uint32_t number = new_segment(lane, probe, now);
        if (number)
            atomic_store_explicit(&word->sent, number, memory_order_release);
        meter_unlock(meter);
        if (number)
            lane_segment(lane, number)->ended = stamps_end(lane, number);
        if (number && !lanes_mark(lane, number))
            atomic_store_explicit(&word->done, number, memory_order_release);
    }
    atomic_flag_clear_explicit(&lane->closing, memory_order_release);
}

void meter_settle(struct meter *meter, struct lane *lane, uint64_t open, bool all)
{
    struct segment *settled = &meter->settled;
    uint64_t present = atomic_load(&lane->open), waited;
    do { // another thread may have closed it since then, or launched more
        waited = all ? present : open;
        if (!waited || open_ns(present) < open_ns(waited) || open_count(present) < open_count(waited))
            return;
    } while (!atomic_compare_exchange_weak(&lane->open, &present, present - waited));
    settled->only = settled->count ? NULL : atomic_load(&lane->only);
    settled->ns += open_ns(waited);
    settled->count += open_count(waited);
    atomic_store_explicit(&lane->opened_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&lane->begun, false, memory_order_relaxed);
}

void meter_after_fork(void)
{
    memset(meters, 0, sizeof meters);
}
