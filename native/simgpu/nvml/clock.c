// Clocks: at rest the base, at work the highest.
#include "nvml_sim.h"

static unsigned highest(nvmlClockType_t type)
{
    return (unsigned)(type == NVML_CLOCK_MEM ? sim_model()->memory_mhz : sim_model()->sm_max_mhz);
}

static nvmlReturn_t check(nvmlDevice_t device, nvmlClockType_t type, const void *out, unsigned *card)
{
    nvmlReturn_t result = check_device_out(device, out, card);
    if (result == NVML_SUCCESS && type >= NVML_CLOCK_COUNT)
        return NVML_ERROR_INVALID_ARGUMENT;
    return result;
}

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned int *mhz)
{
    unsigned card;
    nvmlReturn_t result = check(device, type, mhz, &card);
    if (result != NVML_SUCCESS)
        return result;
    sim_lock();
    sim_bring_up(card);
    unsigned percent = engine_percent(&sim_state()->cards[card].engine.usage, sim_now());
    sim_unlock();
    *mhz = type == NVML_CLOCK_MEM || percent > 0 ? highest(type) : (unsigned)sim_model()->sm_mhz;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned int *mhz)
{
    unsigned card;
    nvmlReturn_t result = check(device, type, mhz, &card);
    if (result == NVML_SUCCESS)
        *mhz = highest(type);
    return result;
}

nvmlReturn_t nvmlDeviceGetMaxCustomerBoostClock(nvmlDevice_t device, nvmlClockType_t type, unsigned int *mhz)
{
    return nvmlDeviceGetMaxClockInfo(device, type, mhz);
}

nvmlReturn_t nvmlDeviceGetClock(nvmlDevice_t device, nvmlClockType_t type, nvmlClockId_t id, unsigned int *mhz)
{
    return id == NVML_CLOCK_ID_CURRENT ? nvmlDeviceGetClockInfo(device, type, mhz)
                                       : nvmlDeviceGetMaxClockInfo(device, type, mhz);
}

nvmlReturn_t nvmlDeviceGetApplicationsClock(nvmlDevice_t device, nvmlClockType_t type, unsigned int *mhz)
{
    unsigned card;
    nvmlReturn_t result = check(device, type, mhz, &card);
    if (result == NVML_SUCCESS)
        *mhz = type == NVML_CLOCK_MEM ? highest(type) : (unsigned)sim_model()->sm_mhz;
    return result;
}

nvmlReturn_t nvmlDeviceGetDefaultApplicationsClock(nvmlDevice_t device, nvmlClockType_t type, unsigned int *mhz)
{
    return nvmlDeviceGetApplicationsClock(device, type, mhz);
}

nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t device, unsigned long long *reasons)
{
    unsigned card;
    nvmlReturn_t result = check_device_out(device, reasons, &card);
    if (result == NVML_SUCCESS)
        *reasons = nvmlClocksEventReasonNone;
    return result;
}

nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device, unsigned long long *reasons)
{
    return nvmlDeviceGetCurrentClocksEventReasons(device, reasons);
}

nvmlReturn_t nvmlDeviceGetSupportedClocksEventReasons(nvmlDevice_t device, unsigned long long *reasons)
{
    return nvmlDeviceGetCurrentClocksEventReasons(device, reasons);
}

nvmlReturn_t nvmlDeviceGetSupportedClocksThrottleReasons(nvmlDevice_t device, unsigned long long *reasons)
{
    return nvmlDeviceGetCurrentClocksEventReasons(device, reasons);
}
