#include "charge.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cards.h"
#include "doubt.h"
#include "driver.h"
#include "footprint.h"
#include "graph.h"
#include "member.h"
#include "pool.h"
#include "refusal.h"
#include "say.h"
#include "slice.h"
#include "small.h"

#define UNIT UINT64_C(512) // of an array that is smaller than a block

static uint64_t round_up(uint64_t bytes, uint64_t unit)
{
    uint64_t sum;
    return __builtin_add_overflow(bytes, unit - 1, &sum) ? UINT64_MAX : sum / unit * unit;
}

uint64_t charge_round(uint64_t bytes)
{
    return round_up(bytes, SMALL_BLOCK);
}

// ---- making room ------------------------------------------------------------------------------------------------

// Our own operation is under way, and has taken nothing yet: it must not make the look inexact.
static void look_again(int card)
{
    footprint_leave(card);
    footprint_refresh(card);
    footprint_enter(card);
}

// Before a refusal: bring every estimate up to date, then give back what the process only caches.
static bool reserve(struct ledger *ledger, int card, uint64_t bytes)
{
    uint64_t limit = slice_vram((unsigned)card);
    if (ledger_reserve(ledger, (unsigned)card, bytes, limit, NULL))
        return true;
    pool_refresh(card);
    graph_refresh(card);
    member_reap(true);
    look_again(card);
    if (ledger_reserve(ledger, (unsigned)card, bytes, limit, NULL))
        return true;
    if (bytes > limit)
        return false;
    pool_trim(card);
    graph_trim(card);
    look_again(card);
    struct doubt doubt = {0};
    do {
        if (ledger_reserve(ledger, (unsigned)card, bytes, slice_vram((unsigned)card), NULL))
            return true;
    } while (doubt_remains(&doubt, card, bytes));
    return false;
}

static void release(struct ledger *ledger, int card, uint64_t bytes, uint8_t flags)
{
    ledger_release(ledger, (unsigned)card, bytes);
    if (flags & OBJECT_MANAGED)
        footprint_hide(card, -(int64_t)bytes);
}

// ---- refusing ---------------------------------------------------------------------------------------------------

// ACTIVE_OOM_KILLER: what this process took unforeseen is too much and is still there, so the process itself has to go.
static void end_if_exceeding(int card)
{
    bool kills = slice()->limits->cards[card].flags & HAMI_CARD_OOM_KILLER;
    if (!kills || !footprint_exceeded(card) || !charge_over_limit(card) || !footprint_exceeded(card))
        return;
    uint64_t used = ledger_used(slice()->usage, (unsigned)card), limit = slice_vram((unsigned)card);
    say_once("hami: This process is ended, because it took its slice to %llu MiB of VRAM and %llu MiB were granted. "
             "Ask for a larger slice, or load less.",
             (unsigned long long)(used >> 20), (unsigned long long)(limit >> 20));
    kill(getpid(), SIGKILL);
    // the first process of a PID namespace is spared by its own signals
    syscall(SYS_exit_group, 128 + SIGKILL);
}

