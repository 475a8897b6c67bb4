// Multicast objects, whose handles cuMemRelease takes like those of physical memory.
#ifndef SIM_MULTICAST_H
#define SIM_MULTICAST_H

#include "driver.h"

struct multicast;

struct multicast *multicast_of(CUmemGenericAllocationHandle handle);
void multicast_drop(struct multicast *object);

#endif
