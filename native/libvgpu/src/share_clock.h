// The core share's time and sleep: a seam, so that tests can put simulated time there.
#ifndef SHARE_CLOCK_H
#define SHARE_CLOCK_H

#include <stdint.h>

// CLOCK_MONOTONIC in ns: the same for all slices of a machine.
uint64_t share_now(void);

// Come back at that time, not much later.  The last few microseconds are spun: a thread that sleeps wakes late.
void share_sleep_until(uint64_t when);

#endif
