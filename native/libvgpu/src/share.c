#include "share.h"

#include "capture.h"
#include "cards.h"
#include "driver.h"
#include "meter.h"
#include "permit.h"
#include "ring.h"
#include "share_clock.h"
#include "slice.h"
#include "stamps.h"
#include "turns.h"
#include "turns_page.h"

#define NOMINAL_NS (20 * TURN_US) // of work that has no estimate
#define SHORT_NS   (50 * TURN_US) // waited for without a mark

// ---- launches -------------------------------------------------------------------------------------------------------

static bool find_mode(void)
{
    if (cuda_enter() != DRIVER_ACTIVE) {
        atomic_store(&hot.share_mode, SHARE_OFF);
        return false;
    }
    cards_current(); // limits of the environment get their cards now
    const struct hami_limits *limits = slice()->limits;
    bool any = false;
    for (uint32_t i = 0; i < limits->card_count; i++)
        any |= slice_has_core_share(&limits->cards[i]) && !(limits->cards[i].flags & HAMI_CARD_WHOLE);
    atomic_store(&hot.share_mode, any ? SHARE_ON : SHARE_OFF);
    return any;
}

static struct meter *meter_for(const struct lane *lane)
{
    return meter_of((unsigned)atomic_load_explicit(&lane->card, memory_order_relaxed));
}

static bool is_unhurried(struct meter *meter)
{
    return atomic_load_explicit(&meter->unhurried, memory_order_relaxed);
}

static int64_t left_of(const struct lane *lane)
{
    return atomic_load_explicit(&lane->left_ns, memory_order_relaxed);
}

static uint64_t open_of(const struct lane *lane)
{
    return atomic_load_explicit(&lane->open, memory_order_relaxed);
}

static bool is_idle(const struct lane *lane)
{
    return !open_of(lane) && (!atomic_load_explicit(&lane->marked, memory_order_relaxed) ||
                              atomic_load_explicit(&lane->sent, memory_order_relaxed) == lanes_done(lane));
}

// A card that others use as well is switched between processes: only its own word says when it began.
static bool begin_segment(struct lane *lane, struct meter *meter, uint64_t ns, bool due)
{
    bool company = atomic_load_explicit(&meter->company, memory_order_relaxed);
    return is_idle(lane) && (due || !is_unhurried(meter)) &&
           stamps_begin(lane, due || company || ns >= SHORT_NS, company);
}

// The work of a capture takes nothing yet.
static void withdraw(struct lane *lane)
{
    atomic_store_explicit(&lane->left_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&lane->open, 0, memory_order_relaxed);
}

// `known`: the estimate, taken off the lane's part, which wasn't enough; 0: there is none.
static struct share_ticket enter_slowly(struct lane *lane, struct cost *cost, uint32_t known, CUstream stream,
                                        bool per_thread)
{
    struct share_ticket ticket = {0};
    struct meter *meter = meter_for(lane);
    uint64_t ns = known ? known : NOMINAL_NS;
    if (capture_active(stream, per_thread)) {
        withdraw(lane);
        return ticket;
    }
    if (!known)
        lane_take(lane, ns);
    if (left_of(lane) + (int64_t)ns <= 0)
        permit_bring(meter, (unsigned)atomic_load_explicit(&lane->card, memory_order_relaxed), lane, ns);
    bool due = !known || (!atomic_load_explicit(&meter->company, memory_order_relaxed) && costs_due(cost));
    if (due && open_of(lane))
        meter_close(lane, false);
    if (begin_segment(lane, meter, ns, due))
        ticket.began_ns = share_now();
    ticket.lane = lane;
    ticket.probe = !known && !is_unhurried(meter);
    ticket.close = due || (left_of(lane) <= 0 && !permit_take(meter, lane, 0));
    lane_launch(lane, cost, ticket.probe ? 0 : ns);
    return ticket;
}

struct share_ticket share_enter_on(const void *what, uint64_t size, CUstream stream, bool per_thread)
{
    struct share_ticket ticket = {0};
    if (__builtin_expect(atomic_load_explicit(&hot.share_mode, memory_order_relaxed) == SHARE_UNKNOWN, 0) &&
        !find_mode())
        return ticket;
    struct lane *lane = lanes_of(stream, per_thread);
    if (!lane || atomic_load_explicit(&lane->card, memory_order_relaxed) < 0)
        return ticket;
    struct cost *cost = costs_of(what, size);
    uint32_t ns = costs_ns(cost);
    if (__builtin_expect(!ns || !lane_take(lane, ns), 0))
        return enter_slowly(lane, cost, ns, stream, per_thread);
    lane_launch(lane, cost, ns);
    return ticket;
}

