#include "share.h"

#include "capture.h"
#include "cards.h"
#include "driver.h"
#include "meter.h"
#include "overhead.h"
#include "share_clock.h"
#include "slice.h"
#include "spending.h"
#include "timing.h"
#include "turns.h"
#include "turns_page.h"

#define NOMINAL_NS  (20 * TURN_US)   // of work that has no estimate
#define IDLE_NS     (2 * TURN_MS)    // a pause of so long is idleness
#define COMPANY_NS  (2000 * TURN_MS) // a neighbour that was active so long ago may be again any moment
#define NEAR_NS     (60 * TURN_US)
#define LOCKED_NS   (5 * TURN_US)
#define SHORT_NS    (50 * TURN_US) // waited for without a mark
#define MEMBER_NS   (10 * TURN_MS) // a process of the slice waits no longer for another one
#define MEMBER_ASK  (20 * TURN_US)
#define LEAST_ASK   (2 * TURN_US)
#define LONGEST_ASK (1 * TURN_MS)

// How much is launched at once, and how much may be in flight when more is.
struct pace {
    uint64_t permit_ns, depth_ns;
    bool free; // nobody to share with, nothing to hold to
};

static const struct pace ALONE = {5 * TURN_MS, 0, true};
static const struct pace LOOSE = {1 * TURN_MS, 3 * TURN_MS, false};
static const struct pace CAPPED = {TURN_MS / 2, 150 * TURN_US, false};
static const struct pace TIGHT = {TURN_MS / 4, 60 * TURN_US, false};

_Atomic int share_mode;

static uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static const struct hami_card_limit *limit_of(unsigned card)
{
    return &slice()->limits->cards[card];
}

static struct pace pace_of(const struct meter *meter, unsigned card, uint64_t now)
{
    bool hard = limit_of(card)->policy == HAMI_POLICY_FORCE;
    if (meter->ring.company_ns && now - meter->ring.company_ns < COMPANY_NS)
        return TIGHT;
    if (hard)
        return CAPPED;
    return meter->ring.known ? LOOSE : ALONE;
}

// ---- asking ------------------------------------------------------------------------------------------------------------

// A slice that comes back takes its place among the others.  Waiting isn't idleness: only a launch that has just come counts.
static void wake(struct meter *meter, unsigned card, struct turn_self *self, bool waits, uint64_t now)
{
    struct hami_turns_card *ours = &turns_page()->cards[card];
    uint64_t active = atomic_load_explicit(&ours->active_ns, memory_order_relaxed);
    uint64_t idle = now > active ? now - active : 0;
    self->starved_ns = idle;
    if (waits || meter->pending || meter->ring.own || idle < IDLE_NS)
        return;
    uint64_t place = turn_wake(self, meter->ring.others, meter->ring.count, idle, &meter->fresh_until);
    uint64_t old = self->virtual_ns;
    if (place != old && atomic_compare_exchange_strong(&ours->virtual_ns, &old, place))
        self->virtual_ns = place;
}

static struct turn_self describe(struct meter *meter, unsigned card, struct pace *pace, uint64_t began, uint64_t now)
{
    struct hami_turns_card *ours = &turns_page()->cards[card];
    const struct hami_card_limit *limit = limit_of(card);
    bool others_work = meter->ring.contexts > 0;
    return (struct turn_self){
        .cores = atomic_load_explicit(&limit->cores, memory_order_relaxed),
        .resume_ns = pace->permit_ns == TIGHT.permit_ns ? 2 * TURN_RESUME_NS : TURN_RESUME_NS,
        .high = limit->priority == HAMI_PRIORITY_HIGH,
        .hard = limit->policy == HAMI_POLICY_FORCE,
        .running = meter->running,
        .holds = meter->pending || meter->ring.own || (!others_work && now - meter->ended_ns < TURN_LINGER_NS),
        .virtual_ns = atomic_load_explicit(&ours->virtual_ns, memory_order_relaxed),
        .earned_ns = atomic_load_explicit(&ours->earned_ns, memory_order_relaxed),
        .in_flight_ns = meter->left_ns,
        .depth_ns = pace->depth_ns,
        .waited_ns = began ? now - began : 0,
        .free_ns = meter->free_since ? now - meter->free_since : 0,
    };
}

