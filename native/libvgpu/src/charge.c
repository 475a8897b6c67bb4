#include "charge.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "cards.h"
#include "driver.h"
#include "footprint.h"
#include "graph.h"
#include "member.h"
#include "pool.h"
#include "refusal.h"
#include "slice.h"

#define MIB         UINT64_C(1048576)
#define BLOCK       (2 * MIB)
#define SMALL_LIMIT MIB // up to here allocations share blocks
#define SMALL_UNIT  UINT64_C(512)

// Small allocations of this process by card: the driver holds whole blocks, so blocks are charged.  The lock is over the
// ledger only, never over the driver's call.
static struct {
    pthread_mutex_t lock;
    uint64_t bytes;
} small[HAMI_MAX_CARDS] = {[0 ... HAMI_MAX_CARDS - 1] = {.lock = PTHREAD_MUTEX_INITIALIZER}};

static uint64_t round_up(uint64_t bytes, uint64_t unit)
{
    uint64_t sum;
    return __builtin_add_overflow(bytes, unit - 1, &sum) ? UINT64_MAX : sum / unit * unit;
}

uint64_t charge_round(uint64_t bytes)
{
    return round_up(bytes, BLOCK);
}

// ---- making room ------------------------------------------------------------------------------------------------

static void pause_shortly(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
}

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
    if (ledger_reserve(ledger, (unsigned)card, bytes, limit, NULL))
        return true;
    // somebody else's attempt, about to be taken back, may have stood in the way
    pause_shortly();
    return ledger_reserve(ledger, (unsigned)card, bytes, limit, NULL);
}

static bool reserve_small(struct ledger *ledger, int card, uint64_t bytes)
{
    pthread_mutex_lock(&small[card].lock);
    uint64_t more = charge_round(small[card].bytes + bytes) - charge_round(small[card].bytes);
    bool fits = more == 0 || reserve(ledger, card, more);
    if (fits)
        small[card].bytes += bytes;
    pthread_mutex_unlock(&small[card].lock);
    return fits;
}

static void release_small(struct ledger *ledger, int card, uint64_t bytes)
{
    pthread_mutex_lock(&small[card].lock);
    uint64_t left = small[card].bytes > bytes ? small[card].bytes - bytes : 0;
    ledger_release(ledger, (unsigned)card, charge_round(small[card].bytes) - charge_round(left));
    small[card].bytes = left;
    pthread_mutex_unlock(&small[card].lock);
}

static void release(struct ledger *ledger, int card, uint64_t bytes, uint8_t flags)
{
    if (flags & OBJECT_SMALL)
        release_small(ledger, card, bytes);
    else
        ledger_release(ledger, (unsigned)card, bytes);
    if (flags & OBJECT_MANAGED)
        footprint_hide(card, -(int64_t)bytes);
}

// ---- refusing ---------------------------------------------------------------------------------------------------

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
    return ledger_used(ledger->usage, (unsigned)card) > slice_vram((unsigned)card);
}

// ---- one allocation -----------------------------------------------------------------------------------------------

// Reserve on a card that is accounted.
static bool begin(struct charge *charge, struct ledger *ledger, int card)
{
    footprint_refresh_sometimes(card);
    bool is_small = charge->bytes <= SMALL_LIMIT;
    uint64_t taken = is_small ? round_up(charge->bytes, SMALL_UNIT) : charge_round(charge->bytes);
    footprint_enter(card);
    if (!(is_small ? reserve_small(ledger, card, taken) : reserve(ledger, card, taken))) {
        footprint_leave(card);
        return false;
    }
    charge->card = card;
    charge->taken = taken;
    charge->flags = is_small ? OBJECT_SMALL : 0;
    return true;
}

CUresult charge_card(struct charge *charge, int card, uint64_t bytes, const char *call)
{
    *charge = (struct charge){.card = CARD_NONE, .bytes = bytes, .call = call};
    switch (cuda_enter()) {
    case DRIVER_ACTIVE:
        break;
    case DRIVER_REFUSE:
        return CUDA_ERROR_NOT_PERMITTED;
    default:
        return CUDA_SUCCESS;
    }
    if (card == CARD_NONE || bytes == 0)
        return CUDA_SUCCESS;
    struct ledger *ledger = card >= 0 ? member_ledger() : NULL;
    if (!ledger)
        return CUDA_ERROR_OUT_OF_MEMORY;
    return begin(charge, ledger, card) ? CUDA_SUCCESS : charge_refuse(card, bytes, call);
}

