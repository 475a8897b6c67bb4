// Before a refusal: is it the truth, or does something count too high only for the moment?
//
//     struct doubt doubt = {0};
//     do {
//         if (ledger_reserve(ledger, card, bytes, limit, NULL))
//             return true;
//     } while (doubt_remains(&doubt, card, bytes));
//     return false;
//
// A slice is refused something when two looks in a row, a pause apart, find no room even without what is on the move
// (ledger.h, invariant 5).  Who is at it is waited for, but never for long: it may have been stopped.
#ifndef DOUBT_H
#define DOUBT_H

#include <stdbool.h>
#include <stdint.h>

struct doubt {
    bool was_certain;
    uint64_t end_ns; // CLOCK_MONOTONIC, 0: no look yet
};

// True, after a pause: `bytes` more may fit by now, ask again.
bool doubt_remains(struct doubt *doubt, int card, uint64_t bytes);

#endif
