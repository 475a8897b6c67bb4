// What controller and workers share: who does which step, what came of it.  One mapped file.
#ifndef FUZZ_BOARD_H
#define FUZZ_BOARD_H

#include <cuda.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "plan.h"

#define MAX_WORKERS 8
#define CARDS       2
#define OFFERS      4

// A worker sleeps on `order`, the controller on `done`; both count up.
enum order_kind { ORDER_STEPS, ORDER_SETTLE, ORDER_GIVE_ALL, ORDER_END };

struct worker_board {
    _Atomic uint32_t order; // a futex
    _Atomic uint32_t done;  // a futex: the last order that was carried out
    enum order_kind kind;
    uint64_t first, count;        // steps to make
    _Atomic uint32_t outer_pid;   // as the controller sees it, of one in a PID namespace
    _Atomic uint64_t next;        // the next one; an image after exec goes on from there
    uint64_t beyond[CARDS];       // bytes that the ledger rightly holds though the driver's account of us doesn't
    _Atomic bool failed;          // a call answered something that no call may answer here
    char failure[160];            // which
    CUipcMemHandle offer[OFFERS]; // for other workers to open
    _Atomic bool offered[OFFERS];
    uint64_t good[OPERATION_COUNT], refused[OPERATION_COUNT], other[OPERATION_COUNT];
};

struct board {
    uint64_t seed;
    uint64_t limit[CARDS]; // bytes, now
    uint64_t skipped_count;
    struct worker_board workers[MAX_WORKERS];
    // a step is left out if its number stands here: worker << 56 | number, sorted
    uint64_t skipped[];
};

struct board *board_map(const char *path);
void board_wait(_Atomic uint32_t *word, uint32_t while_it_is);
// False: it took longer than so many seconds.
bool board_wait_for(_Atomic uint32_t *word, uint32_t while_it_is, int seconds);
void board_wake(_Atomic uint32_t *word);

bool board_skips(const struct board *board, unsigned worker, uint64_t number);

#endif
