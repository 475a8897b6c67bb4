#include "permit.h"

#include "arithmetic.h"
#include "ring.h"
#include "share_clock.h"
#include "slice.h"
#include "spending.h"
#include "stamps.h"
#include "turns.h"
#include "turns_page.h"

#define IDLE_NS     (2 * TURN_MS)    // a pause of so long is idleness
#define COMPANY_NS  (2000 * TURN_MS) // a neighbour that was active so long ago may be again any moment
#define NEAR_NS     (60 * TURN_US)
#define LOCKED_NS   (5 * TURN_US)
#define LONG_NS     (500 * TURN_US) // a launch that is worth being late for
#define LATE_NS     (20 * TURN_US)
#define MEMBER_NS   (10 * TURN_MS) // a process of the slice waits no longer for another one
#define MEMBER_ASK  (20 * TURN_US)
#define LATELY_NS   (100 * TURN_MS)
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

static const struct hami_card_limit *limit_of(unsigned card)
{
    return &slice()->limits->cards[card];
}

static struct pace pace_of(const struct meter *meter, unsigned card, uint64_t cost, uint64_t now)
{
    bool hard = limit_of(card)->policy == HAMI_POLICY_FORCE;
    if (meter->ring.company_ns && now - meter->ring.company_ns < COMPANY_NS) {
        struct pace tight = TIGHT;
        if (cost >= LONG_NS)
            tight.depth_ns = LATE_NS;
        return tight;
    }
    if (hard)
        return CAPPED;
    return meter->ring.known ? LOOSE : ALONE;
}

// A slice that comes back takes its place among the others.  Waiting isn't idleness: only a launch that has just come
// counts.
static void wake(struct meter *meter, unsigned card, struct turn_self *self, bool waits, uint64_t now)
{
    struct hami_turns_card *ours = &turns_page()->cards[card];
    uint64_t active = atomic_load_explicit(&ours->active_ns, memory_order_relaxed);
    uint64_t idle = less(now, active);
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
    uint64_t expected = meter_scaled(meter, meter->expected_ns) * (meter->contexts ? meter->contexts : 1);
    if (now - meter->progress_ns < expected + meter->patience_ns)
        return false;
    meter->patience_ns *= 2;
    return true;
}

