// Finding cards, and who they are.  CUDA_VISIBLE_DEVICES means nothing here, as with a real card.
#include "nvml_sim.h"

#include <string.h>
#include <strings.h>

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count)
{
    nvmlReturn_t result = check_init();
    if (result != NVML_SUCCESS)
        return result;
    if (!count)
        return NVML_ERROR_INVALID_ARGUMENT;
    *count = sim_state()->card_count;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCount(unsigned int *count)
{
    return nvmlDeviceGetCount_v2(count);
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
    nvmlReturn_t result = check_init();
    if (result != NVML_SUCCESS)
        return result;
    if (!device || index >= sim_state()->card_count)
        return NVML_ERROR_INVALID_ARGUMENT;
    *device = device_handle(index);
    return reach(index);
}

nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *device)
{
    return nvmlDeviceGetHandleByIndex_v2(index, device);
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
    nvmlReturn_t result = check_init();
    if (result != NVML_SUCCESS)
        return result;
    if (!uuid || !device)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (unsigned card = 0; card < sim_state()->card_count; card++) {
        char text[41];
        card_uuid_text(sim_model(), card, text);
        if (strcasecmp(uuid, text) == 0) {
            *device = device_handle(card);
            return reach(card);
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetHandleByUUIDV(const nvmlUUID_t *uuid, nvmlDevice_t *device)
{
    nvmlReturn_t result = check_init();
    if (result != NVML_SUCCESS)
        return result;
    if (!uuid || !device)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (uuid->version != nvmlUUID_v1)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (uuid->type == NVML_UUID_TYPE_ASCII)
        return nvmlDeviceGetHandleByUUID(uuid->value.str, device);
    if (uuid->type != NVML_UUID_TYPE_BINARY)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (unsigned card = 0; card < sim_state()->card_count; card++) {
        uint8_t bytes[16];
        card_uuid(sim_model(), card, bytes);
        if (memcmp(bytes, uuid->value.bytes, sizeof bytes) == 0) {
            *device = device_handle(card);
            return reach(card);
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

// Ten digits, as on the board.
static void serial_of(unsigned card, char text[16])
{
    uint8_t bytes[16];
    card_uuid(sim_model(), card, bytes);
    unsigned number = ((unsigned)bytes[0] << 16 | (unsigned)bytes[1] << 8 | bytes[2]) % 100000000u;
    snprintf(text, 16, "15%08u", number);
}

nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t device, char *serial, unsigned int length)
{
    unsigned card;
    nvmlReturn_t result = check_device(device, &card);
    if (result != NVML_SUCCESS)
        return result;
    char text[16];
    serial_of(card, text);
    return give_text(serial, length, text);
}

nvmlReturn_t nvmlDeviceGetHandleBySerial(const char *serial, nvmlDevice_t *device)
{
    nvmlReturn_t result = check_init();
    if (result != NVML_SUCCESS)
        return result;
    if (!serial || !device)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (unsigned card = 0; card < sim_state()->card_count; card++) {
        char text[16];
        serial_of(card, text);
        if (strcmp(serial, text) == 0) {
            *device = device_handle(card);
            return reach(card);
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index)
{
    unsigned card;
    nvmlReturn_t result = check_device_out(device, index, &card);
    if (result == NVML_SUCCESS)
        *index = card;
    return result;
}

nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int *minor)
{
    return nvmlDeviceGetIndex(device, minor);
}

nvmlReturn_t nvmlDeviceGetModuleId(nvmlDevice_t device, unsigned int *module)
{
    return nvmlDeviceGetIndex(device, module);
}

nvmlReturn_t nvmlDeviceGetBoardId(nvmlDevice_t device, unsigned int *board)
{
    unsigned card;
    nvmlReturn_t result = check_device_out(device, board, &card);
    if (result == NVML_SUCCESS)
        *board = card_pci_bus(card) << 8;
    return result;
}

nvmlReturn_t nvmlDeviceGetMultiGpuBoard(nvmlDevice_t device, unsigned int *multi)
{
    unsigned card;
    nvmlReturn_t result = check_device_out(device, multi, &card);
    if (result == NVML_SUCCESS)
        *multi = 0;
    return result;
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length)
{
    unsigned card;
    nvmlReturn_t result;
    if (mig_name(device, name, length, &result))
        return result;
    result = check_device(device, &card);
    return result == NVML_SUCCESS ? give_text(name, length, sim_model()->name) : result;
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length)
{
    unsigned card;
    nvmlReturn_t result;
    if (mig_uuid(device, uuid, length, &result))
        return result;
    result = check_device(device, &card);
    if (result != NVML_SUCCESS)
        return result;
    char text[41];
    card_uuid_text(sim_model(), card, text);
    return give_text(uuid, length, text);
}

nvmlReturn_t nvmlDeviceGetBrand(nvmlDevice_t device, nvmlBrandType_t *brand)
{
    unsigned card;
    nvmlReturn_t result = check_device_out(device, brand, &card);
    if (result == NVML_SUCCESS)
        *brand = (nvmlBrandType_t)sim_model()->brand;
    return result;
}

nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t device, nvmlDeviceArchitecture_t *architecture)
{
    unsigned card;
    nvmlReturn_t result = check_device_out(device, architecture, &card);
    if (result == NVML_SUCCESS)
        *architecture = sim_model()->architecture;
    return result;
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
    unsigned card;
    nvmlReturn_t result = check_device_out(device, major && minor ? major : NULL, &card);
    if (result == NVML_SUCCESS) {
        *major = sim_model()->major;
        *minor = sim_model()->minor;
    }
    return result;
}

static unsigned cores_per_sm(const struct card_model *model)
{
    return model->major == 8 && model->minor != 0 ? 128 : model->major == 9 ? 128 : 64;
}

nvmlReturn_t nvmlDeviceGetNumGpuCores(nvmlDevice_t device, unsigned int *cores)
{
    unsigned card;
    nvmlReturn_t result = check_device_out(device, cores, &card);
    if (result == NVML_SUCCESS)
        *cores = (unsigned)sim_model()->sm_count * cores_per_sm(sim_model());
    return result;
}

nvmlReturn_t nvmlDeviceGetVbiosVersion(nvmlDevice_t device, char *version, unsigned int length)
{
    unsigned card;
    nvmlReturn_t result = check_device(device, &card);
    return result == NVML_SUCCESS ? give_text(version, length, "90.04.96.00.A0") : result;
}

nvmlReturn_t nvmlDeviceGetBoardPartNumber(nvmlDevice_t device, char *number, unsigned int length)
{
    unsigned card;
    nvmlReturn_t result = check_device(device, &card);
    return result == NVML_SUCCESS ? give_text(number, length, "900-00000-0000-000") : result;
}

nvmlReturn_t nvmlDeviceGetInforomImageVersion(nvmlDevice_t device, char *version, unsigned int length)
{
    unsigned card;
    nvmlReturn_t result = check_device(device, &card);
    return result == NVML_SUCCESS ? give_text(version, length, "G183.0200.00.02") : result;
}
