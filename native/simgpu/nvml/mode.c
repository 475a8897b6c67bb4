// The modes that a card can be in: all as a data centre leaves them.
#include "nvml_sim.h"

static nvmlReturn_t give_state(nvmlDevice_t device, nvmlEnableState_t *out, nvmlEnableState_t state)
{
    unsigned card;
    nvmlReturn_t result = check_device_out(device, out, &card);
    if (result == NVML_SUCCESS)
        *out = state;
    return result;
}

nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t device, nvmlEnableState_t *mode)
{
    return give_state(device, mode, NVML_FEATURE_ENABLED);
}

nvmlReturn_t nvmlDeviceGetDisplayMode(nvmlDevice_t device, nvmlEnableState_t *mode)
{
    return give_state(device, mode, NVML_FEATURE_DISABLED);
}

nvmlReturn_t nvmlDeviceGetDisplayActive(nvmlDevice_t device, nvmlEnableState_t *active)
{
    return give_state(device, active, NVML_FEATURE_DISABLED);
}

nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t device, nvmlComputeMode_t *mode)
{
    unsigned card;
    nvmlReturn_t result = check_device_out(device, mode, &card);
    if (result == NVML_SUCCESS)
        *mode = NVML_COMPUTEMODE_DEFAULT;
    return result;
}

nvmlReturn_t nvmlDeviceGetVirtualizationMode(nvmlDevice_t device, nvmlGpuVirtualizationMode_t *mode)
{
    unsigned card;
    nvmlReturn_t result = check_device_out(device, mode, &card);
    if (result == NVML_SUCCESS)
        *mode = NVML_GPU_VIRTUALIZATION_MODE_NONE;
    return result;
}

nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, nvmlEnableState_t *current, nvmlEnableState_t *pending)
{
    nvmlReturn_t result = give_state(device, current, NVML_FEATURE_ENABLED);
    return result == NVML_SUCCESS ? give_state(device, pending, NVML_FEATURE_ENABLED) : result;
}

nvmlReturn_t nvmlDeviceGetDefaultEccMode(nvmlDevice_t device, nvmlEnableState_t *mode)
{
    return give_state(device, mode, NVML_FEATURE_ENABLED);
}

nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, nvmlMemoryErrorType_t type, nvmlEccCounterType_t counter,
                                         unsigned long long *errors)
{
    unsigned card;
    nvmlReturn_t result = check_device_out(device, errors, &card);
    if (result != NVML_SUCCESS)
        return result;
    if (type >= NVML_MEMORY_ERROR_TYPE_COUNT || counter >= NVML_ECC_COUNTER_TYPE_COUNT)
        return NVML_ERROR_INVALID_ARGUMENT;
    *errors = 0;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t device, nvmlMemoryErrorType_t type,
                                             nvmlEccCounterType_t counter, nvmlMemoryLocation_t location,
                                             unsigned long long *errors)
{
    (void)location;
    return nvmlDeviceGetTotalEccErrors(device, type, counter, errors);
}
