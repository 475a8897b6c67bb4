#include "spending.h"

#include <stdatomic.h>
#include <stdbool.h>

#include "slice.h"
#include "turns.h"
#include "turns_page.h"

#define WINDOW_NS (100 * TURN_MS)

static _Atomic int64_t excess[HAMI_MAX_CARDS];

static uint32_t cores_of(unsigned card)
{
    uint32_t cores = atomic_load_explicit(&slice()->limits->cards[card].cores, memory_order_relaxed);
    return cores >= 1 && cores <= 100 ? cores : 100;
}

// What was charged and wasn't used is made up for by what is used next.
static uint64_t without_excess(unsigned card, int64_t used_ns)
{
    int64_t before = atomic_load_explicit(&excess[card], memory_order_relaxed), after;
    do
        after = used_ns - before > 0 ? 0 : before - used_ns;
    while (!atomic_compare_exchange_weak_explicit(&excess[card], &before, after, memory_order_relaxed,
                                                  memory_order_relaxed));
    return used_ns > before ? (uint64_t)(used_ns - before) : 0;
}

static void earn(_Atomic uint64_t *earned_ns, int64_t used_ns, uint32_t cores, uint64_t now)
{
    uint64_t earned = atomic_load_explicit(earned_ns, memory_order_relaxed), then;
    do {
        uint64_t back = used_ns < 0 ? turn_per_share((uint64_t)-used_ns, cores) : 0;
        then =
            used_ns < 0 ? earned - (back < earned ? back : earned) : turn_earn(earned, (uint64_t)used_ns, cores, now);
    } while (
        !atomic_compare_exchange_weak_explicit(earned_ns, &earned, then, memory_order_relaxed, memory_order_relaxed));
}

static void advance(_Atomic uint64_t *virtual_ns, int64_t used_ns, uint32_t cores)
{
    uint64_t ahead = turn_per_share((uint64_t)(used_ns < 0 ? -used_ns : used_ns), cores);
    if (used_ns >= 0)
        atomic_fetch_add_explicit(virtual_ns, ahead, memory_order_relaxed);
    else if (atomic_load_explicit(virtual_ns, memory_order_relaxed) > ahead)
        atomic_fetch_sub_explicit(virtual_ns, ahead, memory_order_relaxed);
}

void spending_charge(unsigned card, int64_t used_ns, uint64_t now)
{
    struct hami_turns_card *ours = &turns_page()->cards[card];
    uint32_t cores = cores_of(card);
    advance(&ours->virtual_ns, used_ns, cores);
    earn(&ours->earned_ns, used_ns, cores, now);
    atomic_store_explicit(&ours->active_ns, now, memory_order_relaxed);
    uint64_t seen = without_excess(card, used_ns);
    atomic_fetch_add_explicit(&ours->spent_ns, seen, memory_order_relaxed);
    atomic_fetch_add_explicit(&slice()->usage->cards[card].used_ns, seen, memory_order_relaxed);
}

void spending_throttled(unsigned card, uint64_t waited_ns)
{
    atomic_fetch_add_explicit(&slice()->usage->cards[card].throttled_ns, waited_ns, memory_order_relaxed);
}

void spending_settle(unsigned card, uint64_t others_ns, uint64_t now)
{
    struct hami_card_usage *usage = &slice()->usage->cards[card];
    uint64_t since = atomic_load(&usage->window_ns), used = atomic_load(&usage->used_ns);
    if (now - since < WINDOW_NS || !atomic_compare_exchange_strong(&usage->window_ns, &since, now))
        return;
    uint64_t before = atomic_exchange(&usage->window_used_ns, used);
    if (!since)
        return;
    uint64_t share = (now - since) * cores_of(card) / 100;
    used -= before;
    if (used > share)
        atomic_fetch_add(&usage->borrowed_ns, used - share);
    else
        atomic_fetch_add(&usage->lent_ns, share - used < others_ns ? share - used : others_ns);
}
