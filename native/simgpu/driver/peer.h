// Whether one card may reach another's memory.
#ifndef SIM_PEER_H
#define SIM_PEER_H

#include "driver.h"

bool peer_possible(unsigned card, unsigned other);

#endif
