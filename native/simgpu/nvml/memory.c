// How much is taken on a card.
#include "nvml_sim.h"

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    unsigned card;
    nvmlReturn_t result;
    if (mig_memory(device, memory, &result))
        return result;
    result = check_device_out(device, memory, &card);
    if (result != NVML_SUCCESS)
        return result;
    sim_lock();
    sim_reap();
    memory->used = sim_state()->cards[card].used;
    sim_unlock();
    memory->total = sim_model()->vram_mib * MIB;
    memory->free = memory->total - memory->used;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
    unsigned card;
    nvmlReturn_t result = check_device_out(device, memory, &card);
    if (result != NVML_SUCCESS)
        return result;
    if (memory->version != nvmlMemory_v2)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    nvmlMemory_t plain;
    result = nvmlDeviceGetMemoryInfo(device, &plain);
    memory->total = plain.total;
    memory->reserved = 0;
    memory->free = plain.free;
    memory->used = plain.used;
    return result;
}

nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t *memory)
{
    unsigned card;
    nvmlReturn_t result = check_device_out(device, memory, &card);
    if (result != NVML_SUCCESS)
        return result;
    memory->bar1Total = 256 * MIB;
    memory->bar1Used = 2 * MIB;
    memory->bar1Free = memory->bar1Total - memory->bar1Used;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryBusWidth(nvmlDevice_t device, unsigned int *bits)
{
    unsigned card;
    nvmlReturn_t result = check_device_out(device, bits, &card);
    if (result == NVML_SUCCESS)
        *bits = (unsigned)sim_model()->bus_bits;
    return result;
}
