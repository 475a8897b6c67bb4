// Card time that the slice has used: into the turns page, by which its turn and its cap are known, and into the usage
// page, for people.
#ifndef SPENDING_H
#define SPENDING_H

#include <stdint.h>

// Less than nothing: too much was charged before.  What people see never falls.
void spending_charge(unsigned card, int64_t used_ns, uint64_t now);

// Launches waited for so long.
void spending_throttled(unsigned card, uint64_t waited_ns);

// From time to time: what was borrowed, and what was lent while the neighbours used `others_ns` since the last call.
void spending_settle(unsigned card, uint64_t others_ns, uint64_t now);

#endif
