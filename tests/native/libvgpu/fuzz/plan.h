// What the fuzzer does.  Every step is a pure function of seed, worker and number, so that leaving some out changes no other:
// that is what makes a failing run shrink.
#ifndef FUZZ_PLAN_H
#define FUZZ_PLAN_H

#include <stdint.h>

// Those up to CONTEXT take if their slot is empty and give back if it isn't.
#define OPERATIONS(X)                                                                                                  \
    X(SMALL, 30)                                                                                                       \
    X(BIG, 30)                                                                                                         \
    X(PITCH, 6)                                                                                                        \
    X(MANAGED, 8)                                                                                                      \
    X(ASYNC, 25)                                                                                                       \
    X(FROM_POOL, 14)                                                                                                   \
    X(POOL, 4)                                                                                                         \
    X(PHYSICAL, 16)                                                                                                    \
    X(MAPPING, 16)                                                                                                     \
    X(ARRAY, 6)                                                                                                        \
    X(MIPMAP, 4)                                                                                                       \
    X(MODULE, 4)                                                                                                       \
    X(LIBRARY, 4)                                                                                                      \
    X(GRAPH, 5)                                                                                                        \
    X(IPC, 4)                                                                                                          \
    X(GREEN, 2)                                                                                                        \
    X(CONTEXT, 1)                                                                                                      \
    X(SYNCHRONISE, 12)                                                                                                 \
    X(POOL_TRIM, 4)                                                                                                    \
    X(POOL_THRESHOLD, 4)                                                                                               \
    X(SET_POOL, 3)                                                                                                     \
    X(STACK, 2)                                                                                                        \
    X(HEAP, 1)                                                                                                         \
    X(LAUNCH, 4)                                                                                                       \
    X(GRAPH_LAUNCH, 8)                                                                                                 \
    X(GRAPH_FREE, 6)                                                                                                   \
    X(GRAPH_TRIM, 1)                                                                                                   \
    X(SWITCH, 6)                                                                                                       \
    X(PRIMARY, 1)                                                                                                      \
    X(EXPORT, 3)                                                                                                       \
    X(RETAIN, 3)                                                                                                       \
    X(OFFER, 3)                                                                                                        \
    X(INFO, 6)                                                                                                         \
    X(TOO_MUCH, 3)                                                                                                     \
    X(THREAD, 3)                                                                                                       \
    X(FORK, 1)                                                                                                         \
    X(EXEC, 1)

enum operation {
#define X(name, weight) OP_##name,
    OPERATIONS(X)
#undef X
        OPERATION_COUNT
};

#define SLOTS 16 // of each operation that takes and gives

struct step {
    enum operation operation;
    unsigned slot;
    uint64_t bytes;  // that suit the operation
    uint64_t random; // for all else
};

struct step plan_step(uint64_t seed, unsigned worker, uint64_t number);
const char *plan_name(enum operation operation);

// A well-mixed number from two.
uint64_t plan_mix(uint64_t a, uint64_t b);

#endif
