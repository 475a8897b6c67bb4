// Temperature, power and fans: an idle card's figures, warmer and thirstier as the engine works.
#include "nvml_sim.h"

#define HOT_CELSIUS 40u // above idle, at full work

static unsigned work_percent(unsigned card)
{
    sim_lock();
    sim_bring_up(card);
    unsigned percent = engine_percent(&sim_state()->cards[card].engine.usage, sim_now());
    sim_unlock();
    return percent;
}

static unsigned celsius(unsigned card)
{
    return sim_model()->celsius + work_percent(card) * HOT_CELSIUS / 100;
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t sensor, unsigned int *degrees)
{
    unsigned card;
    nvmlReturn_t result = check_device_out(device, degrees, &card);
    if (result != NVML_SUCCESS)
        return result;
    if (sensor != NVML_TEMPERATURE_GPU)
        return NVML_ERROR_INVALID_ARGUMENT;
    *degrees = celsius(card);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_t *temperature)
{
    unsigned card;
    nvmlReturn_t result = check_device_out(device, temperature, &card);
    if (result != NVML_SUCCESS)
        return result;
    if (temperature->version != nvmlTemperature_v1)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (temperature->sensorType != NVML_TEMPERATURE_GPU)
        return NVML_ERROR_INVALID_ARGUMENT;
    temperature->temperature = (int)celsius(card);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, nvmlTemperatureThresholds_t threshold,
                                               unsigned int *degrees)
{
    unsigned card;
    nvmlReturn_t result = check_device_out(device, degrees, &card);
    if (result != NVML_SUCCESS)
        return result;
    if (threshold == NVML_TEMPERATURE_THRESHOLD_SHUTDOWN)
        *degrees = sim_model()->slowdown_celsius + 3;
    else if (threshold == NVML_TEMPERATURE_THRESHOLD_SLOWDOWN)
        *degrees = sim_model()->slowdown_celsius;
    else
        return NVML_ERROR_NOT_SUPPORTED;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned int *milliwatts)
{
    unsigned card;
    nvmlReturn_t result = check_device_out(device, milliwatts, &card);
    if (result != NVML_SUCCESS)
        return result;
    const struct card_model *model = sim_model();
    *milliwatts = model->power_idle_mw + (model->power_limit_mw - model->power_idle_mw) / 100 * work_percent(card);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPowerManagementLimit(nvmlDevice_t device, unsigned int *milliwatts)
{
    unsigned card;
    nvmlReturn_t result = check_device_out(device, milliwatts, &card);
    if (result == NVML_SUCCESS)
        *milliwatts = sim_model()->power_limit_mw;
    return result;
}

nvmlReturn_t nvmlDeviceGetPowerManagementDefaultLimit(nvmlDevice_t device, unsigned int *milliwatts)
{
    return nvmlDeviceGetPowerManagementLimit(device, milliwatts);
}

nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device, unsigned int *milliwatts)
{
    return nvmlDeviceGetPowerManagementLimit(device, milliwatts);
}

nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t device, unsigned int *least, unsigned int *most)
{
    unsigned card;
    nvmlReturn_t result = check_device_out(device, least && most ? least : NULL, &card);
    if (result == NVML_SUCCESS) {
        *least = sim_model()->power_limit_mw / 2;
        *most = sim_model()->power_limit_mw;
    }
    return result;
}

nvmlReturn_t nvmlDeviceGetPowerManagementMode(nvmlDevice_t device, nvmlEnableState_t *mode)
{
    unsigned card;
    nvmlReturn_t result = check_device_out(device, mode, &card);
    if (result == NVML_SUCCESS)
        *mode = NVML_FEATURE_ENABLED;
    return result;
}

nvmlReturn_t nvmlDeviceGetPerformanceState(nvmlDevice_t device, nvmlPstates_t *state)
{
    unsigned card;
    nvmlReturn_t result = check_device_out(device, state, &card);
    if (result == NVML_SUCCESS)
        *state = work_percent(card) > 0 || sim_state()->cards[card].used > 0 ? NVML_PSTATE_0 : NVML_PSTATE_8;
    return result;
}

nvmlReturn_t nvmlDeviceGetPowerState(nvmlDevice_t device, nvmlPstates_t *state)
{
    return nvmlDeviceGetPerformanceState(device, state);
}

nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device, unsigned long long *millijoules)
{
    unsigned card;
    nvmlReturn_t result = check_device_out(device, millijoules, &card);
    if (result != NVML_SUCCESS)
        return result;
    const struct card_model *model = sim_model();
    sim_lock();
    sim_bring_up(card);
    uint64_t busy_ms = sim_state()->cards[card].engine.busy / 1000000u, ms = sim_now() / 1000000u;
    sim_unlock();
    *millijoules = ms * model->power_idle_mw / 1000 + busy_ms * (model->power_limit_mw - model->power_idle_mw) / 1000;
    return NVML_SUCCESS;
}

// These cards are cooled by their server.
nvmlReturn_t nvmlDeviceGetNumFans(nvmlDevice_t device, unsigned int *fans)
{
    unsigned card;
    nvmlReturn_t result = check_device_out(device, fans, &card);
    if (result == NVML_SUCCESS)
        *fans = 0;
    return result;
}
