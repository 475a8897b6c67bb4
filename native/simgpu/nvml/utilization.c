// How busy a card is, by its engine's own account over the last second.
#include "nvml_sim.h"

#include <time.h>

#define PERIOD_US 1000000u

static unsigned long long now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (unsigned long long)now.tv_sec * 1000000u + (unsigned long long)now.tv_nsec / 1000u;
}

static unsigned used_percent(unsigned card)
{
    return (unsigned)(sim_state()->cards[card].used * 100 / (sim_model()->vram_mib * MIB));
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *utilization)
{
    unsigned card;
    nvmlReturn_t result = check_device_out(device, utilization, &card);
    if (result != NVML_SUCCESS)
        return result;
    sim_lock();
    sim_reap();
    sim_bring_up(card);
    utilization->gpu = engine_percent(&sim_state()->cards[card].engine.usage, sim_now());
    // "Percent of time in which memory was read or written": with a simulated kernel, when it ran and there is memory.
    utilization->memory = utilization->gpu * used_percent(card) / 100;
    sim_unlock();
    return NVML_SUCCESS;
}

static nvmlReturn_t idle(nvmlDevice_t device, unsigned *utilization, unsigned *period)
{
    unsigned card;
    nvmlReturn_t result = check_device_out(device, utilization && period ? utilization : NULL, &card);
    if (result == NVML_SUCCESS) {
        *utilization = 0;
        *period = PERIOD_US;
    }
    return result;
}

nvmlReturn_t nvmlDeviceGetEncoderUtilization(nvmlDevice_t device, unsigned int *utilization, unsigned int *period)
{
    return idle(device, utilization, period);
}

nvmlReturn_t nvmlDeviceGetDecoderUtilization(nvmlDevice_t device, unsigned int *utilization, unsigned int *period)
{
    return idle(device, utilization, period);
}

nvmlReturn_t nvmlDeviceGetJpgUtilization(nvmlDevice_t device, unsigned int *utilization, unsigned int *period)
{
    return idle(device, utilization, period);
}

nvmlReturn_t nvmlDeviceGetOfaUtilization(nvmlDevice_t device, unsigned int *utilization, unsigned int *period)
{
    return idle(device, utilization, period);
}

nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t *samples,
                                             unsigned int *count, unsigned long long since)
{
    (void)since;
    unsigned card, found = 0;
    nvmlReturn_t result = check_device_out(device, count, &card);
    if (result != NVML_SUCCESS)
        return result;
    unsigned long long now = now_us();
    sim_lock();
    sim_reap();
    sim_bring_up(card);
    for (uint32_t slot = 0; slot < sim_state()->process_high; slot++) {
        const struct sim_process *process = &sim_state()->processes[slot];
        unsigned percent = process->pid ? engine_percent(&process->work[card].usage, sim_now()) : 0;
        pid_t pid = percent ? sim_process_pid((int)slot) : 0;
        if (pid <= 0)
            continue;
        if (samples && found < *count)
            samples[found] = (nvmlProcessUtilizationSample_t){(unsigned)pid, now, percent, 0, 0, 0};
        found++;
    }
    sim_unlock();
    bool fits = samples ? found <= *count : found == 0;
    *count = found;
    if (!fits)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    return found ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}