// While there is work on the card, its end is to be seen when it comes.
static uint64_t next_look(const struct meter *meter, uint64_t now)
{
    uint64_t gone = less(now, meter->progress_ns);
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

// How many of the slice's processes that were at work lately have waited longer than this one.
static unsigned before_us(const struct hami_turns *page, uint64_t now)
{
    const struct hami_turns_member *self = turns_page_member();
    uint32_t high = atomic_load_explicit(&page->member_high, memory_order_relaxed);
    uint64_t own = turns_word(&self->begun_ns);
    unsigned count = 0;
    for (uint32_t i = 0; i < high && i < HAMI_TURNS_MEMBERS; i++) {
        uint64_t theirs = turns_word(&page->members[i].begun_ns);
        count += turns_word(&page->members[i].owner) && theirs < own && theirs + LATELY_NS > now;
    }
    return count;
}

// Several of the slice's processes may have waited for the same moment: one of them goes, the others see it then.
static bool goes_first(struct meter *meter, unsigned card, uint64_t now)
{
    struct hami_turns *page = turns_page();
    _Atomic uint64_t *begun = &page->cards[card].begun_ns;
    if (meter->pending || atomic_load_explicit(&page->member_high, memory_order_relaxed) <= 1)
        return true;
    if (!meter->queued_ns)
        meter->queued_ns = now;
    uint64_t last = turns_word(begun);
    if ((now < last + MEMBER_ASK && last < now + MEMBER_ASK) ||
        now < meter->queued_ns + before_us(page, now) * MEMBER_ASK ||
        !atomic_compare_exchange_strong(begun, &last, now))
        return false;
    atomic_store_explicit(&turns_page_member()->begun_ns, now, memory_order_relaxed);
    meter->queued_ns = 0;
    return true;
}

// With the meter locked.
static struct turn_answer ask(struct meter *meter, unsigned card, struct pace *pace, uint64_t began, uint64_t now)
{
    if (pace->free || is_overdue(meter, now))
        return (struct turn_answer){.go = true};
    if (now < meter->polled_ns) // it has only just begun: nothing is known of it yet
        return (struct turn_answer){.again_ns = meter->polled_ns};
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
    if (!answer.go)
        meter->queued_ns = 0;
    else if (!goes_first(meter, card, now))
        return (struct turn_answer){.again_ns = now + MEMBER_ASK};
    if (answer.passed_over)
        ring_passed_over(card);
    if (!answer.go && answer.yields) {
        uint64_t place = turn_forgive(&self, meter->ring.others, meter->ring.count, meter->longest_ns);
        if (place < self.virtual_ns)
            atomic_compare_exchange_strong(&turns_page()->cards[card].virtual_ns, &self.virtual_ns, place);
    }
    return answer;
}

void permit_tell(struct meter *meter, unsigned card, const struct turn_answer *answer, uint64_t ends, uint64_t now)
{
    struct hami_turns_member_card *own = &turns_page_member()->cards[card];
    uint64_t asks = 0;
    if (!answer->go && !answer->capped && (!meter->pending || answer->yields))
        asks = (now & ~HAMI_TURN_BITS) | (answer->yields ? HAMI_TURN_YIELDS : HAMI_TURN_WANTS);
    atomic_store_explicit(&own->asks_ns, asks, memory_order_relaxed);
    // the lowest bit: there is work without a mark
    atomic_store_explicit(&own->until_ns, (ends & ~UINT64_C(1)) | answer->go, memory_order_relaxed);
}

static void grant(struct meter *meter, unsigned card, const struct pace *pace, struct lane *lane, uint64_t cost,
                  uint64_t now)
{
    unsigned lanes = lanes_on(card);
    uint64_t permit =
        meter->bias < METER_BIAS_ONE ? pace->permit_ns * METER_BIAS_ONE / (uint64_t)meter->bias : pace->permit_ns;
    uint64_t part = permit / (lanes ? lanes : 1), own = most(part, cost);
    meter_begin(meter, now);
    meter->running = true;
    atomic_store_explicit(&meter->unhurried, pace->free, memory_order_relaxed);
    atomic_store_explicit(&meter->part, (int64_t)part, memory_order_relaxed);
    atomic_fetch_add_explicit(&lane->left_ns, (int64_t)own, memory_order_relaxed);
    atomic_store_explicit(&meter->permit, (int64_t)permit - (int64_t)own, memory_order_relaxed);
    atomic_store_explicit(&slice()->usage->cards[card].last_launch_ns, now, memory_order_relaxed);
    spending_settle(card, meter->ring.spent_ns, now);
}

bool permit_take(struct meter *meter, struct lane *lane, uint64_t cost)
{
    if (atomic_load_explicit(&meter->permit, memory_order_relaxed) <= 0)
        return false;
    int64_t part = atomic_load_explicit(&meter->part, memory_order_relaxed);
    int64_t wanted = (int64_t)cost > part ? (int64_t)cost : part;
    if (atomic_fetch_sub_explicit(&meter->permit, wanted, memory_order_relaxed) <= 0)
        return false;
    atomic_fetch_add_explicit(&lane->left_ns, wanted, memory_order_relaxed);
    return true;
}

// Ours comes after what others have on the card already.
static uint64_t ahead_of_us(const struct meter *meter, uint64_t now)
{
    uint64_t ahead = 0;
    for (size_t i = 0; i < meter->ring.count; i++) {
        const struct turn_other *other = &meter->ring.others[i];
        if (other->pending && other->until_ns > now + ahead && other->until_ns < now + TURN_BLOCKED_NS)
            ahead = other->until_ns - now;
    }
    return ahead;
}

// With the meter locked.  True: the launch goes.
static bool look(struct meter *meter, unsigned card, struct lane *lane, uint64_t cost, uint64_t began, uint64_t looked,
                 uint64_t now, uint64_t *again)
{
    meter_poll(meter, card, now, looked && now - looked <= most(NEAR_NS, (now - meter->progress_ns) / 8));
    struct pace pace = pace_of(meter, card, cost, now);
    struct turn_answer answer = ask(meter, card, &pace, began, now);
    if (answer.go)
        grant(meter, card, &pace, lane, cost, now);
    else if (answer.capped)
        meter->running = false;
    uint64_t ends = now + ahead_of_us(meter, now) + meter->left_ns + (answer.go ? most(cost, pace.permit_ns) : 0);
    permit_tell(meter, card, &answer, ends, now);
    *again = answer.again_ns;
    if (meter->pending && *again > next_look(meter, now))
        *again = next_look(meter, now);
    return answer.go;
}

void permit_bring(struct meter *meter, unsigned card, struct lane *lane, uint64_t cost)
{
    uint64_t began = 0, looked = 0, now = share_now();
    for (;; now = share_now()) {
        uint64_t again = now + LOCKED_NS;
        if (permit_take(meter, lane, cost))
            break;
        stamps_read(card);
        if (meter_try_lock(meter)) {
            bool goes = look(meter, card, lane, cost, began, looked, now, &again);
            looked = now;
            meter_unlock(meter);
            if (goes)
                break;
        }
        if (!began)
            began = now;
        share_sleep_until(again);
    }
    if (began)
        spending_throttled(card, now - began);
}
