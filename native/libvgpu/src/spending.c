#include "spending.h"

#include <stdatomic.h>
#include <stdbool.h>

#include "slice.h"
#include "turns.h"
#include "turns_page.h"

#define WINDOW_NS (100 * TURN_MS)

static uint32_t cores_of(unsigned card)
{
    uint32_t cores = atomic_load_explicit(&slice()->limits->cards[card].cores, memory_order_relaxed);
    return cores >= 1 && cores <= 100 ? cores : 100;
}

void spending_charge(unsigned card, uint64_t used_ns, uint64_t now)
{
    struct hami_turns_card *ours = &turns_page()->cards[card];
    uint32_t cores = cores_of(card);
    atomic_fetch_add_explicit(&ours->spent_ns, used_ns, memory_order_relaxed);
    atomic_fetch_add_explicit(&ours->virtual_ns, turn_per_share(used_ns, cores), memory_order_relaxed);
    atomic_store_explicit(&ours->active_ns, now, memory_order_relaxed);
    uint64_t earned = atomic_load_explicit(&ours->earned_ns, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&ours->earned_ns, &earned, turn_earn(earned, used_ns, cores, now),
                                                  memory_order_relaxed, memory_order_relaxed))
        ;
    atomic_fetch_add_explicit(&slice()->usage->cards[card].used_ns, used_ns, memory_order_relaxed);
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
