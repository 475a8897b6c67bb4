#include "context_cost.h"

#include <stdatomic.h>
#include <time.h>

#include "cards.h"
#include "life.h"
#include "member.h"
#include "slice.h"

#define WAIT_NS   UINT64_C(1000000)
#define LONGEST_S 60 // 64 processes that start at once keep a card busy for 20 s

static atomic_bool learning[HAMI_MAX_CARDS]; // by a thread of this process: the lock is the process's

static _Atomic uint64_t *learnt(int card)
{
    return &slice()->usage->cards[card].context_bytes;
}

static time_t now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return now.tv_sec;
}

static bool start_learning(int card)
{
    if (atomic_exchange(&learning[card], true))
        return false;
    if (life_start_learning((unsigned)card))
        return true;
    atomic_store(&learning[card], false);
    return false;
}

static void end_learning(int card)
{
    life_end_learning((unsigned)card);
    atomic_store(&learning[card], false);
}

// For the first context reserve the rest.  False: it isn't for us to make, or nothing is left for now.
static bool become_first(struct context_cost *cost, int card, const char *call)
{
    if (!start_learning(card))
        return false;
    if (atomic_load(learnt(card)) == 0 && charge_rest(&cost->charge, card, call)) {
        cost->first = atomic_load(learnt(card)) == 0;
        if (cost->first)
            return true;
        // somebody learnt it beside us: there are no locks here
        charge_finish(&cost->charge, CUDA_ERROR_UNKNOWN);
    }
    end_learning(card);
    return false;
}

// Until the cost is known, or it is for us to find out.  False: somebody takes very long over it.
static bool wait_for_turn(struct context_cost *cost, int card, const char *call)
{
    time_t end = now_s() + (slice_vram((unsigned)card) ? LONGEST_S : -1);
    while (atomic_load(learnt(card)) == 0) {
        if (become_first(cost, card, call))
            return true;
        if (now_s() > end)
            return false;
        member_reap(false);
        nanosleep(&(struct timespec){.tv_nsec = WAIT_NS}, NULL);
    }
    return true;
}

CUresult context_cost_reserve(struct context_cost *cost, int card, const char *call)
{
    *cost = (struct context_cost){.charge = {.card = CARD_NONE}, .measure = {.card = CARD_NONE}};
    if (card < 0)
        return card == CARD_FOREIGN ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
    if (!member_ledger())
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (!wait_for_turn(cost, card, call))
        return charge_refuse(card, 0, call);
    if (cost->first) {
        footprint_before(&cost->measure, card);
        return CUDA_SUCCESS;
    }
    return charge_exactly(&cost->charge, card, atomic_load(learnt(card)), call);
}

uint64_t context_cost_settle(struct context_cost *cost, bool made)
{
    int card = cost->charge.card;
    uint64_t bytes = cost->charge.taken;
    if (card < 0)
        return 0;
    if (!made) {
        charge_finish(&cost->charge, CUDA_ERROR_UNKNOWN);
        if (cost->first)
            end_learning(card);
        return 0;
    }
    if (cost->first) {
        bytes = footprint_learn_context(&cost->measure, bytes);
        atomic_store(learnt(card), bytes);
        end_learning(card);
    } else {
        footprint_take_over(card, bytes);
    }
    charge_finish(&cost->charge, CUDA_SUCCESS);
    // where the figure is at hand, it corrects what was learnt from another context
    if (!cost->first && footprint_is_exact(card))
        footprint_refresh(card);
    return bytes;
}

void context_cost_after_fork(void)
{
    for (int card = 0; card < HAMI_MAX_CARDS; card++)
        atomic_store(&learning[card], false);
}
