// The cards that NVML shows: the slice's, in NVML's order, counted from 0.  Handles are the real ones.
// Neighbours: nvml_memory.c and nvml_processes.c say what is on them.
#include "cards.h"
#include "driver.h"
#include "slice.h"

static nvmlReturn_t start(nvmlReturn_t (*real)(void))
{
    return nvml_enter() == DRIVER_REFUSE ? NVML_ERROR_NO_PERMISSION : real();
}

nvmlReturn_t nvmlInit(void)
{
    nvml_enter();
    return start(NVML_REAL(nvmlInit));
}

nvmlReturn_t nvmlInit_v2(void)
{
    nvml_enter();
    return start(NVML_REAL(nvmlInit_v2));
}

nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
    return nvml_enter() == DRIVER_REFUSE ? NVML_ERROR_NO_PERMISSION : NVML_REAL(nvmlInitWithFlags)(flags);
}

static bool is_ours(nvmlDevice_t handle)
{
    return cards_of_nvml(handle) >= 0;
}

// The wanted-th card of the slice; counts them all if there are fewer.  Handles of cards that are lost are skipped.
static nvmlReturn_t walk(unsigned wanted, nvmlDevice_t *out, unsigned *count)
{
    unsigned real_count = 0;
    *count = 0;
    nvmlReturn_t result = NVML_REAL(nvmlDeviceGetCount_v2)(&real_count);
    for (unsigned i = 0; result == NVML_SUCCESS && i < real_count; i++) {
        nvmlDevice_t handle;
        nvmlReturn_t got = NVML_REAL(nvmlDeviceGetHandleByIndex_v2)(i, &handle);
        if (got != NVML_SUCCESS || !is_ours(handle))
            continue;
        if ((*count)++ == wanted) {
            *out = handle;
            return NVML_SUCCESS;
        }
    }
    return result == NVML_SUCCESS ? NVML_ERROR_INVALID_ARGUMENT : result;
}

static nvmlReturn_t count_cards(unsigned *deviceCount)
{
    nvmlDevice_t unused;
    unsigned count;
    if (!deviceCount)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t result = walk(UINT32_MAX, &unused, &count);
    if (result != NVML_ERROR_INVALID_ARGUMENT)
        return result;
    *deviceCount = count;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCount(unsigned int *deviceCount)
{
    return nvml_enter() == DRIVER_ACTIVE ? count_cards(deviceCount) : NVML_REAL(nvmlDeviceGetCount)(deviceCount);
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *deviceCount)
{
    return nvml_enter() == DRIVER_ACTIVE ? count_cards(deviceCount) : NVML_REAL(nvmlDeviceGetCount_v2)(deviceCount);
}

static nvmlReturn_t handle_by_index(unsigned index, nvmlDevice_t *device)
{
    unsigned count;
    return device ? walk(index, device, &count) : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *device)
{
    return nvml_enter() == DRIVER_ACTIVE ? handle_by_index(index, device)
                                         : NVML_REAL(nvmlDeviceGetHandleByIndex)(index, device);
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
    return nvml_enter() == DRIVER_ACTIVE ? handle_by_index(index, device)
                                         : NVML_REAL(nvmlDeviceGetHandleByIndex_v2)(index, device);
}

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index)
{
    enum driver_mode mode = nvml_enter();
    nvmlReturn_t result = NVML_REAL(nvmlDeviceGetIndex)(device, index);
    if (result != NVML_SUCCESS || mode != DRIVER_ACTIVE)
        return result;
    nvmlDevice_t handle;
    unsigned count = 0;
    for (unsigned i = 0; walk(i, &handle, &count) == NVML_SUCCESS; i++) {
        if (handle == device) {
            *index = i;
            break;
        }
    }
    return result;
}

// A card of somebody else isn't there.
static nvmlReturn_t only_ours(nvmlReturn_t result, nvmlDevice_t *device)
{
    if (result != NVML_SUCCESS || nvml_enter() != DRIVER_ACTIVE || is_ours(*device))
        return result;
    *device = NULL;
    return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
    nvml_enter();
    return only_ours(NVML_REAL(nvmlDeviceGetHandleByUUID)(uuid, device), device);
}

nvmlReturn_t nvmlDeviceGetHandleByUUIDV(const nvmlUUID_t *uuid, nvmlDevice_t *device)
{
    nvml_enter();
    return only_ours(NVML_REAL(nvmlDeviceGetHandleByUUIDV)(uuid, device), device);
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *pciBusId, nvmlDevice_t *device)
{
    nvml_enter();
    return only_ours(NVML_REAL(nvmlDeviceGetHandleByPciBusId)(pciBusId, device), device);
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *pciBusId, nvmlDevice_t *device)
{
    nvml_enter();
    return only_ours(NVML_REAL(nvmlDeviceGetHandleByPciBusId_v2)(pciBusId, device), device);
}

nvmlReturn_t nvmlDeviceGetHandleBySerial(const char *serial, nvmlDevice_t *device)
{
    nvml_enter();
    return only_ours(NVML_REAL(nvmlDeviceGetHandleBySerial)(serial, device), device);
}

// Lists of handles: `count` is what the caller has room for, then what there is.  A caller that only asks for the size is told
// the real one, which is room enough.
static nvmlReturn_t keep_ours(nvmlReturn_t result, unsigned *count, nvmlDevice_t *devices)
{
    if (result != NVML_SUCCESS || nvml_enter() != DRIVER_ACTIVE || !devices)
        return result;
    unsigned kept = 0;
    for (unsigned i = 0; i < *count; i++)
        if (is_ours(devices[i]))
            devices[kept++] = devices[i];
    *count = kept;
    return result;
}

nvmlReturn_t nvmlSystemGetTopologyGpuSet(unsigned int cpuNumber, unsigned int *count, nvmlDevice_t *deviceArray)
{
    nvml_enter();
    return keep_ours(NVML_REAL(nvmlSystemGetTopologyGpuSet)(cpuNumber, count, deviceArray), count, deviceArray);
}

nvmlReturn_t nvmlDeviceGetTopologyNearestGpus(nvmlDevice_t device, nvmlGpuTopologyLevel_t level, unsigned int *count,
                                              nvmlDevice_t *deviceArray)
{
    nvml_enter();
    return keep_ours(NVML_REAL(nvmlDeviceGetTopologyNearestGpus)(device, level, count, deviceArray), count,
                     deviceArray);
}

nvmlReturn_t nvmlUnitGetDevices(nvmlUnit_t unit, unsigned int *deviceCount, nvmlDevice_t *devices)
{
    nvml_enter();
    return keep_ours(NVML_REAL(nvmlUnitGetDevices)(unit, deviceCount, devices), deviceCount, devices);
}
