// Hooks for tests into the simulated card.  Both libraries export them, outside of the cu and nvml names.
#ifndef HAMISIM_H
#define HAMISIM_H

#include <stdint.h>

// Simulated time in ns: CLOCK_MONOTONIC, or with HAMI_SIM_CLOCK=manual what hamisim_advance() made of it.
uint64_t hamisim_clock(void);
// Move the manual clock on.  0, or -1 if the clock isn't manual.
int hamisim_advance(uint64_t ns);

// Time that the card has worked, ever, and for one living process (0: the caller), in ns.
uint64_t hamisim_busy(unsigned card);
uint64_t hamisim_busy_for(unsigned card, int pid);

// Raise an XID on a card: every NVML event set that watches it gets it.  0, or -1 if there is no such card.
int hamisim_raise_xid(unsigned card, uint64_t xid);

// Let a card fall off the bus, with an XID 79: NVML answers NVML_ERROR_GPU_IS_LOST for it.  `lost` 0: it is back.
int hamisim_lose_card(unsigned card, int lost);

// All bytes that are taken on the card, by whomever; managed memory too.
uint64_t hamisim_used(unsigned card);

// The same for one living process (0: the caller).
uint64_t hamisim_held(unsigned card, int pid);

// Take room on a card for this process, or give it back (negative), as no entry point does: an escape from whoever watches those.
// 0, or -1 if there is no such card, no room, or this process doesn't use the card.
int hamisim_take(unsigned card, int64_t bytes);

// How often this process has asked this library for the list of processes on a card.
uint64_t hamisim_lists(void);

// The most that was ever taken on it.
uint64_t hamisim_peak(unsigned card);

#endif
