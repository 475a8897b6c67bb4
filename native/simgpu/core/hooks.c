#define _GNU_SOURCE
#include "../hamisim.h"
#include "state.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool is_card(unsigned card)
{
    return sim_open() == SIM_OK && card < sim_state()->card_count;
}

uint64_t hamisim_clock(void)
{
    return sim_open() == SIM_OK ? sim_now() : 0;
}

int hamisim_advance(uint64_t ns)
{
    if (sim_open() != SIM_OK || !sim_state()->manual_clock)
        return -1;
    sim_state()->clock += ns;
    return 0;
}

uint64_t hamisim_busy(unsigned card)
{
    if (!is_card(card))
        return 0;
    sim_lock();
    sim_reap();
    sim_bring_up(card);
    uint64_t busy = sim_state()->cards[card].engine.busy;
    sim_unlock();
    return busy;
}

uint64_t hamisim_busy_for(unsigned card, int pid)
{
    if (!is_card(card))
        return 0;
    uint64_t done = 0;
    sim_lock();
    sim_bring_up(card);
    for (uint32_t i = 0; i < sim_state()->process_high; i++)
        if (sim_process_pid((int)i) == (pid ? pid : getpid()))
            done += sim_state()->processes[i].work[card].done;
    sim_unlock();
    return done;
}

int hamisim_raise_xid(unsigned card, uint64_t xid)
{
    if (!is_card(card))
        return -1;
    struct sim_card *c = &sim_state()->cards[card];
    sim_lock();
    c->xids[c->xid_count % SIM_MAX_XIDS] = (struct sim_xid){xid, sim_now()};
    c->xid_count++;
    sim_state()->event_count++;
    sim_unlock();
    syscall(SYS_futex, &sim_state()->event_count, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    return 0;
}

int hamisim_lose_card(unsigned card, int lost)
{
    if (!is_card(card))
        return -1;
    sim_lock();
    sim_state()->cards[card].lost = lost != 0;
    sim_unlock();
    return lost ? hamisim_raise_xid(card, 79) : 0;
}

_Atomic uint64_t sim_lists;

uint64_t hamisim_lists(void)
{
    return sim_lists;
}

uint64_t hamisim_peak(unsigned card)
{
    if (!is_card(card))
        return 0;
    sim_lock();
    uint64_t peak = sim_state()->cards[card].peak;
    sim_unlock();
    return peak;
}

uint64_t hamisim_held(unsigned card, int pid)
{
    if (!is_card(card))
        return 0;
    uint64_t held = 0;
    sim_lock();
    for (uint32_t i = 0; i < sim_state()->process_high; i++)
        if (sim_process_pid((int)i) == (pid ? pid : getpid()))
            held += sim_state()->processes[i].held[card][SIM_SHOWN] + sim_state()->processes[i].held[card][SIM_HIDDEN];
    sim_unlock();
    return held;
}

int hamisim_take(unsigned card, int64_t bytes)
{
    if (!is_card(card) || sim_self() < 0)
        return -1;
    bool done = true;
    sim_lock();
    if (bytes < 0)
        sim_give(card, (uint64_t)-bytes, SIM_SHOWN);
    else
        done = sim_take(card, (uint64_t)bytes, SIM_SHOWN);
    sim_unlock();
    return done ? 0 : -1;
}

uint64_t hamisim_used(unsigned card)
{
    if (!is_card(card))
        return 0;
    sim_lock();
    sim_reap();
    uint64_t used = sim_state()->cards[card].used;
    sim_unlock();
    return used;
}