CUresult charge_refuse(int card, uint64_t asked, const char *call)
{
    struct ledger *ledger = card >= 0 ? member_ledger() : NULL;
    if (ledger) {
        struct refusal refusal = {.card = (unsigned)card,
                                  .asked = asked,
                                  .used = ledger_used(ledger->usage, (unsigned)card),
                                  .limit = slice_vram((unsigned)card),
                                  .call = call};
        refusal_record(ledger, &refusal);
        end_if_exceeding(card);
    }
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult charge_undone(int card, uint64_t asked, const char *call)
{
    struct ledger *ledger = card >= 0 ? member_ledger() : NULL;
    if (ledger)
        atomic_fetch_add(&ledger->usage->cards[card].overshoots, 1);
    return charge_refuse(card, asked, call);
}

static bool stays_over(const struct ledger *ledger, int card)
{
    struct doubt doubt = {0};
    do {
        if (ledger_used(ledger->usage, (unsigned)card) <= slice_vram((unsigned)card))
            return false;
    } while (doubt_remains(&doubt, card, 0));
    return true;
}

bool charge_over_limit(int card)
{
    struct ledger *ledger = card >= 0 ? member_ledger() : NULL;
    if (!ledger || ledger_used(ledger->usage, (unsigned)card) <= slice_vram((unsigned)card))
        return false;
    pool_refresh(card);
    graph_refresh(card);
    member_reap(true);
    if (ledger_used(ledger->usage, (unsigned)card) > slice_vram((unsigned)card)) {
        pool_trim(card);
        graph_trim(card);
        footprint_refresh(card);
    }
    return stays_over(ledger, card);
}

// ---- one allocation -----------------------------------------------------------------------------------------------

// Reserve on a card that is accounted.
static bool begin(struct charge *charge, struct ledger *ledger, int card, uint64_t taken)
{
    footprint_refresh_sometimes(card);
    footprint_enter(card);
    // a small allocation may still fit into a block that the slice has: settled when its address is known
    bool fits = reserve(ledger, card, taken);
    if (!fits && !((charge->flags & OBJECT_SMALL) && small_any(card))) {
        footprint_leave(card);
        return false;
    }
    charge->card = card;
    charge->taken = fits ? taken : 0;
    if (charge->flags & OBJECT_SMALL)
        charge_mark_estimate(charge);
    return true;
}

// What must be known of a card before anything is reserved there.  True: go on with `ledger`.
static bool may_charge(const struct charge *charge, int card, struct ledger **ledger, CUresult *answer)
{
    *answer = CUDA_SUCCESS;
    switch (cuda_enter()) {
    case DRIVER_ACTIVE:
        break;
    case DRIVER_REFUSE:
        *answer = CUDA_ERROR_NOT_PERMITTED;
        return false;
    default:
        return false;
    }
    if (card == CARD_NONE || charge->bytes == 0)
        return false;
    *ledger = card >= 0 ? member_ledger() : NULL;
    if (!*ledger)
        *answer = CUDA_ERROR_OUT_OF_MEMORY;
    return *ledger != NULL;
}

static CUresult charge_amount(struct charge *charge, int card, uint64_t taken)
{
    struct ledger *ledger;
    CUresult answer;
    if (!may_charge(charge, card, &ledger, &answer))
        return answer;
    return begin(charge, ledger, card, taken) ? CUDA_SUCCESS : charge_refuse(card, charge->bytes, charge->call);
}

static int current_card(void)
{
    return cuda_enter() == DRIVER_ACTIVE ? cards_current() : CARD_NONE;
}

CUresult charge_linear(struct charge *charge, uint64_t bytes, const char *call)
{
    *charge = (struct charge){.card = CARD_NONE, .bytes = bytes, .call = call};
    charge->flags = bytes <= SMALL_LIMIT ? OBJECT_SMALL : 0;
    return charge_amount(charge, current_card(), charge_round(bytes));
}

CUresult charge_array(struct charge *charge, uint64_t bytes, const char *call)
{
    *charge = (struct charge){.card = CARD_NONE, .bytes = bytes, .call = call};
    return charge_amount(charge, current_card(), bytes <= SMALL_LIMIT ? round_up(bytes, UNIT) : charge_round(bytes));
}

CUresult charge_card(struct charge *charge, int card, uint64_t bytes, const char *call)
{
    *charge = (struct charge){.card = CARD_NONE, .bytes = bytes, .call = call};
    return charge_amount(charge, card, charge_round(bytes));
}

bool charge_try(struct charge *charge, int card, uint64_t bytes, const char *call)
{
    *charge = (struct charge){.card = CARD_NONE, .bytes = bytes, .call = call};
    if (card == CARD_NONE || bytes == 0)
        return true;
    struct ledger *ledger = card >= 0 ? member_ledger() : NULL;
    return ledger && begin(charge, ledger, card, charge_round(bytes));
}

CUresult charge_exactly(struct charge *charge, int card, uint64_t bytes, const char *call)
{
    *charge = (struct charge){.card = CARD_NONE, .bytes = bytes, .call = call};
    struct ledger *ledger = member_ledger();
    if (!ledger)
        return CUDA_ERROR_OUT_OF_MEMORY;
    return begin(charge, ledger, card, bytes) ? CUDA_SUCCESS : charge_refuse(card, bytes, call);
}

bool charge_rest(struct charge *charge, int card, const char *call)
{
    *charge = (struct charge){.card = CARD_NONE, .call = call};
    struct ledger *ledger = member_ledger();
    if (!ledger)
        return false;
    footprint_enter(card);
    charge->taken = ledger_reserve_rest(ledger, (unsigned)card, slice_vram((unsigned)card));
    if (!charge->taken) {
        footprint_leave(card);
        return false;
    }
    charge->card = card;
    charge_mark_estimate(charge);
    return true;
}

void charge_mark_estimate(struct charge *charge)
{
    if (charge->card < 0 || !charge->taken)
        return;
    charge->estimated = charge->taken;
    ledger_begin_move(member_ledger(), charge->estimated);
}

void charge_mark_managed(struct charge *charge)
{
    if (charge->card < 0)
        return;
    charge->flags |= OBJECT_MANAGED;
    footprint_hide(charge->card, (int64_t)charge->taken);
}

static void end_estimate(struct charge *charge)
{
    if (charge->estimated)
        ledger_end_move(member_ledger(), charge->estimated);
    charge->estimated = 0;
}

bool charge_correct(struct charge *charge, uint64_t bytes)
{
    struct ledger *ledger = charge->card >= 0 ? member_ledger() : NULL;
    bool is_small = bytes <= SMALL_LIMIT;
    if (!ledger || (is_small && (charge->flags & OBJECT_SMALL)))
        return true;
    uint64_t taken = charge_round(bytes);
    if (taken > charge->taken)
        ledger_add(ledger, (unsigned)charge->card, taken - charge->taken);
    else
        ledger_release(ledger, (unsigned)charge->card, charge->taken - taken);
    charge->taken = taken;
    charge->flags = (uint8_t)((charge->flags & ~OBJECT_SMALL) | (is_small ? OBJECT_SMALL : 0));
    end_estimate(charge);
    return !stays_over(ledger, charge->card);
}

CUresult charge_finish(struct charge *charge, CUresult result)
{
    if (charge->card < 0)
        return result;
    struct ledger *ledger = member_ledger();
    if (result != CUDA_SUCCESS) {
        release(ledger, charge->card, charge->taken, charge->flags);
        ledger_note_peak(ledger, (unsigned)charge->card);
    }
    end_estimate(charge);
    footprint_leave(charge->card);
    return result;
}

CUresult charge_overshot(struct charge *charge)
{
    int card = charge->card;
    charge_finish(charge, CUDA_ERROR_OUT_OF_MEMORY);
    return charge_undone(card, charge->bytes, charge->call);
}

// A block is charged once, however many share it.  False: it is a new one, and there is no room for it.
static bool settle_small(struct charge *charge, uint64_t address)
{
    struct ledger *ledger = member_ledger();
    if (!small_arrived(charge->card, address)) {
        release(ledger, charge->card, charge->taken, charge->flags);
        charge->taken = 0;
        return true;
    }
    if (charge->taken)
        return true;
    if (!reserve(ledger, charge->card, SMALL_BLOCK)) {
        small_left(charge->card, address);
        return false;
    }
    charge->taken = SMALL_BLOCK;
    if (charge->flags & OBJECT_MANAGED)
        footprint_hide(charge->card, SMALL_BLOCK);
    return true;
}

CUresult charge_settle(struct charge *charge, CUresult result, enum object_kind kind, uint64_t handle)
{
    if (charge->card < 0)
        return result;
    if (result == CUDA_SUCCESS) {
        if ((charge->flags & OBJECT_SMALL) && !settle_small(charge, handle)) {
            REAL(cuMemFree_v2)(handle);
            return charge_overshot(charge);
        }
        CUcontext context = NULL;
        REAL(cuCtxGetCurrent)(&context);
        // without host memory for the record the bytes stay charged: never too little
        objects_put(&(struct object){.key = handle,
                                     .kind = (uint8_t)kind,
                                     .flags = charge->flags,
                                     .card = (int16_t)charge->card,
                                     .bytes = charge->flags & OBJECT_SMALL ? SMALL_BLOCK : charge->taken,
                                     .owner = (uint64_t)(uintptr_t)context});
    }
    return charge_finish(charge, result);
}

// ---- freeing -------------------------------------------------------------------------------------------------------

void charge_drop(const struct object *object)
{
    struct ledger *ledger = object->card >= 0 && object->bytes ? member_ledger() : NULL;
    if (ledger && (!(object->flags & OBJECT_SMALL) || small_left(object->card, object->key)))
        release(ledger, object->card, object->bytes, object->flags);
}

void charge_free_begin(const struct object *object)
{
    if (object->card >= 0)
        footprint_enter(object->card);
}

void charge_free_end(const struct object *object, bool freed)
{
    if (freed)
        charge_drop(object);
    else
        objects_put(object);
    if (object->card >= 0)
        footprint_leave(object->card);
}
