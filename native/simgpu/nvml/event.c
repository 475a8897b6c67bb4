// Event sets: an XID that is raised on a card (hamisim_raise_xid) reaches every set that watches the card from then on.
#define _GNU_SOURCE
#include "nvml_sim.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SET_MAGIC UINT64_C(0x5345544e45564548)

struct set {
    uint64_t magic;
    bool watches[SIM_MAX_CARDS];
    uint64_t seen[SIM_MAX_CARDS]; // XIDs of the card that were there before or were given out
};

static struct set *set_of(nvmlEventSet_t handle)
{
    struct set *set = (struct set *)handle;
    return set && set->magic == SET_MAGIC ? set : NULL;
}

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *out)
{
    nvmlReturn_t result = check_init();
    if (result != NVML_SUCCESS)
        return result;
    struct set *set = out ? calloc(1, sizeof *set) : NULL;
    if (!set)
        return out ? NVML_ERROR_MEMORY : NVML_ERROR_INVALID_ARGUMENT;
    set->magic = SET_MAGIC;
    *out = (nvmlEventSet_t)set;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t handle)
{
    nvmlReturn_t result = check_init();
    if (result != NVML_SUCCESS)
        return result;
    struct set *set = set_of(handle);
    if (!set)
        return NVML_ERROR_INVALID_ARGUMENT;
    set->magic = 0;
    free(set);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long *types)
{
    unsigned card;
    nvmlReturn_t result = check_device_out(device, types, &card);
    if (result == NVML_SUCCESS)
        *types = nvmlEventTypeXidCriticalError | nvmlEventTypeSingleBitEccError | nvmlEventTypeDoubleBitEccError;
    return result;
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types, nvmlEventSet_t handle)
{
    unsigned card;
    nvmlReturn_t result = check_device(device, &card);
    if (result != NVML_SUCCESS)
        return result;
    struct set *set = set_of(handle);
    if (!set || types == 0)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!(types & nvmlEventTypeXidCriticalError) || set->watches[card])
        return NVML_SUCCESS;
    sim_lock();
    set->seen[card] = sim_state()->cards[card].xid_count;
    sim_unlock();
    set->watches[card] = true;
    return NVML_SUCCESS;
}

static bool take(struct set *set, nvmlEventData_t *data)
{
    bool found = false;
    sim_lock();
    for (unsigned card = 0; card < sim_state()->card_count && !found; card++) {
        const struct sim_card *c = &sim_state()->cards[card];
        if (!set->watches[card] || set->seen[card] == c->xid_count)
            continue;
        if (c->xid_count - set->seen[card] > SIM_MAX_XIDS)
            set->seen[card] = c->xid_count - SIM_MAX_XIDS;
        uint64_t code = c->xids[set->seen[card]++ % SIM_MAX_XIDS].code;
        *data = (nvmlEventData_t){device_handle(card), nvmlEventTypeXidCriticalError, code, 0xFFFFFFFFu, 0xFFFFFFFFu};
        found = true;
    }
    sim_unlock();
    return found;
}

static uint64_t monotonic_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t handle, nvmlEventData_t *data, unsigned int timeout_ms)
{
    nvmlReturn_t result = check_init();
    if (result != NVML_SUCCESS)
        return result;
    struct set *set = set_of(handle);
    if (!set || !data)
        return NVML_ERROR_INVALID_ARGUMENT;
    uint64_t end = monotonic_ms() + timeout_ms;
    for (;;) {
        uint32_t events = atomic_load(&sim_state()->event_count);
        if (take(set, data))
            return NVML_SUCCESS;
        uint64_t now = monotonic_ms();
        if (now >= end)
            return NVML_ERROR_TIMEOUT;
        uint64_t left = end - now;
        struct timespec wait = {.tv_sec = (time_t)(left / 1000), .tv_nsec = (long)(left % 1000) * 1000000};
        syscall(SYS_futex, &sim_state()->event_count, FUTEX_WAIT, events, &wait, NULL, 0);
    }
}

nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeout_ms)
{
    return nvmlEventSetWait_v2(set, data, timeout_ms);
}
