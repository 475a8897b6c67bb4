// A world of simulated time: one card, several processes of the core share's own code, no threads, no waiting.
// world.c is the world; tenant.c stands in each process between it and the code under test.
#ifndef WORLD_H
#define WORLD_H

#include <stdint.h>

struct world {
    uint64_t (*now)(void);
    void (*sleep_until)(uint64_t when); // other processes go on
    void (*kernel)(uint64_t ns);        // put work on the card, as the calling process
    void (*mark)(_Atomic uint32_t *at, uint32_t value);
    void (*record)(uint64_t *when); // the time at which the card gets there
    void (*synchronise)(void);
};

struct tenant_setup {
    const struct world *world;
    const char *directory; // of the slice
    unsigned process;      // a number of its own
};

// What tenant.c gives the world.
typedef void (*tenant_open)(const struct tenant_setup *setup);
typedef void (*tenant_launch)(unsigned stream, uint64_t kind, uint64_t ns);
typedef void (*tenant_synchronise)(unsigned stream);

// What a page may claim that isn't so.
enum lie {
    LIE_NONE,
    LIE_WORKS,   // always at work, never charged
    LIE_WANTS,   // always wants its turn, as the one furthest behind, and never takes it
    LIE_RUBBISH, // anything
};
typedef void (*tenant_lie)(enum lie lie);

#endif
