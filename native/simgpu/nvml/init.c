// Starting and stopping, and what the system says of itself.
#include "nvml_sim.h"

#include <cuda.h>
#include <stdatomic.h>
#include <string.h>

static atomic_uint users;
static char handles[SIM_MAX_CARDS]; // their addresses are the device handles

nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
    (void)flags;
    switch (sim_open()) {
    case SIM_OK:
        users++;
        return NVML_SUCCESS;
    case SIM_MISMATCH:
        return NVML_ERROR_LIB_RM_VERSION_MISMATCH;
    default:
        return NVML_ERROR_DRIVER_NOT_LOADED;
    }
}

nvmlReturn_t nvmlInit_v2(void)
{
    return nvmlInitWithFlags(0);
}

nvmlReturn_t nvmlInit(void)
{
    return nvmlInitWithFlags(0);
}

nvmlReturn_t nvmlShutdown(void)
{
    unsigned now = users;
    do {
        if (now == 0)
            return NVML_ERROR_UNINITIALIZED;
    } while (!atomic_compare_exchange_weak(&users, &now, now - 1));
    return NVML_SUCCESS;
}

nvmlReturn_t check_init(void)
{
    return users > 0 ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
}

nvmlDevice_t device_handle(unsigned card)
{
    return (nvmlDevice_t)&handles[card];
}

nvmlReturn_t reach(unsigned card)
{
    return sim_state()->cards[card].lost ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
}

nvmlReturn_t check_device(nvmlDevice_t device, unsigned *card)
{
    nvmlReturn_t result = check_init();
    if (result != NVML_SUCCESS)
        return result;
    for (unsigned i = 0; i < sim_state()->card_count; i++) {
        if (device_handle(i) == device) {
            *card = i;
            return reach(i);
        }
    }
    return NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t check_device_out(nvmlDevice_t device, const void *out, unsigned *card)
{
    nvmlReturn_t result = check_device(device, card);
    if (result == NVML_SUCCESS && !out)
        return NVML_ERROR_INVALID_ARGUMENT;
    return result;
}

nvmlReturn_t give_text(char *out, unsigned length, const char *text)
{
    if (!out)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (length <= strlen(text))
        return NVML_ERROR_INSUFFICIENT_SIZE;
    memcpy(out, text, strlen(text) + 1);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
    nvmlReturn_t result = check_init();
    return result == NVML_SUCCESS ? give_text(version, length, SIM_DRIVER_VERSION) : result;
}

nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length)
{
    // Also before nvmlInit.
    return give_text(version, length, NVML_API_VERSION_STR "." SIM_DRIVER_VERSION);
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    if (!version)
        return NVML_ERROR_INVALID_ARGUMENT;
    *version = CUDA_VERSION;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version)
{
    return nvmlSystemGetCudaDriverVersion_v2(version);
}

nvmlReturn_t nvmlUnitGetCount(unsigned int *count)
{
    nvmlReturn_t result = check_init();
    if (result != NVML_SUCCESS)
        return result;
    if (!count)
        return NVML_ERROR_INVALID_ARGUMENT;
    *count = 0;
    return NVML_SUCCESS;
}
