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

// All bytes that are taken on the card, by whomever; managed memory too.
uint64_t hamisim_used(unsigned card);

// How often this process has asked this library for the list of processes on a card.
uint64_t hamisim_lists(void);

// The most that was ever taken on it.
uint64_t hamisim_peak(unsigned card);

#endif