// Work that should have ended long ago may wait for what we hold back.
static bool is_overdue(struct meter *meter, uint64_t now)
{
    if (!meter->pending || meter->left_ns || now < meter->progress_ns)
        return false;
    uint64_t expected = meter->expected_ns * (uint64_t)meter->bias / 1024 * (meter->contexts ? meter->contexts : 1);
    if (now - meter->progress_ns < expected + meter->patience_ns)
        return false;
    meter->patience_ns *= 2;
    return true;
}

// While there is work on the card, its end is to be seen when it comes.
static uint64_t next_look(const struct meter *meter, uint64_t now)
{
    uint64_t gone = now > meter->progress_ns ? now - meter->progress_ns : 0;
    uint64_t step = most(LEAST_ASK, gone / (meter->unknown ? 16 : 128));
    if (!meter->unknown && meter->next_ns)
        step = most(step, meter->next_ns - meter->next_ns / 16);
    return now + (step < LONGEST_ASK ? step : LONGEST_ASK);
}

// The slice's processes go one after the other as well: the card loses time whenever it switches between two.
static bool another_goes(const struct meter *meter, uint64_t began, uint64_t now)
{
    if (meter->pending)
        return meter->ring.own_wants && now > meter->began_ns + TURN_NS && now < meter->began_ns + TURN_NS + MEMBER_NS;
    return meter->ring.own && (!began || now - began < MEMBER_NS);
}

// With the meter locked.
static struct turn_answer ask(struct meter *meter, unsigned card, struct pace *pace, uint64_t began, uint64_t now)
{
    if (pace->free || is_overdue(meter, now))
        return (struct turn_answer){.go = true};
    if (meter->unknown)
        return (struct turn_answer){.again_ns = next_look(meter, now)};
    if (another_goes(meter, began, now))
        return (struct turn_answer){.again_ns = now + MEMBER_ASK, .yields = meter->pending};
    struct turn_self self = describe(meter, card, pace, began, now);
    wake(meter, card, &self, began != 0, now);
    self.fresh = self.virtual_ns < meter->fresh_until;
    if (self.fresh) { // it isn't to run dry while it has the right to go
        *pace = LOOSE;
        self.depth_ns = LOOSE.depth_ns;
    }
    struct turn_answer answer = turn_decide(&self, meter->ring.others, meter->ring.count, now);
    if (answer.passed_over)
        ring_passed_over(card);
    if (!answer.go && answer.yields) {
        uint64_t place = turn_forgive(&self, meter->ring.others, meter->ring.count, meter->longest_ns);
        if (place < self.virtual_ns)
            atomic_compare_exchange_strong(&turns_page()->cards[card].virtual_ns, &self.virtual_ns, place);
    }
    return answer;
}

static void tell(struct meter *meter, unsigned card, const struct turn_answer *answer, uint64_t ends, uint64_t now)
{
    struct hami_turns_member_card *own = &turns_page_member()->cards[card];
    uint64_t asks = 0;
    if (!answer->go && !answer->capped && (!meter->pending || answer->yields))
        asks = (now & ~HAMI_TURN_BITS) | (answer->yields ? HAMI_TURN_YIELDS : HAMI_TURN_WANTS);
    atomic_store_explicit(&own->asks_ns, asks, memory_order_relaxed);
    // the lowest bit: there is work without a mark
    atomic_store_explicit(&own->until_ns, (ends & ~UINT64_C(1)) | answer->go, memory_order_relaxed);
}

// True: the card was idle, as far as this process goes.
static bool grant(struct meter *meter, unsigned card, const struct pace *pace, uint64_t cost, uint64_t now)
{
    bool first = meter_begin(meter, now);
    meter->running = true;
    meter->unhurried = pace->free;
    atomic_store_explicit(&meter->permit, (int64_t)pace->permit_ns - (int64_t)cost, memory_order_relaxed);
    atomic_store_explicit(&slice()->usage->cards[card].last_launch_ns, now, memory_order_relaxed);
    spending_settle(card, meter->ring.spent_ns, now);
    return first;
}

static bool take_permit(struct meter *meter, uint64_t cost)
{
    if (atomic_load_explicit(&meter->permit, memory_order_relaxed) <= 0)
        return false;
    return atomic_fetch_sub_explicit(&meter->permit, (int64_t)cost, memory_order_relaxed) > 0;
}

