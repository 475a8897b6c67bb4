// Devices: names, numbers and identities.  Attributes are in device_attribute.c.
#include "driver.h"

#include <stdio.h>
#include <string.h>

// check_init, then the device's card.
static CUresult find(CUdevice device, unsigned *card)
{
    CUresult result = check_init();
    if (result != CUDA_SUCCESS)
        return result;
    return device_card(device, card) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetCount(int *count)
{
    CUresult result = check_init();
    if (result != CUDA_SUCCESS)
        return result;
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    *count = device_count();
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    unsigned card;
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = find(ordinal, &card);
    if (result == CUDA_SUCCESS)
        *device = ordinal;
    return result;
}

CUresult cuDeviceGetName(char *name, int length, CUdevice device)
{
    unsigned card;
    if (!name || length <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = find(device, &card);
    if (result == CUDA_SUCCESS)
        snprintf(name, (size_t)length, "%s", sim_model()->name);
    return result;
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
    unsigned card;
    if (!uuid)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = find(device, &card);
    if (result != CUDA_SUCCESS)
        return result;
    uint8_t bytes[16];
    card_uuid(sim_model(), card, bytes);
    memcpy(uuid->bytes, bytes, sizeof bytes);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
    return cuDeviceGetUuid_v2(uuid, device);
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    unsigned card;
    if (!bytes)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = find(device, &card);
    if (result == CUDA_SUCCESS)
        *bytes = sim_model()->vram_mib * MIB;
    return result;
}

CUresult cuDeviceTotalMem(unsigned int *bytes, CUdevice device)
{
    size_t total;
    CUresult result = bytes ? cuDeviceTotalMem_v2(&total, device) : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *bytes = total > UINT32_MAX ? UINT32_MAX : (unsigned)total;
    return result;
}

CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device)
{
    unsigned card;
    if (!major || !minor)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = find(device, &card);
    if (result == CUDA_SUCCESS) {
        *major = sim_model()->major;
        *minor = sim_model()->minor;
    }
    return result;
}

CUresult cuDeviceGetPCIBusId(char *text, int length, CUdevice device)
{
    unsigned card;
    if (!text || length <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = find(device, &card);
    if (result == CUDA_SUCCESS)
        snprintf(text, (size_t)length, "0000:%02X:00.0", card_pci_bus(card));
    return result;
}

CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *text)
{
    CUresult result = check_init();
    if (result != CUDA_SUCCESS)
        return result;
    unsigned domain = 0, bus, slot, function = 0;
    if (!device || !text)
        return CUDA_ERROR_INVALID_VALUE;
    if (sscanf(text, "%x:%x:%x.%x", &domain, &bus, &slot, &function) < 3) {
        domain = function = 0;
        if (sscanf(text, "%x:%x.%x", &bus, &slot, &function) < 2)
            return CUDA_ERROR_INVALID_VALUE;
    }
    for (int i = 0; i < device_count(); i++) {
        unsigned card;
        device_card(i, &card);
        if (domain == 0 && slot == 0 && function == 0 && bus == card_pci_bus(card)) {
            *device = i;
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetLuid(char *luid, unsigned int *mask, CUdevice device)
{
    (void)luid, (void)mask, (void)device;
    return CUDA_ERROR_NOT_SUPPORTED; // Windows only
}

CUresult cuDeviceGetExecAffinitySupport(int *supported, CUexecAffinityType type, CUdevice device)
{
    unsigned card;
    if (!supported || type != CU_EXEC_AFFINITY_TYPE_SM_COUNT)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = find(device, &card);
    if (result == CUDA_SUCCESS)
        *supported = 0;
    return result;
}

CUresult cuDeviceGetTexture1DLinearMaxWidth(size_t *elements, CUarray_format format, unsigned channels, CUdevice device)
{
    unsigned card;
    (void)format;
    if (!elements || channels == 0)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = find(device, &card);
    if (result == CUDA_SUCCESS)
        *elements = (size_t)1 << 27;
    return result;
}
