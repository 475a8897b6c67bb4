#include "turns.h"

#include "arithmetic.h"

#define POLL_NS     (20 * TURN_US)  // between looks at a card that may come free any moment
#define POLL_MAX_NS (200 * TURN_US) // a neighbour may stop early

static struct turn_answer go(void)
{
    return (struct turn_answer){.go = true};
}

static struct turn_answer wait_until(uint64_t when, uint64_t now)
{
    return (struct turn_answer){.again_ns = least(most(when, now + POLL_NS), now + POLL_MAX_NS)};
}

// Low ones are no rivals of a high one.
static bool is_rival(const struct turn_self *self, const struct turn_other *other)
{
    return turn_active(other) && (other->high || !self->high);
}

uint64_t turn_quantum(uint32_t cores, const struct turn_other *others, size_t count)
{
    uint32_t smallest = cores;
    for (size_t i = 0; i < count; i++)
        if (turn_active(&others[i]) && others[i].cores < smallest)
            smallest = others[i].cores;
    return least(turn_per_share(TURN_NS / 2, smallest), TURN_AHEAD_MAX);
}

// The rival furthest behind; NULL: none.
static const struct turn_other *last_rival(const struct turn_self *self, const struct turn_other *others, size_t count)
{
    const struct turn_other *last = NULL;
    for (size_t i = 0; i < count; i++)
        if (is_rival(self, &others[i]) && (!last || others[i].virtual_ns < last->virtual_ns))
            last = &others[i];
    return last;
}

static struct turn_answer check_depth(const struct turn_self *self, uint64_t now)
{
    if (self->in_flight_ns <= self->depth_ns)
        return go();
    return wait_until(now + self->in_flight_ns - self->depth_ns, now);
}

static struct turn_answer check_cap(const struct turn_self *self, uint64_t now)
{
    uint64_t ahead = self->in_flight_ns + (self->running ? 0 : self->resume_ns);
    uint64_t due = self->earned_ns + turn_per_share(ahead, self->cores);
    if (!self->hard || due <= now)
        return go();
    return (struct turn_answer){.capped = true, .again_ns = due};
}

static bool high_is_active(const struct turn_self *self, const struct turn_other *others, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (others[i].high && !self->high && turn_active(&others[i]))
            return true;
    return false;
}

// Whether `other` will put no more work on the card before we do.
static bool has_had_its_turn(const struct turn_self *self, const struct turn_other *other, uint64_t quantum,
                             uint64_t now)
{
    uint64_t left = other->until_ns > now ? other->until_ns - now : 0;
    uint64_t theirs = other->virtual_ns + turn_per_share(least(left, 100 * TURN_MS), other->cores);
    return other->yields || theirs > self->virtual_ns + 2 * quantum;
}

// Whether it can be foreseen that `other` leaves the card: else the card's own slices are better than waiting.
static bool leaves_soon(const struct turn_other *other, uint64_t now)
{
    return other->until_ns < now + TURN_BLOCKED_NS && other->until_ns + TURN_OVERDUE_NS > now;
}

static struct turn_answer follow(const struct turn_self *self, const struct turn_other *others, size_t count,
                                 uint64_t quantum, bool entitled, uint64_t now)
{
    uint64_t again = 0;
    for (size_t i = 0; i < count; i++) {
        const struct turn_other *other = &others[i];
        if (!other->pending || !is_rival(self, other) || (entitled && !leaves_soon(other, now)))
            continue;
        if (!has_had_its_turn(self, other, quantum, now))
            return wait_until(most(other->until_ns, now + 2 * POLL_NS), now);
        if (other->until_ns > now + TURN_HANDOFF_NS)
            again = most(again, other->until_ns - TURN_HANDOFF_NS);
        else if (other->until_ns <= now) // longer than expected: its end will show
            again = most(again, now + POLL_NS);
    }
    return again ? wait_until(again, now) : go();
}