// Wait until the rules let a launch of that cost go.  True: it's the first after idleness.
static bool wait_for_permit(unsigned card, uint64_t cost)
{
    bool first = false;
    struct meter *meter = meter_of(card);
    timing_collect(card);
    uint64_t began = 0, looked = 0, now = share_now();
    for (;; now = share_now()) {
        uint64_t again = now + LOCKED_NS;
        if (take_permit(meter, cost))
            break;
        if (meter_try_lock(meter)) {
            bool watched = looked && now - looked <= most(NEAR_NS, (now - meter->progress_ns) / 8);
            meter_poll(meter, card, now, watched ? METER_WATCH : METER_GLANCE);
            looked = now;
            struct pace pace = pace_of(meter, card, now);
            struct turn_answer answer = ask(meter, card, &pace, began, now);
            if (answer.go)
                first = grant(meter, card, &pace, cost, now);
            else if (answer.capped)
                meter->running = false;
            tell(meter, card, &answer, now + meter->left_ns + (answer.go ? most(cost, pace.permit_ns) : 0), now);
            again = answer.again_ns;
            if (meter->pending && again > next_look(meter, now))
                again = next_look(meter, now);
            meter_unlock(meter);
            if (answer.go)
                break;
        }
        if (!began)
            began = now;
        share_sleep_until(again);
    }
    if (began)
        spending_throttled(card, now - began);
    return first;
}

// ---- launches ----------------------------------------------------------------------------------------------------------

static bool find_mode(void)
{
    if (cuda_enter() != DRIVER_ACTIVE) {
        atomic_store(&share_mode, SHARE_OFF);
        return false;
    }
    cards_current(); // limits of the environment get their cards now
    const struct hami_limits *limits = slice()->limits;
    bool any = false;
    for (uint32_t i = 0; i < limits->card_count; i++) {
        uint32_t cores = atomic_load_explicit(&limits->cards[i].cores, memory_order_relaxed);
        any |= cores >= 1 && cores < 100 && limits->cards[i].policy != HAMI_POLICY_DISABLE &&
               !(limits->cards[i].flags & HAMI_CARD_WHOLE);
    }
    atomic_store(&share_mode, any ? SHARE_ON : SHARE_OFF);
    return any;
}

// Between two events stands only the work itself if the card surely waits for it, or surely has other work of ours to do first.
static bool may_measure(const struct meter *meter, bool first)
{
    return meter->contexts + meter->ring.contexts <= 1 && (first || meter->left_ns > NEAR_NS / 2);
}

struct share_ticket share_enter_slowly(const void *what, uint64_t size, CUstream stream, bool per_thread)
{
    struct share_ticket ticket = {0};
    if (__builtin_expect(atomic_load_explicit(&share_mode, memory_order_relaxed) == SHARE_UNKNOWN, 0) && !find_mode())
        return ticket;
    struct lane *lane = lanes_of(stream, per_thread);
    if (!lane || lane->card < 0)
        return ticket;
    struct meter *meter = meter_of((unsigned)lane->card);
    struct cost *cost = costs_of(what, size);
    uint64_t known = costs_ns(cost), ns = known ? known : NOMINAL_NS;
    int64_t left = atomic_fetch_sub_explicit(&meter->permit, (int64_t)ns, memory_order_relaxed);
    if (__builtin_expect(left <= 0, 0)) {
        if (capture_active(stream, per_thread))
            return ticket;
        ticket.first = wait_for_permit((unsigned)lane->card, ns);
        if (ticket.first)
            ticket.timed = overhead_begin(lane);
        left = atomic_load_explicit(&meter->permit, memory_order_relaxed) + (int64_t)ns;
    }
    if (__builtin_expect(costs_due(cost), 0) && !meter->unhurried && may_measure(meter, ticket.first) &&
        !capture_active(stream, per_thread))
        ticket.measured = timing_begin(lane, cost, ticket.first);
    ticket.lane = lane;
    ticket.probe = !known && !meter->unhurried;
    ticket.close = ticket.probe || left <= (int64_t)ns;
    if (atomic_fetch_add_explicit(&lane->open_count, 1, memory_order_relaxed) == 0)
        atomic_store_explicit(&lane->only, cost, memory_order_relaxed);
    else if (atomic_load_explicit(&lane->only, memory_order_relaxed) != cost)
        atomic_store_explicit(&lane->only, NULL, memory_order_relaxed);
    atomic_fetch_add_explicit(&lane->open_ns, ticket.probe ? 0 : ns, memory_order_relaxed);
    return ticket;
}

