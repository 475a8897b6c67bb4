// The slice this process belongs to: found once, mapped once, never guessed.
// Owns: the mappings of `limits` and `usage`.  Neighbours: env_limits.c reads HAMi's variables, ledger.c uses the pages.
#ifndef SLICE_H
#define SLICE_H

#include <stdbool.h>
#include <stdint.h>

#include "file_id.h"
#include "hami_slice.h"

enum slice_state {
    SLICE_UNKNOWN = 0,
    SLICE_NONE,   // no slice: the library does nothing
    SLICE_ACTIVE, // limits and usage are mapped
    SLICE_BROKEN, // a slice that can't be read: CUDA and NVML are refused; say_kept() tells why
};

struct slice {
    const struct hami_limits *limits;
    struct hami_usage *usage;
    char usage_path[512];
    struct file_id usage_file;
    bool from_environment; // the cards' UUIDs are not known before the driver is asked
    char directory[512];   // "" if it came from the environment
};

// Find the slice, the first time; afterwards one atomic load.
enum slice_state slice_state(void);

// Valid when slice_state() is SLICE_ACTIVE.
const struct slice *slice(void);

// Bytes of VRAM granted on a card now: a running slice may be resized.
static inline uint64_t slice_vram(unsigned card)
{
    return __atomic_load_n((const uint64_t *)&slice()->limits->cards[card].vram, __ATOMIC_RELAXED);
}

static inline bool slice_whole(unsigned card)
{
    return slice()->limits->cards[card].flags & HAMI_CARD_WHOLE;
}

// Whether the card's time is shared now, or capped; not asked of a whole card.
static inline bool slice_has_core_share(const struct hami_card_limit *limit)
{
    uint32_t cores = atomic_load_explicit(&limit->cores, memory_order_relaxed);
    return cores >= 1 && cores < 100 && limit->policy != HAMI_POLICY_DISABLE;
}

#endif
