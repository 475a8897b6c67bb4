// What a context takes, reserved before the driver makes it.
//
// A context costs the same each time, and how much only the driver knows.  The slice's first one on a card is measured, and
// what it took stands in the usage page from then on (context_bytes); all later ones, of any process, reserve that much
// beforehand, so that contexts never bring a slice over its limit.
// The first one reserves all that is left: no estimate is right for every card, one too high would refuse what fits and one too
// low would let several pass.  Whoever wants a context at that moment waits until the cost is known.  Only the holder of the
// card's lock (life.h) reserves the rest: a waiter that took it an instant after the cost was known would have others refused
// that fit.  Lock and reservation end with the process, so one that dies over it keeps nobody waiting.
#ifndef CONTEXT_COST_H
#define CONTEXT_COST_H

#include "charge.h"
#include "footprint.h"

struct context_cost {
    struct charge charge; // its card is CARD_NONE: nothing is accounted
    struct measure measure;
    bool first; // nobody knows the cost yet
};

// CUDA_SUCCESS: let the driver make it.
CUresult context_cost_reserve(struct context_cost *cost, int card, const char *call);

// After the driver's answer.  Returns what footprint_forget is to be told when the context goes.
uint64_t context_cost_settle(struct context_cost *cost, bool made);

// Another thread of the parent may have been making one.
void context_cost_after_fork(void);

#endif
