// What a kernel, graph or copy takes of the card, learned from the last times. An estimate: it decides when to look,
// and what to charge only where nothing better is known (meter.c).
// Owns: a table by (function, size), changed without a lock: an estimate that two threads improve at once is still one.
#ifndef COSTS_H
#define COSTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct cost {
    _Atomic uint64_t key;
    _Atomic uint32_t ns;    // 0: not known yet
    _Atomic uint16_t times; // that it was measured
    _Atomic uint16_t waits; // occasions until it is measured again
};

// Never NULL: when the table is full, things share an entry.
struct cost *costs_of(const void *what, uint64_t size);

static inline uint32_t costs_ns(const struct cost *cost)
{
    return atomic_load_explicit(&cost->ns, memory_order_relaxed);
}

// What it took, by the card's own clock.
void costs_measure(struct cost *cost, uint64_t ns);

// What it took, by ours: as long as nothing better is known.
void costs_guess(struct cost *cost, uint64_t ns);

// On an occasion to measure it alone: whether to.
bool costs_due(struct cost *cost);

#endif