// The other streams of this context with work that no mark stands behind, and what is left of their parts: nothing is
// to follow unmarked.  A thread's own default stream is that thread's.
static void close_others(const struct lane *lane)
{
    CUcontext current;
    unsigned high = lanes_high();
    if (high <= 1 || REAL(cuCtxGetCurrent)(&current) != CUDA_SUCCESS)
        return;
    for (unsigned i = 0; i < high; i++) {
        struct lane *other = lanes_at(i);
        if (other != lane && atomic_load(&other->card) == atomic_load(&lane->card) &&
            atomic_load(&other->context) == current && !lanes_is_default(other)) {
            atomic_store_explicit(&other->left_ns, 0, memory_order_relaxed);
            if (open_of(other))
                meter_close(other, false);
        }
    }
}

static void close_segment(const struct share_ticket *ticket)
{
    struct lane *lane = ticket->lane;
    struct meter *meter = meter_for(lane);
    if (ticket->probe) { // nobody knows how much of the permit it takes
        atomic_store_explicit(&meter->permit, 0, memory_order_relaxed);
        atomic_store_explicit(&lane->left_ns, 0, memory_order_relaxed);
    }
    meter_close(lane, ticket->probe);
    if (left_of(lane) > 0 || atomic_load_explicit(&meter->permit, memory_order_relaxed) > 0)
        return;
    if (!ticket->probe)
        close_others(lane);
    if (!open_of(lane)) // the marks say the rest
        atomic_fetch_and_explicit(&turns_page_member()->cards[atomic_load(&lane->card)].until_ns, ~UINT64_C(1),
                                  memory_order_relaxed);
}

void share_leave_slowly(const struct share_ticket *ticket)
{
    if (ticket->began_ns)
        atomic_store_explicit(&ticket->lane->call_ns, share_now() - ticket->began_ns, memory_order_relaxed);
    if (ticket->close)
        close_segment(ticket);
}

// ---- synchronisation ------------------------------------------------------------------------------------------------

// While this thread is away, only a mark tells the neighbours when its work ends.  Of short work the estimate is
// enough.
static void before_waiting(struct share_wait *wait)
{
    struct lane *lane = wait->lane;
    if (open_ns(open_of(lane)) > SHORT_NS && !is_unhurried(meter_for(lane))) {
        meter_close(lane, false);
        if (wait->all)
            close_others(lane);
    }
    wait->open = open_of(lane);
}

struct share_wait share_wait_slowly(CUstream stream, bool per_thread, bool all)
{
    struct share_wait wait = {.all = all, .on = true};
    wait.lane = lanes_of(stream, per_thread);
    if (!wait.lane || atomic_load_explicit(&wait.lane->card, memory_order_relaxed) < 0)
        wait.on = wait.all = false;
    else
        before_waiting(&wait);
    return wait;
}

void share_waited_slowly(const struct share_wait *wait, CUresult result)
{
    if (result != CUDA_SUCCESS)
        return;
    unsigned card = (unsigned)atomic_load_explicit(&wait->lane->card, memory_order_relaxed);
    struct meter *meter = meter_of(card);
    stamps_read(card);
    meter_lock(meter);
    meter_settle(meter, wait->lane, wait->open, false);
    if (wait->all)
        for (unsigned i = 0; i < lanes_high(); i++)
            if (atomic_load(&lanes_at(i)->context) == atomic_load(&wait->lane->context) &&
                atomic_load(&lanes_at(i)->card) == (int)card)
                meter_settle(meter, lanes_at(i), 0, true);
    uint64_t now = share_now();
    meter_poll(meter, card, now, true);
    if (!meter->pending) {
        struct turn_answer idle = {.go = false, .capped = true};
        permit_tell(meter, card, &idle, now, now);
    }
    meter_unlock(meter);
}

void share_looked_slowly(void)
{
    for (unsigned card = 0; card < slice()->limits->card_count && card < HAMI_MAX_CARDS; card++) {
        struct meter *meter = meter_of(card);
        if (!atomic_load_explicit(&meter->pending, memory_order_relaxed))
            continue;
        stamps_read(card);
        if (!meter_try_lock(meter))
            continue;
        meter_poll(meter, card, share_now(), true);
        meter_unlock(meter);
    }
}

void share_forget(CUstream stream)
{
    if (share_is_on())
        lanes_forget(stream);
}

void share_after_fork(void)
{
    atomic_store(&hot.share_mode, SHARE_UNKNOWN);
    turns_page_after_fork();
    ring_after_fork();
    lanes_after_fork();
    meter_after_fork();
    stamps_after_fork();
}
