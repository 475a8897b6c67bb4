// Amounts and times, which are never less than nothing.
#ifndef ARITHMETIC_H
#define ARITHMETIC_H

#include <stdint.h>

static inline uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static inline uint64_t less(uint64_t from, uint64_t what)
{
    return from > what ? from - what : 0;
}

#endif
