// nvmlDeviceGetFieldValues: each value has its own answer; those without one here say that they aren't supported.
#include "nvml_sim.h"

#include <time.h>

static void give_uint(nvmlFieldValue_t *field, unsigned value)
{
    field->valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
    field->value.uiVal = value;
}

static nvmlReturn_t answer(nvmlDevice_t device, nvmlFieldValue_t *field)
{
    nvmlReturn_t result = NVML_SUCCESS;
    unsigned number = 0;
    unsigned long long wide = 0;
    switch (field->fieldId) {
    case NVML_FI_DEV_ECC_CURRENT:
    case NVML_FI_DEV_ECC_PENDING:
        give_uint(field, NVML_FEATURE_ENABLED);
        break;
    case NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION:
        result = nvmlDeviceGetTotalEnergyConsumption(device, &wide);
        field->valueType = NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
        field->value.ullVal = wide;
        break;
    case NVML_FI_DEV_NVLINK_LINK_COUNT:
    case NVML_FI_DEV_PCIE_REPLAY_COUNTER:
    case NVML_FI_DEV_RETIRED_PENDING:
        give_uint(field, 0);
        break;
    case NVML_FI_DEV_POWER_AVERAGE:
    case NVML_FI_DEV_POWER_INSTANT:
        result = nvmlDeviceGetPowerUsage(device, &number);
        give_uint(field, number);
        break;
    default:
        return NVML_ERROR_NOT_SUPPORTED;
    }
    return result;
}

nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *fields)
{
    unsigned card;
    nvmlReturn_t result = check_device_out(device, fields, &card);
    if (result != NVML_SUCCESS)
        return result;
    if (count <= 0)
        return NVML_ERROR_INVALID_ARGUMENT;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    for (int i = 0; i < count; i++) {
        fields[i].timestamp = (long long)now.tv_sec * 1000000 + now.tv_nsec / 1000;
        fields[i].latencyUsec = 0;
        fields[i].nvmlReturn = answer(device, &fields[i]);
    }
    return NVML_SUCCESS;
}
