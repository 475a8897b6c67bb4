// Code and static data that a module, library or function brings into VRAM: seen only when it is there.
#ifndef MODULE_H
#define MODULE_H

#include "charge.h"
#include "footprint.h"

// CUDA_ERROR_NOT_PERMITTED, or CUDA_SUCCESS and a measure of the current card.
CUresult load_before(struct measure *measure);

// True if the load that just succeeded has to be undone; `cost` is for footprint_forget.
bool load_too_big(const struct measure *measure, uint64_t *cost);

#endif
