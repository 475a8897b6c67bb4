// Members of the slice that have other processes' memory open.  When its maker dies it lives on in them, and the driver's figure
// of such a member rises without its doing: whoever is about to take the dead one's share off looks at them first.
#ifndef IMPORTERS_H
#define IMPORTERS_H

#include "ledger.h"

// This process has opened such memory.
void importers_note(void);

// Raise the overhead of each of the other importers to what the driver shows.  Nothing if there is none.  `self`: our owner word.
void importers_look(uint64_t self);

#endif
