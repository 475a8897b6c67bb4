#include "ledger.h"

#include <sched.h>
#include <string.h>

#include "arithmetic.h"
#include "life.h"
#include "process.h"

// A build for the tests stops, or dies, at each of these.
#ifdef HAMI_LEDGER_STEPS
extern void ledger_step(const char *where);
#define STEP(where) ledger_step(where)
#else
#define STEP(where) ((void)0)
#endif

#define RACES 16 // how often two that blocked each other try again

static uint64_t add_saturating(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

unsigned ledger_high(const struct hami_usage *usage)
{
    uint32_t high = atomic_load(&((struct hami_usage *)usage)->process_high);
    return high > HAMI_MAX_PROCESSES ? HAMI_MAX_PROCESSES : high;
}

uint64_t ledger_used(const struct hami_usage *usage, unsigned card)
{
    uint64_t sum = 0;
    // read after our own addition: whoever raises it later also adds later, and sees ours
    unsigned high = ledger_high(usage);
    for (unsigned i = 0; i < high; i++) {
        struct hami_process *process = (struct hami_process *)&usage->processes[i];
        sum = add_saturating(sum, atomic_load(&process->held[card]));
        sum = add_saturating(sum, atomic_load(&process->overhead[card]));
    }
    return sum;
}

void ledger_begin_move(struct ledger *ledger, uint64_t bytes)
{
    atomic_fetch_add(&ledger->self->moving, bytes);
}

void ledger_end_move(struct ledger *ledger, uint64_t bytes)
{
    atomic_fetch_sub(&ledger->self->moving, bytes);
}

uint64_t ledger_moving(const struct hami_usage *usage)
{
    uint64_t sum = 0;
    unsigned high = ledger_high(usage);
    for (unsigned i = 0; i < high; i++)
        sum = add_saturating(sum, atomic_load(&((struct hami_usage *)usage)->processes[i].moving));
    return sum;
}

static void note_peak(struct hami_usage *usage, unsigned card, uint64_t sum)
{
    uint64_t peak = atomic_load_explicit(&usage->cards[card].peak, memory_order_relaxed);
    while (sum > peak && !atomic_compare_exchange_weak(&usage->cards[card].peak, &peak, sum))
        ;
}

// Add, and take it back if that was too much.  True: it stays, and is noted as a peak if it is one already.
static bool attempt(struct ledger *ledger, unsigned card, uint64_t bytes, uint64_t limit, bool peaks)
{
    ledger_begin_move(ledger, bytes);
    STEP("reserve: before add");
    atomic_fetch_add(&ledger->self->held[card], bytes);
    STEP("reserve: added");
    uint64_t sum = ledger_used(ledger->usage, card);
    bool passed = sum <= limit;
    if (!passed)
        atomic_fetch_sub(&ledger->self->held[card], bytes);
    else if (peaks)
        note_peak(ledger->usage, card, sum);
    STEP(passed ? "reserve: passed" : "reserve: retreated");
    ledger_end_move(ledger, bytes);
    return passed;
}

bool ledger_reserve(struct ledger *ledger, unsigned card, uint64_t bytes, uint64_t limit, uint64_t *used)
{
    uint64_t without = 0;
    for (int race = 0; race < RACES; race++) {
        // look before adding: one who asks for far too much must not make others fail
        without = ledger_used(ledger->usage, card);
        if (add_saturating(without, bytes) > limit)
            break;
        if (attempt(ledger, card, bytes, limit, true))
            return true;
        sched_yield();
    }
    if (used)
        *used = without;
    return false;
}

uint64_t ledger_reserve_rest(struct ledger *ledger, unsigned card, uint64_t limit)
{
    uint64_t rest = less(limit, ledger_used(ledger->usage, card));
    return rest && attempt(ledger, card, rest, limit, false) ? rest : 0;
}

void ledger_add(struct ledger *ledger, unsigned card, uint64_t bytes)
{
    atomic_fetch_add(&ledger->self->held[card], bytes);
}

void ledger_note_peak(struct ledger *ledger, unsigned card)
{
    note_peak(ledger->usage, card, ledger_used(ledger->usage, card));
}

void ledger_release(struct ledger *ledger, unsigned card, uint64_t bytes)
{
    STEP("release: before");
    uint64_t held = atomic_load(&ledger->self->held[card]);
    while (!atomic_compare_exchange_weak(&ledger->self->held[card], &held, less(held, bytes)))
        ;
    STEP("release: after");
}

void ledger_set_overhead(struct ledger *ledger, unsigned card, uint64_t bytes)
{
    uint64_t before = atomic_exchange(&ledger->self->overhead[card], bytes);
    if (bytes > before)
        ledger_note_peak(ledger, card);
}

void ledger_settle(struct ledger *ledger, unsigned card, uint64_t reserved, uint64_t overhead)
{
    ledger_begin_move(ledger, reserved);
    uint64_t before = atomic_exchange(&ledger->self->overhead[card], overhead);
    STEP("settle: overhead set");
    ledger_release(ledger, card, reserved);
    ledger_end_move(ledger, reserved);
    if (overhead > before)
        ledger_note_peak(ledger, card);
}

static void empty(struct hami_process *process)
{
    for (unsigned card = 0; card < HAMI_MAX_CARDS; card++) {
        atomic_store(&process->held[card], 0);
        STEP("empty: held");
        atomic_store(&process->overhead[card], 0);
    }
    atomic_store(&process->view, 0);
    atomic_store(&process->imports, 0);
    atomic_store(&process->moving, 0);
}

// The right to clear a slot.  The lock alone would do; the word is for systems without such locks.
static bool take_reaper(struct hami_usage *usage, unsigned slot, uint64_t self)
{
    struct hami_process *process = &usage->processes[slot];
    uint64_t reaper = 0;
    if (!life_start_clearing(slot))
        return false;
    if (atomic_compare_exchange_strong(&process->reaper, &reaper, self))
        return true;
    if (reaper != self && !process_alive(reaper) && atomic_compare_exchange_strong(&process->reaper, &reaper, self))
        return true;
    life_end_clearing(slot);
    return false;
}

static void drop_reaper(struct hami_usage *usage, unsigned slot)
{
    atomic_store(&usage->processes[slot].reaper, 0);
    life_end_clearing(slot);
}

void ledger_raise_overhead(struct hami_usage *usage, unsigned slot, uint64_t owner, uint64_t self, unsigned card,
                           uint64_t bytes)
{
    struct hami_process *process = &usage->processes[slot];
    if (!take_reaper(usage, slot, self))
        return;
    uint64_t now = atomic_load(&process->overhead[card]);
    while (atomic_load(&process->owner) == owner && bytes > now &&
           !atomic_compare_exchange_weak(&process->overhead[card], &now, bytes))
        ;
    STEP("raise: raised");
    drop_reaper(usage, slot);
}

static bool reap_slot(struct hami_usage *usage, unsigned slot, uint64_t self)
{
    struct hami_process *process = &usage->processes[slot];
    uint64_t owner = atomic_load(&process->owner);
    if (owner == 0 || owner == self || life_of_owner(usage, slot))
        return false;
    STEP("reap: seen dead");
    if (!take_reaper(usage, slot, self))
        return false;
    STEP("reap: reaper taken");
    // a later owner has another word; the same word on a living process is one that came back from exec
    bool same = atomic_load(&process->owner) == owner && !life_of_owner(usage, slot);
    if (same) {
        empty(process);
        STEP("reap: emptied");
        atomic_compare_exchange_strong(&process->owner, &owner, 0);
        STEP("reap: freed");
    }
    drop_reaper(usage, slot);
    STEP("reap: done");
    return same;
}

unsigned ledger_reap(struct hami_usage *usage, uint64_t reaper)
{
    unsigned cleared = 0;
    unsigned high = ledger_high(usage);
    for (unsigned i = 0; i < high; i++)
        cleared += reap_slot(usage, i, reaper);
    return cleared;
}

static void raise_high(struct hami_usage *usage, uint32_t high)
{
    uint32_t now = atomic_load(&usage->process_high);
    while (now < high && !atomic_compare_exchange_weak(&usage->process_high, &now, high))
        ;
}

// One that another process is clearing is left to it: seen from another PID namespace our old image is dead.
static struct hami_process *own_slot_before_exec(const struct ledger *ledger)
{
    unsigned high = ledger_high(ledger->usage);
    for (unsigned i = 0; i < high; i++) {
        struct hami_process *process = &ledger->usage->processes[i];
        if (atomic_load(&process->owner) != ledger->owner || !take_reaper(ledger->usage, i, ledger->owner))
            continue;
        bool ours = atomic_load(&process->owner) == ledger->owner && life_hold(i);
        if (ours)
            empty(process);
        drop_reaper(ledger->usage, i);
        if (ours)
            return process;
    }
    return NULL;
}

static struct hami_process *claim_free_slot(const struct ledger *ledger)
{
    for (uint32_t i = 0; i < HAMI_MAX_PROCESSES; i++) {
        struct hami_process *process = &ledger->usage->processes[i];
        uint64_t nobody = 0;
        if (atomic_load(&process->owner) != 0 || !life_hold(i))
            continue;
        // before the claim: a slot in use is never above the mark, whenever we die
        raise_high(ledger->usage, i + 1);
        STEP("join: mark raised");
        if (atomic_compare_exchange_strong(&process->owner, &nobody, ledger->owner)) {
            STEP("join: claimed");
            return process;
        }
        life_let_go(i);
    }
    return NULL;
}

// Left by our own image of before exec, if it was reaping at that moment.
static void drop_own_reaper_words(const struct ledger *ledger)
{
    unsigned high = ledger_high(ledger->usage);
    for (unsigned i = 0; i < high; i++) {
        uint64_t own = ledger->owner;
        atomic_compare_exchange_strong(&ledger->usage->processes[i].reaper, &own, 0);
    }
}

bool ledger_join(struct ledger *ledger, const char *comm)
{
    drop_own_reaper_words(ledger);
    struct hami_process *slot = own_slot_before_exec(ledger);
    if (!slot)
        slot = claim_free_slot(ledger);
    if (!slot && ledger_reap(ledger->usage, ledger->owner))
        slot = claim_free_slot(ledger);
    if (!slot)
        return false;
    atomic_store(&slot->view, life_view());
    memset(slot->comm, 0, sizeof slot->comm);
    memcpy(slot->comm, comm, strnlen(comm, sizeof slot->comm - 1));
    ledger->self = slot;
    STEP("join: done");
    return true;
}
