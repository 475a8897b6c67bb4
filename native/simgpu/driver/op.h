// Operations on a card in the order that streams, events and graphs give them.
//
// An operation has predecessors.  It is *dispatched* once its order is settled: a kernel then stands in the card's
// engine queue.  It is *performed* when its predecessors have been and, for a kernel, the engine has done its share;
// only then do its effects on memory happen and can the host see it as finished.  Kernels behind kernels are dispatched
// at once, so that the engine never idles for want of a host thread; what waits for the host (a host function, a value
// in memory) holds back the dispatch of what follows.
//
// Everything here runs with the driver mutex held.
#ifndef SIM_OP_H
#define SIM_OP_H

#include "work.h"

struct op {
    struct work work;
    unsigned card;
    unsigned references;
    unsigned undispatched, unperformed; // predecessors that aren't yet
    bool dispatched, performed, performing;
    bool reached;      // a kernel that the engine has finished
    uint64_t position; // of a kernel, in this process's queue on the card
    uint64_t time;     // of completion, once performed; before: the latest predecessor's
    struct op **followers;
    unsigned follower_count, follower_room;
    struct op *next_ready;
};

// Takes over `work`.  The caller holds one reference.  NULL if memory is short.
struct op *op_new(const struct work *work);
void op_after(struct op *op, struct op *predecessor); // before op_start; NULL is no predecessor
void op_start(struct op *op);
struct op *op_hold(struct op *op); // NULL passes
void op_release(struct op *op);
bool op_finished(struct op *op); // NULL is finished
void op_wait(struct op *op);

#endif
