#include "doubt.h"

#include <time.h>

#include "arithmetic.h"
#include "clock.h"
#include "ledger.h"
#include "member.h"
#include "slice.h"

#define PAUSE_NS   200000
#define LONGEST_NS UINT64_C(2000000000)

// Without what is on the move there is no room either.
static bool is_certain(int card, uint64_t bytes)
{
    const struct hami_usage *usage = slice()->usage;
    uint64_t before = ledger_moving(usage);
    uint64_t used = ledger_used(usage, (unsigned)card);
    uint64_t after = ledger_moving(usage);
    uint64_t stays = less(used, most(before, after)), limit = slice_vram((unsigned)card);
    return bytes > limit || stays > limit - bytes;
}

bool doubt_remains(struct doubt *doubt, int card, uint64_t bytes)
{
    bool certain = is_certain(card, bytes);
    uint64_t now = clock_ns(CLOCK_MONOTONIC);
    if (!doubt->end_ns)
        doubt->end_ns = now + LONGEST_NS;
    if ((certain && doubt->was_certain) || now > doubt->end_ns)
        return false;
    doubt->was_certain = certain;
    nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    // whoever was killed at it counts no more
    member_reap(false);
    return true;
}