bool charge_try(struct charge *charge, int card, uint64_t bytes, const char *call)
{
    *charge = (struct charge){.card = CARD_NONE, .bytes = bytes, .call = call};
    if (card == CARD_NONE || bytes == 0)
        return true;
    struct ledger *ledger = card >= 0 ? member_ledger() : NULL;
    return ledger && begin(charge, ledger, card);
}

CUresult charge_exactly(struct charge *charge, int card, uint64_t bytes, const char *call)
{
    *charge = (struct charge){.card = CARD_NONE, .bytes = bytes, .call = call};
    struct ledger *ledger = member_ledger();
    if (!ledger)
        return CUDA_ERROR_OUT_OF_MEMORY;
    footprint_enter(card);
    if (!reserve(ledger, card, bytes)) {
        footprint_leave(card);
        return charge_refuse(card, bytes, call);
    }
    charge->card = card;
    charge->taken = bytes;
    return CUDA_SUCCESS;
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
    return true;
}

CUresult charge_current(struct charge *charge, uint64_t bytes, const char *call)
{
    return charge_card(charge, cuda_enter() == DRIVER_ACTIVE ? cards_current() : CARD_NONE, bytes, call);
}

CUresult charge_device(struct charge *charge, CUdevice device, uint64_t bytes, const char *call)
{
    return charge_card(charge, cuda_enter() == DRIVER_ACTIVE ? cards_accounted(device) : CARD_NONE, bytes, call);
}

void charge_mark_managed(struct charge *charge)
{
    if (charge->card < 0)
        return;
    charge->flags |= OBJECT_MANAGED;
    footprint_hide(charge->card, (int64_t)charge->taken);
}

bool charge_correct(struct charge *charge, uint64_t bytes)
{
    struct ledger *ledger = charge->card >= 0 ? member_ledger() : NULL;
    if (!ledger)
        return true;
    uint64_t limit = slice_vram((unsigned)charge->card);
    bool was_small = charge->flags & OBJECT_SMALL;
    bool is_small = bytes <= SMALL_LIMIT;
    uint64_t taken = is_small ? round_up(bytes, SMALL_UNIT) : charge_round(bytes);
    if (taken == charge->taken && was_small == is_small)
        return true;
    // the new amount before the old one goes: the sum is never below the truth
    if (is_small) {
        if (!reserve_small(ledger, charge->card, taken))
            return false;
    } else if (!was_small && taken > charge->taken) {
        ledger_add(ledger, (unsigned)charge->card, taken - charge->taken);
        charge->taken = taken;
        return ledger_used(ledger->usage, (unsigned)charge->card) <= limit;
    } else {
        ledger_add(ledger, (unsigned)charge->card, taken);
    }
    release(ledger, charge->card, charge->taken, was_small ? OBJECT_SMALL : 0);
    charge->taken = taken;
    charge->flags = (uint8_t)((charge->flags & ~OBJECT_SMALL) | (is_small ? OBJECT_SMALL : 0));
    return ledger_used(ledger->usage, (unsigned)charge->card) <= limit;
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
    footprint_leave(charge->card);
    return result;
}

CUresult charge_overshot(struct charge *charge)
{
    int card = charge->card;
    charge_finish(charge, CUDA_ERROR_OUT_OF_MEMORY);
    return charge_undone(card, charge->bytes, charge->call);
}

CUresult charge_settle(struct charge *charge, CUresult result, enum object_kind kind, uint64_t handle)
{
    if (charge->card < 0)
        return result;
    if (result == CUDA_SUCCESS) {
        CUcontext context = NULL;
        REAL(cuCtxGetCurrent)(&context);
        // without host memory for the record the bytes stay charged: never too little
        objects_put(&(struct object){.key = handle,
                                     .kind = (uint8_t)kind,
                                     .flags = charge->flags,
                                     .card = (int16_t)charge->card,
                                     .bytes = charge->taken,
                                     .owner = (uint64_t)(uintptr_t)context});
    }
    return charge_finish(charge, result);
}

// ---- freeing -------------------------------------------------------------------------------------------------------

void charge_drop(const struct object *object)
{
    struct ledger *ledger = object->card >= 0 && object->bytes ? member_ledger() : NULL;
    if (ledger)
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

void charge_after_fork(void)
{
    for (int card = 0; card < HAMI_MAX_CARDS; card++) {
        pthread_mutex_init(&small[card].lock, NULL);
        small[card].bytes = 0;
    }
}
