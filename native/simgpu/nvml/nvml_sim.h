// What every file of the simulated NVML shares.
#ifndef NVML_SIM_H
#define NVML_SIM_H

#include "../core/state.h"

#include <nvml.h>
#include <stdio.h>

#define SIM_DRIVER_VERSION "580.159.04"

// NVML_SUCCESS between nvmlInit and nvmlShutdown.
nvmlReturn_t check_init(void);
// NVML_SUCCESS, or NVML_ERROR_GPU_IS_LOST.
nvmlReturn_t reach(unsigned card);
// check_init, which card the handle means, and whether it can be reached.  A MIG device's handle is none of a card.
nvmlReturn_t check_device(nvmlDevice_t device, unsigned *card);
// The same for a call that writes to `out`.
nvmlReturn_t check_device_out(nvmlDevice_t device, const void *out, unsigned *card);
nvmlDevice_t device_handle(unsigned card);
// mig.c: what a MIG device answers to questions that are asked of cards too; false: the handle is none of a MIG device.
bool mig_name(nvmlDevice_t device, char *name, unsigned length, nvmlReturn_t *result);
bool mig_uuid(nvmlDevice_t device, char *uuid, unsigned length, nvmlReturn_t *result);
bool mig_memory(nvmlDevice_t device, nvmlMemory_t *memory, nvmlReturn_t *result);
// A text with its NUL into a buffer of `length`.
nvmlReturn_t give_text(char *out, unsigned length, const char *text);

#endif
