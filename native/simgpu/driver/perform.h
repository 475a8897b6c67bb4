// What a piece of work does to memory, once its turn has come.
#ifndef SIM_PERFORM_H
#define SIM_PERFORM_H

#include "work.h"

// Not for kernels (they do nothing but take time) and host functions.  `time` is that of completion and may be moved.
void perform(const struct work *work, uint64_t *time);
// Whether the value that a stream waits for is there; true for what doesn't wait.
bool memory_op_can_go(const CUstreamBatchMemOpParams *operation);
bool memory_op_waits(const CUstreamBatchMemOpParams *operation);

// Checks a copy and resolves unified addresses to host or device; arrays must be live, device ranges known.
CUresult copy_check(CUDA_MEMCPY3D *copy);
CUresult set_check(const CUDA_MEMSET_NODE_PARAMS_v1 *set);

#endif
