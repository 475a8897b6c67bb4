#include "importers.h"

#include <stdatomic.h>
#include <time.h>

#include "arithmetic.h"
#include "footprint.h"
#include "life.h"
#include "member.h"
#include "process.h"
#include "slice.h"

#define SAMPLES  5
#define PAUSE_NS 200000

void importers_note(void)
{
    struct ledger *ledger = member_ledger();
    if (ledger)
        atomic_store(&ledger->self->imports, 1);
}

// What the driver shows of a member beyond its ledger, 0: nothing.
static uint64_t excess(struct hami_process *process, uint64_t owner, unsigned card)
{
    uint64_t figure, before = atomic_load(&process->held[card]);
    if (!footprint_figure_of((int)card, process_pid(owner), &figure))
        return 0;
    uint64_t after = atomic_load(&process->held[card]), held = most(before, after);
    return less(figure, held);
}

// One sample may fall between an allocation and its free, and the member may never look again itself: what was left to it is
// there in all samples.
static void look_at(unsigned slot, uint64_t owner, uint64_t self, unsigned card)
{
    struct hami_process *process = &slice()->usage->processes[slot];
    uint64_t lowest = UINT64_MAX;
    for (int i = 0; i < SAMPLES; i++) {
        if (i)
            nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
        lowest = least(excess(process, owner, card), lowest);
        if (lowest <= atomic_load(&process->overhead[card]))
            return;
    }
    ledger_raise_overhead(slice()->usage, slot, owner, self, card, lowest);
}

void importers_look(uint64_t self)
{
    struct hami_usage *usage = slice()->usage;
    unsigned high = ledger_high(usage);
    for (unsigned i = 0; i < high; i++) {
        struct hami_process *process = &usage->processes[i];
        if (!atomic_load_explicit(&process->imports, memory_order_relaxed))
            continue;
        uint64_t owner = atomic_load(&process->owner);
        // by its PID, so only where that counts as ours does
        if (!owner || owner == self || atomic_load(&process->view) != life_view() || !process_alive(owner))
            continue;
        for (uint32_t card = 0; card < slice()->limits->card_count && card < HAMI_MAX_CARDS; card++)
            if (!slice_whole(card))
                look_at(i, owner, self, card);
    }
}
