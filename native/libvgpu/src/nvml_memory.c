// What NVML says of a card's memory: the slice's view, the same that CUDA shows (view.c).
#include "cards.h"
#include "driver.h"
#include "slice.h"
#include "view.h"

static bool shown(nvmlDevice_t device, int *card)
{
    if (nvml_enter() != DRIVER_ACTIVE)
        return false;
    *card = cards_of_nvml(device);
    return *card == CARD_FOREIGN || !slice_whole((unsigned)*card);
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    nvml_enter();
    nvmlReturn_t result = NVML_REAL(nvmlDeviceGetMemoryInfo)(device, memory);
    int card;
    if (result != NVML_SUCCESS || !shown(device, &card))
        return result;
    struct view view = view_of(card, memory->total, memory->free);
    memory->total = view.total;
    memory->free = view.free;
    memory->used = view.used;
    return result;
}

// The driver's own reserve is nobody's business in a slice: total = used + free.
nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
    nvml_enter();
    nvmlReturn_t result = NVML_REAL(nvmlDeviceGetMemoryInfo_v2)(device, memory);
    int card;
    if (result != NVML_SUCCESS || !shown(device, &card))
        return result;
    struct view view = view_of(card, memory->total, memory->free);
    memory->total = view.total;
    memory->reserved = 0;
    memory->free = view.free;
    memory->used = view.used;
    return result;
}
