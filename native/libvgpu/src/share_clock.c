#include "share_clock.h"

#include <errno.h>
#include <sched.h>
#include <sys/prctl.h>
#include <time.h>

#include "clock.h"

#define SLACK_NS 1000UL  // of the timer, instead of 50 us
#define EARLY_NS 12000UL // what waking takes, about

uint64_t share_now(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

static inline void pause_cpu(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void nap_until(uint64_t when)
{
    struct timespec time = {.tv_sec = (time_t)(when / 1000000000u), .tv_nsec = (long)(when % 1000000000u)};
    int slack = prctl(PR_GET_TIMERSLACK);
    prctl(PR_SET_TIMERSLACK, SLACK_NS);
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
    if (slack > 0)
        prctl(PR_SET_TIMERSLACK, (unsigned long)slack);
}

void share_sleep_until(uint64_t when)
{
    int saved = errno;
    if (when > share_now() + 2 * EARLY_NS)
        nap_until(when - EARLY_NS);
    while (share_now() < when)
        pause_cpu();
    errno = saved;
}
