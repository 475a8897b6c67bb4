// One allocation, from the question to the record:  reserve, call the driver, settle.
//
//     struct charge charge;
//     CUresult refused = charge_linear(&charge, bytesize, __func__);
//     if (refused != CUDA_SUCCESS)
//         return refused;
//     CUresult result = REAL(cuMemAlloc_v2)(dptr, bytesize);
//     return charge_settle(&charge, result, OBJECT_MEMORY, result == CUDA_SUCCESS ? *dptr : 0);
//
// Ties ledger, footprint, objects and refusal together for the wrapper files; the only place that refuses.
#ifndef CHARGE_H
#define CHARGE_H

#include <stdbool.h>
#include <stdint.h>

#include "entry_tables.h"
#include "objects.h"

struct charge {
    int card;       // CARD_NONE: nothing is accounted, just call the driver
    uint64_t bytes; // asked
    uint64_t taken; // in the ledger; 0 of a small one: none of it, it must fit into a block that is there
    uint8_t flags;  // enum object_flag
    const char *call;
    uint64_t estimated; // of what was taken, a guess until the driver has answered: others may not be refused for it
};

// Reserve for linear memory or an array on the current context's card, or for anything of whole blocks on a card of the slice.
// CUDA_SUCCESS: call the driver.
CUresult charge_linear(struct charge *charge, uint64_t bytes, const char *call);
CUresult charge_array(struct charge *charge, uint64_t bytes, const char *call);
CUresult charge_card(struct charge *charge, int card, uint64_t bytes, const char *call);

// The same to the byte, for a call whose cost is known from the last time.
CUresult charge_exactly(struct charge *charge, int card, uint64_t bytes, const char *call);

// What was reserved is the most that the call may take: after it the caller counts itself what it took, and gives all this back.
void charge_mark_estimate(struct charge *charge);

// All that is left of the slice, for a call whose cost nobody knows.  False: nothing is, for now.
bool charge_rest(struct charge *charge, int card, const char *call);

// The same without a record when it doesn't fit: the caller has another way.
bool charge_try(struct charge *charge, int card, uint64_t bytes, const char *call);

// For managed memory: charged in full, shown by nobody.
void charge_mark_managed(struct charge *charge);

// The driver took `bytes` after all.  False: that is over the limit; free it and return charge_overshot().
bool charge_correct(struct charge *charge, uint64_t bytes);
CUresult charge_overshot(struct charge *charge);

// After the driver's answer: record the object, or give the bytes back.  Returns `result`.
CUresult charge_settle(struct charge *charge, CUresult result, enum object_kind kind, uint64_t handle);

// The same without an object: the caller keeps the bytes itself.
CUresult charge_finish(struct charge *charge, CUresult result);

// Around the driver's free of an object taken out of the map: opens, and closes by its success.
void charge_free_begin(const struct object *object);
void charge_free_end(const struct object *object, bool freed);

// Take off what was charged for an object that the driver has freed.
void charge_drop(const struct object *object);

// True if the slice now holds more than its limit on the card.
bool charge_over_limit(int card);

// Refuse: leaves the record, counts, answers CUDA_ERROR_OUT_OF_MEMORY.
CUresult charge_refuse(int card, uint64_t asked, const char *call);

// Refuse what was already taken and has been undone.
CUresult charge_undone(int card, uint64_t asked, const char *call);

// Whole 2 MiB blocks, as the driver takes for anything above 1 MiB.
uint64_t charge_round(uint64_t bytes);

#endif
