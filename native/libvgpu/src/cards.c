#include "cards.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "driver.h"
#include "env_limits.h"
#include "slice.h"

#define MAX_DEVICES        64
#define MAX_HANDLES        128
#define NVML_RETRY_SECONDS 1

static _Atomic int index_of_device[MAX_DEVICES];   // card index + 4, 0: not asked yet
static _Atomic int device_of_card[HAMI_MAX_CARDS]; // CUdevice + 1, 0: none seen

static pthread_mutex_t nvml_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic bool nvml_ready;
static struct {
    nvmlDevice_t handle;
    int card;
} handles[MAX_HANDLES];
static _Atomic int handle_count;
static _Atomic bool named; // environment limits have got their UUIDs

// ---- UUIDs -----------------------------------------------------------------------------------------------------

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// "GPU-8 hex-4-4-4-12" or "MIG-..." as 16 bytes.
static bool parse_uuid(const char *text, unsigned char bytes[16])
{
    const char *digits = strchr(text, '-');
    int count = 0;
    for (const char *c = digits ? digits : text; *c; c++) {
        if (*c == '-')
            continue;
        int digit = hex_digit(*c);
        if (digit < 0 || count == 32)
            return false;
        if (count % 2 == 0)
            bytes[count / 2] = (unsigned char)(digit << 4);
        else
            bytes[count / 2] |= (unsigned char)digit;
        count++;
    }
    return count == 32;
}

static int card_of_uuid(const unsigned char uuid[16])
{
    const struct hami_limits *limits = slice()->limits;
    for (uint32_t i = 0; i < limits->card_count && i < HAMI_MAX_CARDS; i++) {
        unsigned char own[16];
        if (parse_uuid(limits->cards[i].uuid, own) && memcmp(own, uuid, 16) == 0)
            return (int)i;
    }
    return CARD_FOREIGN;
}

static void name_cards_by_nvml(void)
{
    unsigned count = 0;
    if (NVML_REAL(nvmlDeviceGetCount_v2)(&count) != NVML_SUCCESS)
        return;
    for (unsigned i = 0; i < count; i++) {
        nvmlDevice_t handle;
        char uuid[96];
        if (NVML_REAL(nvmlDeviceGetHandleByIndex_v2)(i, &handle) == NVML_SUCCESS &&
            NVML_REAL(nvmlDeviceGetUUID)(handle, uuid, sizeof uuid) == NVML_SUCCESS)
            env_limits_name_card(i, uuid);
    }
}

static bool device_uuid(CUdevice device, unsigned char uuid[16])
{
    CUuuid real;
    CUresult result =
        CUDA_HAS(cuDeviceGetUuid_v2) ? REAL(cuDeviceGetUuid_v2)(&real, device) : REAL(cuDeviceGetUuid)(&real, device);
    memcpy(uuid, real.bytes, 16);
    return result == CUDA_SUCCESS;
}

static void name_cards_by_cuda(void)
{
    int count = 0;
    if (!cuda_bound() || REAL(cuDeviceGetCount)(&count) != CUDA_SUCCESS)
        return;
    for (int i = 0; i < count; i++) {
        unsigned char u[16];
        char text[HAMI_UUID_SIZE];
        if (!device_uuid(i, u))
            continue;
        snprintf(text, sizeof text, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0],
                 u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14], u[15]);
        env_limits_name_card((unsigned)i, text);
    }
}

// Limits from the environment name cards by index; from here on they have UUIDs like all others.
static void name_environment_cards(void)
{
    if (!slice()->from_environment || atomic_load_explicit(&named, memory_order_acquire))
        return;
    bool nvml = cards_nvml_ready();
    pthread_mutex_lock(&nvml_lock);
    if (!atomic_load(&named)) {
        if (nvml)
            name_cards_by_nvml();
        else
            name_cards_by_cuda();
        atomic_store_explicit(&named, slice()->limits->card_count != 0, memory_order_release);
    }
    pthread_mutex_unlock(&nvml_lock);
}

// ---- CUDA devices ----------------------------------------------------------------------------------------------

static int find_device(CUdevice device)
{
    unsigned char uuid[16];
    name_environment_cards();
    if (!device_uuid(device, uuid))
        return CARD_NONE;
    int card = card_of_uuid(uuid);
    if (device >= 0 && device < MAX_DEVICES) {
        if (card >= 0)
            atomic_store(&device_of_card[card], device + 1);
        atomic_store_explicit(&index_of_device[device], card + 4, memory_order_release);
    }
    return card;
}

int cards_index(CUdevice device)
{
    int known =
        device >= 0 && device < MAX_DEVICES ? atomic_load_explicit(&index_of_device[device], memory_order_acquire) : 0;
    return __builtin_expect(known != 0, 1) ? known - 4 : find_device(device);
}

int cards_accounted(CUdevice device)
{
    int card = cards_index(device);
    return card >= 0 && slice_whole((unsigned)card) ? CARD_NONE : card;
}

