// When a refusal is the truth: every rule of doubt.h, on a clock that stands still until somebody sleeps.
//   doubt_rules RULE
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "check.h"
#include "doubt.h"
#include "ledger.h"
#include "slice.h"

#define LIMIT 1000

static struct hami_limits limits = {.cards[0].vram = LIMIT};
static struct hami_usage usage = {.process_high = 2};
static struct slice place = {.limits = &limits, .usage = &usage};
static struct hami_process *const other = &usage.processes[1];
static struct ledger self = {.usage = &usage, .self = &usage.processes[0]};
static uint64_t clock_ns = 1;
static int pauses;
static void (*on_pause)(void);
static void (*on_reap)(void);

const struct slice *slice(void)
{
    return &place;
}

unsigned member_reap(bool now)
{
    (void)now;
    if (on_reap)
        on_reap();
    return 0;
}

// ---- in place of libc's --------------------------------------------------------------------------------------------------

int clock_gettime(clockid_t clock, struct timespec *time)
{
    (void)clock;
    *time = (struct timespec){.tv_sec = (time_t)(clock_ns / 1000000000), .tv_nsec = (long)(clock_ns % 1000000000)};
    return 0;
}

int nanosleep(const struct timespec *time, struct timespec *rest)
{
    (void)rest;
    clock_ns += (uint64_t)time->tv_sec * 1000000000 + (uint64_t)time->tv_nsec;
    pauses++;
    if (on_pause)
        on_pause();
    return 0;
}

// ---- the rules -----------------------------------------------------------------------------------------------------------

static bool reserve(uint64_t bytes)
{
    struct doubt doubt = {0};
    do {
        if (ledger_reserve(&self, 0, bytes, LIMIT, NULL))
            return true;
    } while (doubt_remains(&doubt, 0, bytes));
    return false;
}

static void set_other(uint64_t held, uint64_t moving)
{
    atomic_store(&other->held[0], held);
    atomic_store(&other->moving, moving);
}

static void what_is_held_refuses_after_one_pause(void)
{
    set_other(800, 0);
    CHECK(!reserve(300));
    CHECK(pauses == 1);
}

static uint64_t settled; // what the other one then really holds

static void settle_at_the_fifth(void)
{
    if (pauses == 5)
        set_other(settled, 0);
}

static void what_moves_is_waited_for(void)
{
    set_other(900, 300);
    settled = 600;
    on_pause = settle_at_the_fifth;
    CHECK(reserve(400));
    CHECK(pauses == 5);
}

static void what_moved_and_stayed_refuses(void)
{
    set_other(900, 300);
    settled = 900;
    on_pause = settle_at_the_fifth;
    CHECK(!reserve(400));
    CHECK(pauses == 6);
}

static void what_moves_is_not_waited_for_if_that_made_no_room(void)
{
    set_other(900, 300);
    CHECK(!reserve(401));
    CHECK(pauses == 1);
}

static void more_than_the_slice_is_never_waited_for(void)
{
    set_other(900, 900);
    CHECK(!reserve(UINT64_MAX));
    CHECK(pauses == 1);
}

static void who_was_stopped_is_not_waited_for_long(void)
{
    set_other(900, 300);
    CHECK(!reserve(400));
    CHECK(clock_ns > 1000000000 && clock_ns < 3000000000);
}

static void bury(void)
{
    if (pauses == 3)
        set_other(0, 0);
}

static void who_was_killed_is_not_waited_for(void)
{
    set_other(900, 300);
    on_reap = bury;
    CHECK(reserve(400));
    CHECK(pauses == 3);
}

static void take_turns(void)
{
    set_other(900, pauses % 2 ? 300 : 0);
    if (pauses == 20)
        set_other(300, 0);
}

static void one_certain_look_is_not_enough(void)
{
    set_other(900, 0);
    on_pause = take_turns;
    CHECK(reserve(400));
    CHECK(pauses == 20);
}

static const struct {
    const char *name;
    void (*run)(void);
} rules[] = {
#define RULE(name) {#name, name}
    RULE(what_is_held_refuses_after_one_pause),    RULE(what_moves_is_waited_for),
    RULE(what_moved_and_stayed_refuses),           RULE(what_moves_is_not_waited_for_if_that_made_no_room),
    RULE(more_than_the_slice_is_never_waited_for), RULE(who_was_stopped_is_not_waited_for_long),
    RULE(who_was_killed_is_not_waited_for),        RULE(one_certain_look_is_not_enough),
};

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (strcmp(rules[i].name, argv[1]) == 0) {
            rules[i].run();
            return 0;
        }
    }
    CHECK(!"such a rule");
}