static struct turn_answer take_turn(const struct turn_self *self, const struct turn_other *others, size_t count,
                                    uint64_t now)
{
    const struct turn_other *last = last_rival(self, others, count);
    if (!last)
        return go();
    uint64_t quantum = turn_quantum(self->cores, others, count);
    uint64_t own = self->virtual_ns + turn_per_share(self->in_flight_ns, self->cores);
    if (self->fresh && own <= last->virtual_ns + quantum)
        return go();
    if (self->holds) {
        if (own <= last->virtual_ns + quantum)
            return go();
        struct turn_answer answer = wait_until(now + POLL_NS, now);
        answer.yields = true;
        return answer;
    }
    bool another_first = last->wants && (last->virtual_ns < own || (last->virtual_ns == own && last->first));
    if (another_first && self->free_ns < TURN_GRACE_NS) {
        struct turn_answer answer = wait_until(now + 2 * POLL_NS, now);
        answer.yields = own > last->virtual_ns + quantum;
        return answer;
    }
    bool entitled = own <= last->virtual_ns + 2 * quantum;
    struct turn_answer answer = follow(self, others, count, quantum, entitled, now);
    if (!answer.go && entitled && self->waited_ns >= TURN_BLOCKED_NS)
        return go();
    answer.passed_over = answer.go && another_first;
    return answer;
}

struct turn_answer turn_decide(const struct turn_self *self, const struct turn_other *others, size_t count,
                               uint64_t now)
{
    struct turn_answer answer = check_depth(self, now);
    if (!answer.go)
        return answer;
    answer = check_cap(self, now);
    if (!answer.go)
        return answer;
    if (high_is_active(self, others, count))
        return self->starved_ns >= TURN_STARVED_NS ? go() : wait_until(now + POLL_MAX_NS, now);
    return take_turn(self, others, count, now);
}

// Where the others stand: the one furthest behind of those active, else the foremost of all, who is where the card left off.
static bool others_stand(const struct turn_self *self, const struct turn_other *others, size_t count, uint64_t *where)
{
    const struct turn_other *last = last_rival(self, others, count);
    *where = last ? last->virtual_ns : 0;
    for (size_t i = 0; !last && i < count; i++)
        *where = most(*where, others[i].virtual_ns);
    return count > 0;
}

uint64_t turn_wake(const struct turn_self *self, const struct turn_other *others, size_t count, uint64_t idle_ns,
                   uint64_t *fresh_until)
{
    uint64_t where;
    *fresh_until = self->virtual_ns;
    if (!others_stand(self, others, count, &where))
        return self->virtual_ns;
    uint64_t saved = least(TURN_SAVINGS_NS, least(idle_ns, 100 * TURN_SAVINGS_NS) * self->cores / 100);
    uint64_t credit = turn_per_share(saved, self->cores);
    uint64_t behind = turn_quantum(self->cores, others, count) + credit;
    uint64_t lowest = less(where, behind);
    // the others can't have got further than the whole card, at the smallest share, while we were idle
    lowest = least(lowest, self->virtual_ns + least(idle_ns, UINT64_MAX / 400) * 100);
    *fresh_until = lowest + credit;
    return most(self->virtual_ns, lowest);
}

uint64_t turn_forgive(const struct turn_self *self, const struct turn_other *others, size_t count, uint64_t longest_ns)
{
    const struct turn_other *last = last_rival(self, others, count);
    if (!last)
        return self->virtual_ns;
    uint64_t ahead = turn_quantum(self->cores, others, count) + turn_per_share(2 * longest_ns, self->cores) +
                     turn_per_share(TURN_SAVINGS_NS, last->cores);
    return least(self->virtual_ns, last->virtual_ns + ahead);
}

uint64_t turn_earn(uint64_t earned_ns, uint64_t used_ns, uint32_t cores, uint64_t now)
{
    uint64_t savings = turn_per_share(earned_ns ? TURN_SAVINGS_NS : TURN_RESUME_NS, cores);
    uint64_t earliest = now > savings ? now - savings : 1;
    return most(earned_ns, earliest) + turn_per_share(used_ns, cores);
}
