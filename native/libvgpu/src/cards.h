// Which card of the slice a device is.  Matched by UUID, never by index, so CUDA_VISIBLE_DEVICES may say what it likes.
// Owns: the map from CUdevice and nvmlDevice_t to a card index of the limits page, and the real NVML session.
#ifndef CARDS_H
#define CARDS_H

#include <stdbool.h>

#include "entry_tables.h"

enum {
    CARD_NONE = -1,    // nothing to account: no device could be told, or the card is a whole one
    CARD_FOREIGN = -2, // a card that the slice doesn't name: nothing may be taken from it
};

// Card index of a CUDA device, whole cards included; CARD_NONE if the driver doesn't know the device.
int cards_index(CUdevice device);

// The same for allocations: a whole card is CARD_NONE.
int cards_accounted(CUdevice device);

// Of the calling thread's current context; CARD_NONE without one, so that the driver gives its own error.
int cards_current(void);

// Of a stream.  NULL and the two special streams mean the current context.
int cards_of_stream(CUstream stream);

// Of a location as the program wrote it; host memory is CARD_NONE.
int cards_of_location(const CUmemLocation *location);

// A CUDA device of that card, if one was ever seen.
bool cards_device(int card, CUdevice *device);

// Card index of a real NVML handle; CARD_FOREIGN if the slice doesn't name it.
int cards_of_nvml(nvmlDevice_t handle);

// The real NVML, initialised for ourselves; false: this machine has none.
bool cards_nvml_ready(void);

// The real NVML handle of a card; false: none.
bool cards_nvml_handle(int card, nvmlDevice_t *handle);

void cards_after_fork(void);

#endif
