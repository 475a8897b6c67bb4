// Is what the usage page says what the simulated driver counts?  Runs beside the slice, without the limiter.
#ifndef FUZZ_JUDGE_H
#define FUZZ_JUDGE_H

#include <sys/types.h>

#include "board.h"
#include "hami_slice.h"

struct judge {
    struct board *board;
    struct hami_limits *limits;
    struct hami_usage *usage;
    uint64_t bound[CARDS]; // the limit, or what the slice held when the limit fell below it
    char complaint[300];
};

// Make a slice directory for the simulated cards.
bool judge_make_slice(struct judge *judge, const char *directory, struct board *board);

// Change a running slice's limit; no worker is at work.
void judge_resize(struct judge *judge, unsigned card, uint64_t bytes);

// True use is within the limit, by the driver's own count.
bool judge_use(struct judge *judge);

// After all have settled: each worker's slot is what the driver counts for it, and nobody else holds anything.
bool judge_ledger(struct judge *judge, const pid_t *pids, unsigned workers);

// Bytes that the page says a worker holds.
uint64_t judge_page(const struct judge *judge, unsigned worker, unsigned card);

// Everything was given back, contexts too.
bool judge_empty(struct judge *judge, const pid_t *pids, unsigned workers);

#endif
