// The rules of the core share: may a slice put more work on the card now, and if not, when is it worth asking again?
// Pure: no clock, no page, no driver.  share.c asks, ring.c and meter.c know the figures, all times are ns.
//
// * Hard cap: what a slice uses, it must have earned: `cores` percent of the time that passes.  `earned_ns` is the time at which
//   all that was used so far is earned; a launch waits for it.  Unused earnings beyond TURN_SAVINGS_NS are lost.
// * Turns: each slice has a virtual time, its card time divided by its share.  One slice at a time works on the card: it goes on
//   until it is a quantum ahead of another that wants the card, then the one furthest behind follows.  So everybody gets the
//   card in proportion to the shares of those who want it, and a slice that is alone all of it.
// * One that comes back after idleness is put behind all others, by as much as it left unused (at most TURN_SAVINGS_NS): it
//   goes at once, without waiting for the card to be free, and the others stop.
// * Priority: while a high slice has work or wants some, low ones wait, but never longer than TURN_STARVED_NS at a stretch.
// * Nothing waits for ever for somebody else: an entitled slice goes after TURN_BLOCKED_NS whoever is still on the card.
#ifndef TURNS_H
#define TURNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TURN_US UINT64_C(1000)
#define TURN_MS UINT64_C(1000000)

#define TURN_NS         (4 * TURN_MS)  // the length of the smallest share's turn; the others' are longer in proportion
#define TURN_AHEAD_MAX  (40 * TURN_MS) // virtual
#define TURN_SAVINGS_NS (20 * TURN_MS) // card time
#define TURN_RESUME_NS                                                                                                 \
    (2 * TURN_MS) // card time earned before a capped slice goes on; twice that in company: switching costs
#define TURN_HANDOFF_NS (20 * TURN_US) // the next one launches so long before the card runs dry
#define TURN_LINGER_NS  (50 * TURN_US) // a gap between two kernels, not yet idleness
#define TURN_GRACE_NS   (300 * TURN_US)
#define TURN_BLOCKED_NS (25 * TURN_MS)
#define TURN_STARVED_NS (200 * TURN_MS)
#define TURN_OVERDUE_NS (5 * TURN_MS) // work that lasts so much longer than expected isn't waited for

// A neighbour on the card.
struct turn_other {
    uint32_t cores;
    bool high;
    bool pending;      // has work on the card
    bool wants;        // has a launch that waits
    bool yields;       // and waits because it has had its turn
    bool first;        // of two with equal virtual time, this one goes before us
    uint64_t quiet_ns; // neither pending nor wanting for so long
    uint64_t until_ns; // when its work is expected to end
    uint64_t virtual_ns;
};

struct turn_self {
    uint32_t cores;
    bool high;
    bool hard;    // GPU_CORE_UTILIZATION_POLICY=force
    bool running; // the last answer was "go"
    bool holds;   // the slice has work on the card, or had until a moment ago
    bool fresh;   // it uses up what it saved in idleness
    uint64_t virtual_ns;
    uint64_t earned_ns;
    uint64_t resume_ns;    // hard cap: so much must be earned before it goes on
    uint64_t in_flight_ns; // of this process, expected
    uint64_t depth_ns;     // so much may be in flight when the next launch goes
    uint64_t waited_ns;    // this launch
    uint64_t free_ns;      // nobody had work on the card for so long
    uint64_t starved_ns;   // since the slice's last launch
};

struct turn_answer {
    bool go;
    bool yields;
    bool capped;       // waits for its own cap, not for others
    bool passed_over;  // goes before one that was to go first and didn't
    uint64_t again_ns; // ask again at this time
};

struct turn_answer turn_decide(const struct turn_self *self, const struct turn_other *others, size_t count,
                               uint64_t now);

// How far ahead of the one furthest behind the turn may go on, in virtual time.
uint64_t turn_quantum(uint32_t cores, const struct turn_other *others, size_t count);

// Where a slice's virtual time is to stand when it comes back after `idle_ns`.  `*fresh_until`: up to there it goes at once.
uint64_t turn_wake(const struct turn_self *self, const struct turn_other *others, size_t count, uint64_t idle_ns,
                   uint64_t *fresh_until);

// No debt grows for ever: the most that one may be ahead of the others, whose longest piece of work was `longest_ns`.
uint64_t turn_forgive(const struct turn_self *self, const struct turn_other *others, size_t count, uint64_t longest_ns);

// The hard cap's time after using `used_ns` more.
uint64_t turn_earn(uint64_t earned_ns, uint64_t used_ns, uint32_t cores, uint64_t now);

static inline uint64_t turn_per_share(uint64_t ns, uint32_t cores)
{
    return ns * 100 / cores;
}

static inline bool turn_active(const struct turn_other *other)
{
    return other->pending || other->wants || other->quiet_ns < TURN_LINGER_NS;
}

#endif