int cards_current(void)
{
    CUdevice device;
    return REAL(cuCtxGetDevice)(&device) == CUDA_SUCCESS ? cards_accounted(device) : CARD_NONE;
}

int cards_of_stream(CUstream stream)
{
    CUdevice device;
    bool named_stream = stream && stream != CU_STREAM_LEGACY && stream != CU_STREAM_PER_THREAD;
    if (named_stream && CUDA_HAS(cuStreamGetDevice) && REAL(cuStreamGetDevice)(stream, &device) == CUDA_SUCCESS)
        return cards_accounted(device);
    return cards_current();
}

int cards_of_location(const CUmemLocation *location)
{
    if (location->type == CU_MEM_LOCATION_TYPE_DEVICE)
        return cards_accounted(location->id);
    if (location->type == CU_MEM_LOCATION_TYPE_DEVICE_LOCALITY_DOMAIN)
        return cards_accounted(location->localized.deviceId);
    return CARD_NONE;
}

bool cards_device(int card, CUdevice *device)
{
    int known = atomic_load(&device_of_card[card]);
    *device = known - 1;
    return known != 0;
}

// ---- NVML ------------------------------------------------------------------------------------------------------

// A failure may pass (a driver that is being reset): asked again, but not at every call.
static bool start_nvml(void)
{
    static time_t last_try;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    if (last_try && now.tv_sec - last_try < NVML_RETRY_SECONDS)
        return false;
    last_try = now.tv_sec + (now.tv_sec == 0);
    return nvml_bound() && NVML_REAL(nvmlInit_v2)() == NVML_SUCCESS;
}

bool cards_nvml_ready(void)
{
    if (__builtin_expect(atomic_load_explicit(&nvml_ready, memory_order_acquire), 1))
        return true;
    nvml_enter();
    pthread_mutex_lock(&nvml_lock);
    if (!atomic_load(&nvml_ready))
        atomic_store_explicit(&nvml_ready, start_nvml(), memory_order_release);
    pthread_mutex_unlock(&nvml_lock);
    return atomic_load(&nvml_ready);
}

static bool has_mig_card(nvmlDevice_t handle, int *card)
{
    unsigned count = 0;
    if (!NVML_HAS(nvmlDeviceGetMaxMigDeviceCount) ||
        NVML_REAL(nvmlDeviceGetMaxMigDeviceCount)(handle, &count) != NVML_SUCCESS)
        return false;
    for (unsigned i = 0; i < count; i++) {
        nvmlDevice_t mig;
        char text[96];
        unsigned char uuid[16];
        if (NVML_REAL(nvmlDeviceGetMigDeviceHandleByIndex)(handle, i, &mig) == NVML_SUCCESS &&
            NVML_REAL(nvmlDeviceGetUUID)(mig, text, sizeof text) == NVML_SUCCESS && parse_uuid(text, uuid) &&
            (*card = card_of_uuid(uuid)) >= 0)
            return true;
    }
    return false;
}

static int find_nvml(nvmlDevice_t handle)
{
    char text[96];
    unsigned char uuid[16];
    int card;
    if (NVML_REAL(nvmlDeviceGetUUID)(handle, text, sizeof text) != NVML_SUCCESS || !parse_uuid(text, uuid))
        return CARD_FOREIGN;
    card = card_of_uuid(uuid);
    // the card around a MIG device of ours must stay visible
    if (card == CARD_FOREIGN && !has_mig_card(handle, &card))
        card = CARD_FOREIGN;
    return card;
}

int cards_of_nvml(nvmlDevice_t handle)
{
    int count = atomic_load_explicit(&handle_count, memory_order_acquire);
    for (int i = 0; i < count; i++)
        if (handles[i].handle == handle)
            return handles[i].card;
    name_environment_cards();
    int card = find_nvml(handle);
    pthread_mutex_lock(&nvml_lock);
    count = atomic_load(&handle_count);
    if (count < MAX_HANDLES) {
        handles[count].handle = handle;
        handles[count].card = card;
        atomic_store_explicit(&handle_count, count + 1, memory_order_release);
    }
    pthread_mutex_unlock(&nvml_lock);
    return card;
}

bool cards_nvml_handle(int card, nvmlDevice_t *handle)
{
    if (!cards_nvml_ready())
        return false;
    int count = atomic_load_explicit(&handle_count, memory_order_acquire);
    for (int i = 0; i < count; i++) {
        if (handles[i].card == card) {
            *handle = handles[i].handle;
            return true;
        }
    }
    if (NVML_REAL(nvmlDeviceGetHandleByUUID)(slice()->limits->cards[card].uuid, handle) != NVML_SUCCESS)
        return false;
    return cards_of_nvml(*handle) == card;
}

void cards_after_fork(void)
{
    pthread_mutex_init(&nvml_lock, NULL);
    // the child opens its own session; handles stay what they were
    atomic_store(&nvml_ready, false);
    atomic_store(&handle_count, 0);
}
