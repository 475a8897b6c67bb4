#include "costs.h"

#define ENTRIES 4096 // a power of two
#define PROBES  8
#define LEAST   UINT64_C(1000) // a launch takes the card that long; a permit lasts for so many launches at most
#define LONGEST UINT64_C(4000000000)

#define FREQUENT 4
#define SOON     4 // occasions
#define LATER    100

static struct cost table[ENTRIES];

static uint64_t mix(uint64_t x)
{
    x ^= x >> 31;
    x *= UINT64_C(0x9e3779b97f4a7c15);
    return x ^ x >> 29;
}

struct cost *costs_of(const void *what, uint64_t size)
{
    uint64_t key = mix((uint64_t)(uintptr_t)what + mix(size + 1)) | 1;
    uint64_t at = key >> 20;
    for (unsigned i = 0; i < PROBES; i++) {
        struct cost *cost = &table[(at + i) & (ENTRIES - 1)];
        uint64_t found = atomic_load_explicit(&cost->key, memory_order_relaxed);
        if (__builtin_expect(found == key, 1))
            return cost;
        if (!found && (atomic_compare_exchange_strong(&cost->key, &found, key) || found == key))
            return cost;
    }
    return &table[at & (ENTRIES - 1)];
}

static void set(struct cost *cost, uint64_t ns)
{
    ns = ns < LEAST ? LEAST : ns > LONGEST ? LONGEST : ns;
    atomic_store_explicit(&cost->ns, (uint32_t)ns, memory_order_relaxed);
}

void costs_measure(struct cost *cost, uint64_t ns)
{
    unsigned times = atomic_load_explicit(&cost->times, memory_order_relaxed);
    uint64_t known = costs_ns(cost);
    if (times >= 2 && ns > known + known / 2) // somebody else may have had the card in between
        ns = known + known / 2;
    set(cost, times < 2 ? ns : (known * 3 + ns) / 4);
    if (times < UINT16_MAX)
        atomic_store_explicit(&cost->times, (uint16_t)(times + 1), memory_order_relaxed);
}

void costs_guess(struct cost *cost, uint64_t ns)
{
    uint64_t known = costs_ns(cost);
    if (atomic_load_explicit(&cost->times, memory_order_relaxed))
        return;
    if (known) // expecting too much lets the card run dry, too little only makes us look early
        ns = ns < known ? (known + ns) / 2 : (known * 3 + ns) / 4;
    set(cost, ns);
}

bool costs_due(struct cost *cost)
{
    uint16_t waits = atomic_load_explicit(&cost->waits, memory_order_relaxed);
    if (waits == 0) // what is new is looked at more often
        waits = atomic_load_explicit(&cost->times, memory_order_relaxed) < FREQUENT ? SOON + 1 : LATER + 1;
    atomic_store_explicit(&cost->waits, (uint16_t)(waits - 1), memory_order_relaxed);
    return waits == SOON + 1 || waits == LATER + 1;
}
