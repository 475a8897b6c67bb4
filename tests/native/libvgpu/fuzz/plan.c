#include "plan.h"

#define MIB (UINT64_C(1) << 20)

static const struct {
    const char *name;
    unsigned weight;
} operations[OPERATION_COUNT] = {
#define X(name, weight) {#name, weight},
    OPERATIONS(X)
#undef X
};

// splitmix64
uint64_t plan_mix(uint64_t a, uint64_t b)
{
    uint64_t z = a * UINT64_C(0xd1342543de82ef95) + (b + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

const char *plan_name(enum operation operation)
{
    return operations[operation].name;
}

static enum operation choose(uint64_t random)
{
    unsigned total = 0;
    for (unsigned i = 0; i < OPERATION_COUNT; i++)
        total += operations[i].weight;
    unsigned at = (unsigned)(random % total);
    for (unsigned i = 0;; i++) {
        if (at < operations[i].weight)
            return (enum operation)i;
        at -= operations[i].weight;
    }
}

// Around the edges of what the driver rounds to as often as anywhere else.
static uint64_t size_for(enum operation operation, uint64_t random)
{
    uint64_t blocks = 1 + (random >> 8) % 24;
    switch (operation) {
    case OP_SMALL:
        return random % 4 == 0 ? MIB - (random >> 40) % 2 : 1 + (random >> 8) % MIB;
    case OP_PHYSICAL:
        return blocks * 2 * MIB;
    case OP_MODULE:
    case OP_LIBRARY:
        return blocks * 2 * MIB;
    default:
        return random % 2 ? blocks * 2 * MIB + (random >> 40) % 3 - 1 : MIB + 1 + (random >> 8) % (40 * MIB);
    }
}

struct step plan_step(uint64_t seed, unsigned worker, uint64_t number)
{
    uint64_t base = plan_mix(plan_mix(seed, worker), number);
    struct step step = {.operation = choose(base), .random = plan_mix(base, 3)};
    step.slot = (unsigned)(plan_mix(base, 1) % SLOTS);
    step.bytes = size_for(step.operation, plan_mix(base, 2));
    return step;
}
