// Which processes hold a context on a card, and how much each holds.  PIDs are those of the caller's namespace, and what
// can't be seen from there isn't listed.
#define _GNU_SOURCE
#include "nvml_sim.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define NO_INSTANCE 0xFFFFFFFFu

struct holder {
    unsigned pid;
    unsigned long long bytes;
};

static unsigned find_holders(unsigned card, struct holder *holders)
{
    unsigned count = 0;
    sim_lists++;
    sim_lock();
    sim_reap();
    for (uint32_t slot = 0; slot < sim_state()->process_high; slot++) {
        const struct sim_process *process = &sim_state()->processes[slot];
        // without a context there may be physical memory, or what is left of a pool
        if (process->pid == 0 || (process->contexts[card] == 0 && process->held[card][SIM_SHOWN] == 0))
            continue;
        pid_t pid = sim_process_pid((int)slot);
        if (pid > 0)
            holders[count++] = (struct holder){(unsigned)pid, process->held[card][SIM_SHOWN]};
    }
    sim_unlock();
    return count;
}

// Room in, number out, as all three versions do it.
static nvmlReturn_t begin(nvmlDevice_t device, unsigned *room, const void *infos, struct holder *holders,
                          unsigned *count)
{
    unsigned card;
    nvmlReturn_t result = check_device_out(device, room, &card);
    if (result != NVML_SUCCESS)
        return result;
    *count = find_holders(card, holders);
    bool fits = *count <= *room && (infos || *count == 0);
    *room = *count;
    return fits ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_v1_t *infos)
{
    struct holder holders[SIM_MAX_PROCESSES];
    unsigned found = 0;
    nvmlReturn_t result = begin(device, count, infos, holders, &found);
    for (unsigned i = 0; result == NVML_SUCCESS && i < found; i++)
        infos[i] = (nvmlProcessInfo_v1_t){.pid = holders[i].pid, .usedGpuMemory = holders[i].bytes};
    return result;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned int *count,
                                                     nvmlProcessInfo_v2_t *infos)
{
    struct holder holders[SIM_MAX_PROCESSES];
    unsigned found = 0;
    nvmlReturn_t result = begin(device, count, infos, holders, &found);
    for (unsigned i = 0; result == NVML_SUCCESS && i < found; i++)
        infos[i] = (nvmlProcessInfo_v2_t){holders[i].pid, holders[i].bytes, NO_INSTANCE, NO_INSTANCE};
    return result;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos)
{
    return nvmlDeviceGetComputeRunningProcesses_v2(device, count, infos);
}

static nvmlReturn_t none(nvmlDevice_t device, unsigned *count)
{
    unsigned card;
    nvmlReturn_t result = check_device_out(device, count, &card);
    if (result == NVML_SUCCESS)
        *count = 0;
    return result;
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses(nvmlDevice_t device, unsigned int *count,
                                                   nvmlProcessInfo_v1_t *infos)
{
    (void)infos;
    return none(device, count);
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v2(nvmlDevice_t device, unsigned int *count,
                                                      nvmlProcessInfo_v2_t *infos)
{
    (void)infos;
    return none(device, count);
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned int *count,
                                                      nvmlProcessInfo_t *infos)
{
    (void)infos;
    return none(device, count);
}

nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses(nvmlDevice_t device, unsigned int *count,
                                                     nvmlProcessInfo_v1_t *infos)
{
    (void)infos;
    return none(device, count);
}

nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v2(nvmlDevice_t device, unsigned int *count,
                                                        nvmlProcessInfo_v2_t *infos)
{
    (void)infos;
    return none(device, count);
}

nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count,
                                                        nvmlProcessInfo_t *infos)
{
    (void)infos;
    return none(device, count);
}

nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t device, nvmlProcessDetailList_t *list)
{
    unsigned card, found = 0;
    nvmlReturn_t result = check_device_out(device, list, &card);
    if (result != NVML_SUCCESS)
        return result;
    if (list->version != nvmlProcessDetailList_v1)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (list->mode >= NVML_PROCESS_MODE_MAX)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (list->mode == NVML_PROCESS_MODE_GRAPHICS || list->mode == NVML_PROCESS_MODE_MPS) {
        list->numProcArrayEntries = 0;
        return NVML_SUCCESS;
    }
    struct holder holders[SIM_MAX_PROCESSES];
    result = begin(device, &list->numProcArrayEntries, list->procArray, holders, &found);
    for (unsigned i = 0; result == NVML_SUCCESS && i < found; i++)
        list->procArray[i] = (nvmlProcessDetail_v1_t){.pid = holders[i].pid,
                                                      .usedGpuMemory = holders[i].bytes,
                                                      .gpuInstanceId = NO_INSTANCE,
                                                      .computeInstanceId = NO_INSTANCE};
    return result;
}

nvmlReturn_t nvmlSystemGetProcessName(unsigned int pid, char *name, unsigned int length)
{
    nvmlReturn_t result = check_init();
    if (result != NVML_SUCCESS)
        return result;
    if (!name || length == 0)
        return NVML_ERROR_INVALID_ARGUMENT;
    char path[32], text[1024];
    snprintf(path, sizeof path, "/proc/%u/cmdline", pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return errno == ENOENT ? NVML_ERROR_NOT_FOUND : NVML_ERROR_NO_PERMISSION;
    ssize_t size = read(file, text, sizeof text - 1);
    close(file);
    if (size <= 0)
        return NVML_ERROR_NOT_FOUND; // a zombie
    text[size] = '\0';
    snprintf(name, length, "%s", text); // the first argument is the program
    return NVML_SUCCESS;
}

// Accounting is off.

nvmlReturn_t nvmlDeviceGetAccountingMode(nvmlDevice_t device, nvmlEnableState_t *mode)
{
    unsigned card;
    nvmlReturn_t result = check_device_out(device, mode, &card);
    if (result == NVML_SUCCESS)
        *mode = NVML_FEATURE_DISABLED;
    return result;
}
