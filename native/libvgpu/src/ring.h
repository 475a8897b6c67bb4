// The ring of slices on a card: what the neighbours' turns pages say.  Our own is turns_page.c's.
//
// Who writes what.  A slice's page is written by its own processes, each in its member slot, `done` of a lane by the card for
// them; the slice's card fields by all of them, with atomic adds.  Nobody writes in a neighbour's page.
// Memory order.  A neighbour's page is a snapshot by pread: no order between its words can be relied on, and none is needed:
// every word is judged by itself, and looked at again some microseconds later.
//
// Trust.  How much a neighbour may have (`<name>.share`) was written by whoever places slices.  That it has work on the card or
// wants some is its own word.  It is believed while the time for which it keeps the card shows up in its virtual time, give or
// take a sixteenth; a page that claims more than RING_DOUBT_NS beyond that (its owner lies, or died with a kernel on the card)
// counts as empty until the two agree again.  So is one that wants its turn and then doesn't take it.
// Owns: the neighbours' descriptors and what is remembered of them; a card's by whoever looks at it, one thread at a time.
#ifndef RING_H
#define RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hami_turns.h"
#include "turns.h"

#define RING_MAX      32 // neighbours that are looked at on one card
#define RING_DOUBT_NS (60 * TURN_MS)

// What was seen of a card's ring.  Owned by whoever looks; one thread at a time.
struct ring_view {
    uint64_t looked_ns;
    size_t count; // of neighbours that are believed
    struct turn_other others[RING_MAX];
    unsigned known;      // neighbours there are
    unsigned contexts;   // of neighbours, with work on the card
    unsigned own;        // the slice's other processes with work on the card
    bool own_wants;      // one of them waits for its turn
    uint64_t company_ns; // when a neighbour was last active, 0: never
    uint64_t spent_ns;   // what the neighbours said they used since the view was made
};

// Bring the view up to date if it is older than `age`.  `pending`: this process has work on the card.
void ring_look(unsigned card, struct ring_view *view, bool pending, uint64_t now, uint64_t age);

// The neighbour that was to go first didn't.
void ring_passed_over(unsigned card);

void ring_after_fork(void);

#endif
