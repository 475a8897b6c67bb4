// MIG devices as NVML lists them, all cards cut in the same way (HAMI_SIM_MIG).  The driver's side knows nothing of them.
#include "nvml_sim.h"

#include <stdlib.h>

#define SLICES 7u

static char handles[SIM_MAX_CARDS][SIM_MAX_MIG]; // their addresses are the device handles

static bool find(nvmlDevice_t device, unsigned *card, unsigned *number)
{
    if (check_init() != NVML_SUCCESS)
        return false;
    for (*card = 0; *card < sim_state()->card_count; ++*card)
        for (*number = 0; *number < sim_state()->mig_count; ++*number)
            if (device == (nvmlDevice_t)&handles[*card][*number])
                return true;
    return false;
}

// Eighths of the card's memory.
static unsigned eighths(unsigned number)
{
    static const unsigned char of_slices[SLICES + 1] = {[1] = 1, [2] = 2, [3] = 4, [4] = 4, [7] = 8};
    return of_slices[sim_state()->mig_slices[number]];
}

// MiB, after what MIG itself takes.
static uint64_t memory_of(unsigned number)
{
    return sim_model()->vram_mib * eighths(number) / 8 * 95 / 100;
}

bool mig_name(nvmlDevice_t device, char *name, unsigned length, nvmlReturn_t *result)
{
    unsigned card, number;
    if (!find(device, &card, &number))
        return false;
    char text[NVML_DEVICE_NAME_V2_BUFFER_SIZE];
    snprintf(text, sizeof text, "%s MIG %ug.%llugb", sim_model()->name, sim_state()->mig_slices[number],
             (unsigned long long)((sim_model()->vram_mib + 1023) / 1024 * eighths(number) / 8));
    *result = give_text(name, length, text);
    return true;
}

bool mig_uuid(nvmlDevice_t device, char *uuid, unsigned length, nvmlReturn_t *result)
{
    unsigned card, number;
    if (!find(device, &card, &number))
        return false;
    uint8_t bytes[16];
    card_uuid(sim_model(), card, bytes);
    char text[48];
    snprintf(text, sizeof text, "MIG-%02x%02x%02x%02x-%02x%02x-5%x%02x-8%x%02x-%02x%02x%02x%02x%02x%02x", bytes[0],
             bytes[1], bytes[2], bytes[3], bytes[4], bytes[5], bytes[6] & 15u, bytes[7], number, bytes[9], bytes[10],
             bytes[11], bytes[12], bytes[13], bytes[14], bytes[15]);
    *result = give_text(uuid, length, text);
    return true;
}

bool mig_memory(nvmlDevice_t device, nvmlMemory_t *memory, nvmlReturn_t *result)
{
    unsigned card, number;
    if (!find(device, &card, &number))
        return false;
    *result = memory ? reach(card) : NVML_ERROR_INVALID_ARGUMENT;
    if (*result == NVML_SUCCESS)
        *memory = (nvmlMemory_t){.total = memory_of(number) * MIB, .free = memory_of(number) * MIB};
    return true;
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending)
{
    unsigned card;
    nvmlReturn_t result = check_device_out(device, current && pending ? current : NULL, &card);
    if (result != NVML_SUCCESS)
        return result;
    if (!sim_model()->mig_capable)
        return NVML_ERROR_NOT_SUPPORTED;
    *current = *pending = sim_state()->mig_count ? NVML_DEVICE_MIG_ENABLE : NVML_DEVICE_MIG_DISABLE;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int *is_mig)
{
    unsigned card, number;
    bool mig = find(device, &card, &number);
    nvmlReturn_t result =
        mig ? is_mig ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT : check_device_out(device, is_mig, &card);
    if (result == NVML_SUCCESS)
        *is_mig = mig;
    return result;
}

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int *count)
{
    unsigned card;
    nvmlReturn_t result = check_device_out(device, count, &card);
    if (result == NVML_SUCCESS)
        *count = sim_model()->mig_capable ? SIM_MAX_MIG : 0;
    return result;
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index, nvmlDevice_t *mig)
{
    unsigned card;
    nvmlReturn_t result = check_device_out(device, mig, &card);
    if (result != NVML_SUCCESS)
        return result;
    if (index >= (sim_model()->mig_capable ? SIM_MAX_MIG : 0u))
        return NVML_ERROR_INVALID_ARGUMENT;
    if (index >= sim_state()->mig_count)
        return NVML_ERROR_NOT_FOUND;
    *mig = (nvmlDevice_t)&handles[card][index];
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t mig, nvmlDevice_t *device)
{
    nvmlReturn_t result = check_init();
    if (result != NVML_SUCCESS)
        return result;
    unsigned card, number;
    if (!device || !find(mig, &card, &number))
        return NVML_ERROR_INVALID_ARGUMENT;
    *device = device_handle(card);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned int *id)
{
    unsigned card, number;
    if (!find(device, &card, &number))
        return check_init() == NVML_SUCCESS ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_UNINITIALIZED;
    if (!id)
        return NVML_ERROR_INVALID_ARGUMENT;
    *id = SLICES + number;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned int *id)
{
    nvmlReturn_t result = nvmlDeviceGetGpuInstanceId(device, id);
    if (result == NVML_SUCCESS)
        *id = 0;
    return result;
}

nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t device, nvmlDeviceAttributes_t *attributes)
{
    unsigned card, number;
    if (!find(device, &card, &number)) {
        nvmlReturn_t result = check_device_out(device, attributes, &card);
        return result == NVML_SUCCESS ? NVML_ERROR_NOT_SUPPORTED : result;
    }
    if (!attributes)
        return NVML_ERROR_INVALID_ARGUMENT;
    unsigned slices = sim_state()->mig_slices[number];
    *attributes = (nvmlDeviceAttributes_t){
        .multiprocessorCount = (unsigned)sim_model()->sm_count / 8u * slices,
        .sharedCopyEngineCount = slices,
        .gpuInstanceSliceCount = slices,
        .computeInstanceSliceCount = slices,
        .memorySizeMB = memory_of(number),
    };
    return NVML_SUCCESS;
}
