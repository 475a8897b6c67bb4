#ifndef SIM_LAUNCH_H
#define SIM_LAUNCH_H

#include "work.h"

// Check a launch and make it a piece of work.  A CUkernel comes into the context by this.
CUresult kernel_prepare(struct context *context, CUfunction handle, const unsigned grid[3], const unsigned block[3],
                        unsigned shared, void **parameters, void **extra, struct work *work);

#endif
