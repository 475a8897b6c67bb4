// How much of a card the slice shows: the limit is the total, the slice's use is the use.  Pure of where it is shown.
#ifndef VIEW_H
#define VIEW_H

#include <stdbool.h>
#include <stdint.h>

struct view {
    uint64_t total, used, free; // bytes
};

// The view of a card of the slice, given the real card's numbers.  Never below zero, never more than the card has.
struct view view_of(int card, uint64_t real_total, uint64_t real_free);

// The total alone.
uint64_t view_total(int card, uint64_t real_total);

#endif
