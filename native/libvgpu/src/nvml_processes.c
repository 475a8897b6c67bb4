// The processes that NVML shows: those of the slice, known by their slots in the usage page.
// Each list is read in full from the real NVML, thinned out, and handed on by the rules that NVML has for the caller's array.
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "cards.h"
#include "driver.h"
#include "ledger.h"
#include "life.h"
#include "member.h"
#include "process.h"
#include "slice.h"

#define SPARE 64 // processes that may appear between two calls

// Members whose PIDs count in another namespace are seen neither by NVML nor by us.
static bool is_member(unsigned pid)
{
    struct hami_usage *usage = slice()->usage;
    unsigned high = ledger_high(usage);
    for (unsigned i = 0; i < high; i++) {
        uint64_t owner = atomic_load(&usage->processes[i].owner), view = atomic_load(&usage->processes[i].view);
        if (owner && process_pid(owner) == pid && (view == 0 || view == life_view()))
            return true;
    }
    return false;
}

// Move the members' items to the front; an item starts at `pid_offset` with its PID.  Returns how many.
static unsigned keep_members(void *items, unsigned count, size_t size, size_t pid_offset)
{
    unsigned kept = 0;
    char *bytes = items;
    member_reap(false);
    for (unsigned i = 0; i < count; i++) {
        unsigned pid;
        memcpy(&pid, bytes + i * size + pid_offset, sizeof pid);
        if (!is_member(pid))
            continue;
        memmove(bytes + kept * size, bytes + i * size, size);
        kept++;
    }
    return kept;
}

// NVML's rule: too small an array is told the size it should have.
static nvmlReturn_t hand_over(const void *items, unsigned kept, size_t size, unsigned *count, void *out)
{
    unsigned room = *count;
    *count = kept;
    if (kept > room || (kept && !out))
        return NVML_ERROR_INSUFFICIENT_SIZE;
    if (kept)
        memcpy(out, items, kept * size);
    return NVML_SUCCESS;
}

typedef nvmlReturn_t (*list_call)(nvmlDevice_t, unsigned *, void *);

static nvmlReturn_t list(list_call real, size_t size, nvmlDevice_t device, unsigned *count, void *infos)
{
    if (nvml_enter() != DRIVER_ACTIVE || !count)
        return real(device, count, infos);
    unsigned room = 0;
    nvmlReturn_t result = real(device, &room, NULL);
    if (result != NVML_SUCCESS && result != NVML_ERROR_INSUFFICIENT_SIZE)
        return result;
    room += SPARE;
    void *all = calloc(room, size);
    if (!all)
        return NVML_ERROR_MEMORY;
    result = real(device, &room, all);
    if (result == NVML_SUCCESS)
        result = hand_over(all, keep_members(all, room, size, 0), size, count, infos);
    free(all);
    return result;
}

#define PROCESS_LIST(function, type)                                                                                   \
    nvmlReturn_t function(nvmlDevice_t device, unsigned int *infoCount, type *infos)                                   \
    {                                                                                                                  \
        nvml_enter();                                                                                                  \
        return list((list_call)NVML_REAL(function), sizeof(type), device, infoCount, infos);                           \
    }

PROCESS_LIST(nvmlDeviceGetComputeRunningProcesses, nvmlProcessInfo_v1_t)
PROCESS_LIST(nvmlDeviceGetComputeRunningProcesses_v2, nvmlProcessInfo_v2_t)
PROCESS_LIST(nvmlDeviceGetComputeRunningProcesses_v3, nvmlProcessInfo_t)
PROCESS_LIST(nvmlDeviceGetGraphicsRunningProcesses, nvmlProcessInfo_v1_t)
PROCESS_LIST(nvmlDeviceGetGraphicsRunningProcesses_v2, nvmlProcessInfo_v2_t)
PROCESS_LIST(nvmlDeviceGetGraphicsRunningProcesses_v3, nvmlProcessInfo_t)
PROCESS_LIST(nvmlDeviceGetMPSComputeRunningProcesses, nvmlProcessInfo_v1_t)
PROCESS_LIST(nvmlDeviceGetMPSComputeRunningProcesses_v2, nvmlProcessInfo_v2_t)
PROCESS_LIST(nvmlDeviceGetMPSComputeRunningProcesses_v3, nvmlProcessInfo_t)

nvmlReturn_t nvmlDeviceGetAccountingPids(nvmlDevice_t device, unsigned int *count, unsigned int *pids)
{
    nvml_enter();
    return list((list_call)NVML_REAL(nvmlDeviceGetAccountingPids), sizeof *pids, device, count, pids);
}

nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t device, nvmlProcessDetailList_t *plist)
{
    nvml_enter();
    nvmlReturn_t result = NVML_REAL(nvmlDeviceGetRunningProcessDetailList)(device, plist);
    // the caller's array holds them all when the call succeeds
    if (result == NVML_SUCCESS && nvml_enter() == DRIVER_ACTIVE && plist->procArray)
        plist->numProcArrayEntries = keep_members(plist->procArray, plist->numProcArrayEntries,
                                                  sizeof *plist->procArray, offsetof(nvmlProcessDetail_v1_t, pid));
    return result;
}

nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t *utilization,
                                             unsigned int *processSamplesCount, unsigned long long lastSeenTimeStamp)
{
    nvml_enter();
    nvmlReturn_t result =
        NVML_REAL(nvmlDeviceGetProcessUtilization)(device, utilization, processSamplesCount, lastSeenTimeStamp);
    if (result == NVML_SUCCESS && nvml_enter() == DRIVER_ACTIVE && utilization)
        *processSamplesCount = keep_members(utilization, *processSamplesCount, sizeof *utilization,
                                            offsetof(nvmlProcessUtilizationSample_t, pid));
    return result;
}

nvmlReturn_t nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t device,
                                                   nvmlProcessesUtilizationInfo_t *procesesUtilInfo)
{
    nvml_enter();
    nvmlReturn_t result = NVML_REAL(nvmlDeviceGetProcessesUtilizationInfo)(device, procesesUtilInfo);
    if (result == NVML_SUCCESS && nvml_enter() == DRIVER_ACTIVE && procesesUtilInfo->procUtilArray)
        procesesUtilInfo->processSamplesCount =
            keep_members(procesesUtilInfo->procUtilArray, procesesUtilInfo->processSamplesCount,
                         sizeof *procesesUtilInfo->procUtilArray, offsetof(nvmlProcessUtilizationInfo_v1_t, pid));
    return result;
}

nvmlReturn_t nvmlDeviceGetAccountingStats(nvmlDevice_t device, unsigned int pid, nvmlAccountingStats_t *stats)
{
    if (nvml_enter() == DRIVER_ACTIVE && !is_member(pid))
        return NVML_ERROR_NOT_FOUND;
    return NVML_REAL(nvmlDeviceGetAccountingStats)(device, pid, stats);
}

nvmlReturn_t nvmlDeviceGetAccountingStats_v2(nvmlDevice_t device, nvmlAccountingStats_v2_t *stats)
{
    if (nvml_enter() == DRIVER_ACTIVE && stats && !is_member(stats->pid))
        return NVML_ERROR_NOT_FOUND;
    return NVML_REAL(nvmlDeviceGetAccountingStats_v2)(device, stats);
}
