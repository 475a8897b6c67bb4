// What a launch costs the processor: batches of the driver's own call by turns with those of the call that the program is given.
#ifndef LAUNCHES_H
#define LAUNCHES_H

#include <cuda.h>

// Each thread launches the kernel, as one block, in so many pairs of batches; prints what worker.c says.
void measure_launches(CUcontext context, CUfunction kernel, void **parameters, unsigned threads, unsigned pairs);

#endif
