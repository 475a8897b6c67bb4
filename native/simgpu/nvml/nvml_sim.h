// What every file of the simulated NVML shares.
#ifndef NVML_SIM_H
#define NVML_SIM_H

#include "../core/state.h"

#include <nvml.h>
#include <stdio.h>

#define SIM_DRIVER_VERSION "580.159.04"

// NVML_SUCCESS between nvmlInit and nvmlShutdown.
nvmlReturn_t check_init(void);
// check_init, and which card the handle means.
nvmlReturn_t check_device(nvmlDevice_t device, unsigned *card);
// The same for a call that writes to `out`.
nvmlReturn_t check_device_out(nvmlDevice_t device, const void *out, unsigned *card);
nvmlDevice_t device_handle(unsigned card);
// A text with its NUL into a buffer of `length`.
nvmlReturn_t give_text(char *out, unsigned length, const char *text);

#endif
