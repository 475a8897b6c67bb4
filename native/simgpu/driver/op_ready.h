// Between op.c, which keeps the order, and op_run.c, which performs.
#ifndef SIM_OP_READY_H
#define SIM_OP_READY_H

#include "op.h"

// Dispatched, all predecessors performed, not performed itself; the longest ready first, linked by next_ready.
extern struct op *op_ready;

bool op_is_kernel(const struct op *op);
void op_dispatch(struct op *op);
// Performed: out of the list, and its followers are told.
void op_finish(struct op *op);

#endif
