#include "refusal.h"

#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "process.h"

static void insert_holder(struct hami_holder *holders, struct hami_holder holder)
{
    for (unsigned i = 0; i < HAMI_MAX_HOLDERS; i++) {
        if (holder.bytes <= holders[i].bytes)
            continue;
        struct hami_holder smaller = holders[i];
        holders[i] = holder;
        holder = smaller;
    }
}

static void largest_holders(const struct hami_usage *usage, unsigned card, struct hami_holder *holders)
{
    unsigned high = ledger_high(usage);
    for (unsigned i = 0; i < high; i++) {
        struct hami_process *process = (struct hami_process *)&usage->processes[i];
        uint64_t owner = atomic_load(&process->owner);
        if (!owner)
            continue;
        uint64_t bytes = atomic_load(&process->held[card]) + atomic_load(&process->overhead[card]);
        insert_holder(holders, (struct hami_holder){.pid = process_pid(owner), .bytes = bytes});
    }
}

void refusal_record(const struct ledger *ledger, const struct refusal *refusal)
{
    struct hami_usage *usage = ledger->usage;
    atomic_fetch_add(&usage->cards[refusal->card].refusals, 1);
    struct hami_holder holders[HAMI_MAX_HOLDERS] = {{0}};
    largest_holders(usage, refusal->card, holders);
    uint64_t now = clock_ns(CLOCK_REALTIME), number = atomic_fetch_add(&usage->refusal_count, 1);
    struct hami_refusal *record = &usage->refusals[number % HAMI_MAX_REFUSALS];
    atomic_store(&record->ticket, 0);
    atomic_thread_fence(memory_order_release);
    record->time_ns = now;
    record->asked = refusal->asked;
    record->used = refusal->used;
    record->limit = refusal->limit;
    record->card = refusal->card;
    record->pid = process_pid(ledger->owner);
    memset(record->call, 0, sizeof record->call);
    snprintf(record->call, sizeof record->call, "%s", refusal->call);
    memcpy(record->holders, holders, sizeof holders);
    atomic_store(&record->ticket, number + 1);
}
