// What a segment of a lane's work took, by the card's own clock: events of ours before and behind it.
//
// The host's clock can't tell: it sees the end when somebody looks, and the card switches between processes, and waits
// for a program that is slow to launch, unseen.  Between two stamps on one stream stands the segment, and the gaps in
// it.  A lane that was idle gets a stamp before its segment as well; else the stamp of the segment before is its
// beginning.
//
// The card's times are put on the host's clock by when a stamp on an idle lane was set, and by when marks were seen and
// not seen.
// Owns: two events a segment, made when they are first needed.  With the lane's `closing` held and no other lock: these
// are driver calls.
#ifndef STAMPS_H
#define STAMPS_H

#include <stdbool.h>

#include "lanes.h"

// The next launch is the first of a segment.  `exact`: its beginning must be the card's own word.  `company`: the card
// may come to it late.  True: there is a stamp before it.
bool stamps_begin(struct lane *lane, bool exact, bool company);

// Behind segment `number`, before its mark.
bool stamps_end(struct lane *lane, uint32_t number);

// Read what the card has passed of a card's lanes.
void stamps_read(unsigned card);

// What stamps themselves take.  Once, on an idle lane.
void stamps_learn(struct lane *lane);

// A context is gone, and our events with it.
void stamps_context_gone(const void *context);

void stamps_after_fork(void);

#endif
