// The record of a refused allocation: what was asked, what was there, who holds it.  Read by `hami-hub smi` and the notebook.
#ifndef REFUSAL_H
#define REFUSAL_H

#include <stdint.h>

#include "ledger.h"

struct refusal {
    unsigned card;
    uint64_t asked, used, limit; // bytes
    const char *call;            // "cuMemAlloc_v2"
};

void refusal_record(const struct ledger *ledger, const struct refusal *refusal);

#endif
