// What a kernel, graph or copy takes of the card, learned from the last times.  An estimate: it decides when to look, and what
// to charge only where the end of the work wasn't seen.
// Owns: a table by (function, size), changed without a lock: an estimate that two threads improve at once is still one.
#ifndef COSTS_H
#define COSTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct cost {
    _Atomic uint64_t key;
    _Atomic uint32_t ns;       // 0: not known yet
    _Atomic uint16_t measured; // times that timing.c has measured it
    _Atomic uint16_t waits;    // launches until it is measured again
};

// Never NULL: when the table is full, things share an entry.
struct cost *costs_of(const void *what, uint64_t size);

static inline uint32_t costs_ns(const struct cost *cost)
{
    return atomic_load_explicit(&cost->ns, memory_order_relaxed);
}

// From what a segment took, as long as nothing better is known.
void costs_learn(struct cost *cost, uint64_t ns);

// From the card's own clock.
void costs_measure(struct cost *cost, uint64_t ns);

// Whether this launch is to be measured.
static inline bool costs_due(struct cost *cost)
{
    uint16_t waits = atomic_load_explicit(&cost->waits, memory_order_relaxed);
    if (__builtin_expect(waits != 0, 1)) {
        atomic_store_explicit(&cost->waits, (uint16_t)(waits - 1), memory_order_relaxed);
        return false;
    }
    return true;
}

#endif
