// HAMi's environment variables as limits: advisory, for workloads written for it.  Used only when there is no slice directory.
//   CUDA_DEVICE_MEMORY_LIMIT, CUDA_DEVICE_MEMORY_LIMIT_<index>   "3000m", "4Gi", "4294967296"; 0: no limit
//   CUDA_DEVICE_SM_LIMIT                                         percent of a card
//   GPU_CORE_UTILIZATION_POLICY                                  default, force, disable
//   CUDA_TASK_PRIORITY                                           0 high, 1 low
//   CUDA_DEVICE_MEMORY_SHARED_CACHE                              path of the usage page
#ifndef ENV_LIMITS_H
#define ENV_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

#include "slice.h"

// Read the variables; makes or maps the usage page.
enum slice_state env_limits_find(struct slice *out);

// The index-th card of the machine is `uuid`: give it the limits of that index.  Called by cards.c, once per card.
void env_limits_name_card(unsigned index, const char *uuid);

// Bytes in `text`; false if it is no amount.  Pure.
bool env_limits_parse_bytes(const char *text, uint64_t *bytes);

// Defined by slice.c, which knows what a sound page is.
bool slice_map_usage(const char *path, struct slice *out);

#endif
