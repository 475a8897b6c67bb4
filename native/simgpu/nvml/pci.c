// Where a card sits.
#include "nvml_sim.h"

#include <string.h>

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *text, nvmlDevice_t *device)
{
    nvmlReturn_t result = check_init();
    if (result != NVML_SUCCESS)
        return result;
    unsigned domain = 0, bus, slot, function = 0;
    if (!text || !device)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (sscanf(text, "%x:%x:%x.%x", &domain, &bus, &slot, &function) < 3)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (unsigned card = 0; card < sim_state()->card_count; card++) {
        if (domain == 0 && slot == 0 && bus == card_pci_bus(card)) {
            *device = device_handle(card);
            return NVML_SUCCESS;
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *text, nvmlDevice_t *device)
{
    return nvmlDeviceGetHandleByPciBusId_v2(text, device);
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    unsigned card;
    nvmlReturn_t result = check_device_out(device, pci, &card);
    if (result != NVML_SUCCESS)
        return result;
    memset(pci, 0, sizeof *pci);
    pci->bus = card_pci_bus(card);
    pci->pciDeviceId = sim_model()->pci_device;
    pci->pciSubSystemId = sim_model()->pci_subsystem;
    snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "0000:%02X:00.0", pci->bus);
    snprintf(pci->busId, sizeof pci->busId, "00000000:%02X:00.0", pci->bus);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    return nvmlDeviceGetPciInfo_v3(device, pci);
}

nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    return nvmlDeviceGetPciInfo_v3(device, pci);
}

nvmlReturn_t nvmlDeviceGetPciInfoExt(nvmlDevice_t device, nvmlPciInfoExt_t *pci)
{
    unsigned card;
    nvmlReturn_t result = check_device_out(device, pci, &card);
    if (result != NVML_SUCCESS)
        return result;
    if (pci->version != nvmlPciInfoExt_v1)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    memset(pci, 0, sizeof *pci);
    pci->version = nvmlPciInfoExt_v1;
    pci->bus = card_pci_bus(card);
    pci->pciDeviceId = sim_model()->pci_device;
    pci->pciSubSystemId = sim_model()->pci_subsystem;
    pci->baseClass = 3; // display controller
    pci->subClass = 2;  // 3D
    snprintf(pci->busId, sizeof pci->busId, "00000000:%02X:00.0", pci->bus);
    return NVML_SUCCESS;
}

static nvmlReturn_t give(nvmlDevice_t device, unsigned *out, unsigned value)
{
    unsigned card;
    nvmlReturn_t result = check_device_out(device, out, &card);
    if (result == NVML_SUCCESS)
        *out = value;
    return result;
}

nvmlReturn_t nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t device, unsigned int *generation)
{
    return give(device, generation, sim_state() ? sim_model()->pcie_generation : 0);
}

nvmlReturn_t nvmlDeviceGetMaxPcieLinkGeneration(nvmlDevice_t device, unsigned int *generation)
{
    return nvmlDeviceGetCurrPcieLinkGeneration(device, generation);
}

nvmlReturn_t nvmlDeviceGetGpuMaxPcieLinkGeneration(nvmlDevice_t device, unsigned int *generation)
{
    return nvmlDeviceGetCurrPcieLinkGeneration(device, generation);
}

nvmlReturn_t nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t device, unsigned int *width)
{
    return give(device, width, 16);
}

nvmlReturn_t nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice_t device, unsigned int *width)
{
    return give(device, width, 16);
}

nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t device, nvmlPcieUtilCounter_t counter,
                                         unsigned int *kib_per_second)
{
    (void)counter;
    return give(device, kib_per_second, 0);
}

nvmlReturn_t nvmlDeviceGetPcieReplayCounter(nvmlDevice_t device, unsigned int *replays)
{
    return give(device, replays, 0);
}

nvmlReturn_t nvmlDeviceGetBusType(nvmlDevice_t device, nvmlBusType_t *type)
{
    return give(device, type, NVML_BUS_TYPE_PCIE);
}

nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t device, nvmlDevice_t other, nvmlGpuTopologyLevel_t *level)
{
    unsigned card, other_card;
    nvmlReturn_t result = check_device_out(device, level, &card);
    if (result == NVML_SUCCESS)
        result = check_device(other, &other_card);
    if (result == NVML_SUCCESS)
        *level = card == other_card ? NVML_TOPOLOGY_INTERNAL : NVML_TOPOLOGY_HOSTBRIDGE;
    return result;
}

nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t device, nvmlDevice_t other, nvmlGpuP2PCapsIndex_t index,
                                    nvmlGpuP2PStatus_t *status)
{
    (void)index;
    unsigned card, other_card;
    nvmlReturn_t result = check_device_out(device, status, &card);
    if (result == NVML_SUCCESS)
        result = check_device(other, &other_card);
    if (result == NVML_SUCCESS)
        *status = NVML_P2P_STATUS_NOT_SUPPORTED;
    return result;
}