// The other streams of this context with work that no mark stands behind.  A thread's own default stream is that thread's.
static void close_others(const struct lane *lane)
{
    CUcontext current;
    unsigned high = lanes_high();
    if (high <= 1 || REAL(cuCtxGetCurrent)(&current) != CUDA_SUCCESS)
        return;
    for (unsigned i = 0; i < high; i++) {
        struct lane *other = lanes_at(i);
        if (other != lane && other->card == lane->card && other->context == current && !lanes_is_default(other) &&
            atomic_load_explicit(&other->open_ns, memory_order_relaxed))
            meter_close(other, false);
    }
}

static void close_segment(const struct share_ticket *ticket)
{
    struct lane *lane = ticket->lane;
    struct meter *meter = meter_of((unsigned)lane->card);
    if (ticket->probe) // nobody knows how much of the permit it takes
        atomic_store_explicit(&meter->permit, 0, memory_order_relaxed);
    meter_close(lane, ticket->probe);
    if (!ticket->probe)
        close_others(lane);
    struct hami_turns_member_card *own = &turns_page_member()->cards[lane->card];
    if (atomic_load_explicit(&meter->permit, memory_order_relaxed) <= 0 &&
        !atomic_load_explicit(&lane->open_ns, memory_order_relaxed))
        atomic_fetch_and_explicit(&own->until_ns, ~UINT64_C(1), memory_order_relaxed);
}

void share_leave_slowly(const struct share_ticket *ticket)
{
    if (ticket->timed)
        overhead_started(ticket->lane);
    if (ticket->measured)
        timing_end(ticket->lane);
    if (ticket->close)
        close_segment(ticket);
}

// ---- synchronisation ---------------------------------------------------------------------------------------------------

// While this thread is away, only a mark tells the neighbours when its work ends.  Of short work the estimate is enough.
static void before_waiting(struct share_wait *wait)
{
    struct lane *lane = wait->lane;
    uint64_t open = atomic_load_explicit(&lane->open_ns, memory_order_relaxed);
    if (open > SHORT_NS && !meter_of((unsigned)lane->card)->unhurried) {
        meter_close(lane, false);
        if (wait->all)
            close_others(lane);
    }
    wait->open_ns = atomic_load_explicit(&lane->open_ns, memory_order_relaxed);
    overhead_end(lane, wait->all);
}

struct share_wait share_wait_slowly(CUstream stream, bool per_thread, bool all)
{
    struct share_wait wait = {.all = all, .on = true};
    wait.lane = lanes_of(stream, per_thread);
    if (!wait.lane || wait.lane->card < 0)
        wait.on = wait.all = false;
    else
        before_waiting(&wait);
    return wait;
}

void share_waited_slowly(const struct share_wait *wait, CUresult result)
{
    if (result != CUDA_SUCCESS)
        return;
    unsigned card = (unsigned)wait->lane->card;
    struct meter *meter = meter_of(card);
    meter_lock(meter);
    meter_settle(meter, wait->lane, wait->open_ns, false);
    if (wait->all)
        for (unsigned i = 0; i < lanes_high(); i++)
            if (lanes_at(i)->context == wait->lane->context && lanes_at(i)->card == (int)card)
                meter_settle(meter, lanes_at(i), UINT64_MAX, true);
    uint64_t now = share_now();
    bool was = meter->pending;
    meter_poll(meter, card, now, METER_RETURN);
    bool ended = was && !meter->pending && meter->crowd <= 1;
    if (!meter->pending) {
        struct turn_answer idle = {.go = false, .capped = true};
        tell(meter, card, &idle, now, now);
    }
    meter_unlock(meter);
    if (ended)
        overhead_learn(wait->lane, now);
}

void share_looked_slowly(void)
{
    for (unsigned card = 0; card < slice()->limits->card_count && card < HAMI_MAX_CARDS; card++) {
        struct meter *meter = meter_of(card);
        if (!meter->pending || !meter_try_lock(meter))
            continue;
        meter_poll(meter, card, share_now(), METER_RETURN);
        meter_unlock(meter);
    }
}

void share_forget(CUstream stream)
{
    if (atomic_load_explicit(&share_mode, memory_order_relaxed) == SHARE_ON)
        lanes_forget(stream);
}

void share_after_fork(void)
{
    atomic_store(&share_mode, SHARE_UNKNOWN);
    turns_page_after_fork();
    ring_after_fork();
    lanes_after_fork();
    meter_after_fork();
    overhead_after_fork();
    timing_after_fork();
}
