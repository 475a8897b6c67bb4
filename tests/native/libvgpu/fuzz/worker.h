// One process of the slice: what it holds, and the operations on it.  Handles die with contexts and are kept all the same:
// giving back what is gone is an operation like any other.
#ifndef FUZZ_WORKER_H
#define FUZZ_WORKER_H

#include "board.h"

// Physical memory outlives its handle while it is mapped.
struct block {
    uint64_t bytes;
    unsigned card;
    unsigned handles, mappings;
    bool exported;
};

struct holding {
    CUdeviceptr handle; // 0: empty; objects as the number that their pointer is
    CUdeviceptr second; // a graph's address, a library's kernel
    uint64_t bytes;
    unsigned card;
    struct block *block;
};

struct worker {
    struct board *board;
    struct worker_board *own;
    unsigned number;
    CUcontext primary[CARDS]; // as far as it was retained
    struct holding holdings[OPERATION_COUNT][SLOTS];
};

typedef CUresult (*operation_call)(struct worker *worker, const struct step *step, struct holding *holding);

struct operation_calls {
    operation_call take; // or just do
    operation_call give; // NULL: nothing to give back
};

extern const struct operation_calls memory_calls[OPERATION_COUNT];
extern const struct operation_calls code_calls[OPERATION_COUNT];
extern const struct operation_calls process_calls[OPERATION_COUNT];

// Of the current context, 0 without one.
unsigned current_card(void);
// The image of a module with so much static data; valid until the next call of the thread.
const char *module_image(uint64_t bytes, const char *words);
void block_unused(struct worker *worker, struct block *block);

CUresult perform(struct worker *worker, const struct step *step);
CUresult give_all(struct worker *worker);
CUresult use_card(struct worker *worker, unsigned card);

#endif
