// cuInit, the way into every call, and which cards this process sees.
#include "driver.h"
#include "context.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

pthread_mutex_t driver_mutex = PTHREAD_MUTEX_INITIALIZER;
_Thread_local bool per_thread_default_stream;

static atomic_bool initialised, forked;
static unsigned visible[SIM_MAX_CARDS];
static int visible_count;

// A child of a process that used the driver can't use it: contexts don't survive fork, as on a real card.
static void in_child(void)
{
    forked = initialised;
}

static bool has_prefix(const char *text, const char *prefix, size_t length)
{
    return strncasecmp(text, prefix, length) == 0;
}

// One entry of CUDA_VISIBLE_DEVICES: an index, or a UUID or the beginning of one that fits only one card.  -1: none.
static int find_visible(const char *entry, size_t length)
{
    int found = -1;
    if (length > 4 && has_prefix(entry, "GPU-", 4)) {
        for (unsigned card = 0; card < sim_state()->card_count; card++) {
            char uuid[41];
            card_uuid_text(sim_model(), card, uuid);
            if (!has_prefix(uuid, entry, length))
                continue;
            if (found >= 0)
                return -1;
            found = (int)card;
        }
        return found;
    }
    char digits[8] = "";
    if (length == 0 || length >= sizeof digits || strspn(entry, "0123456789") < length)
        return -1;
    memcpy(digits, entry, length);
    int index = atoi(digits);
    return index < (int)sim_state()->card_count ? index : -1;
}

// The list ends at the first entry that names no card or one already named.
static void read_visible(void)
{
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    visible_count = 0;
    if (!list) {
        for (unsigned card = 0; card < sim_state()->card_count; card++)
            visible[visible_count++] = card;
        return;
    }
    for (bool more = true; more;) {
        list += strspn(list, " \t");
        size_t length = strcspn(list, ",");
        size_t trimmed = length;
        while (trimmed > 0 && (list[trimmed - 1] == ' ' || list[trimmed - 1] == '\t'))
            trimmed--;
        int card = find_visible(list, trimmed);
        for (int i = 0; i < visible_count; i++)
            if (card == (int)visible[i])
                card = -1;
        if (card < 0)
            return;
        visible[visible_count++] = (unsigned)card;
        more = list[length] == ',';
        list += length + 1;
    }
}

int device_count(void)
{
    return visible_count;
}

bool device_card(CUdevice device, unsigned *card)
{
    if (device < 0 || device >= visible_count)
        return false;
    *card = visible[device];
    return true;
}

static CUresult init(void)
{
    enum sim_error error = sim_open();
    if (error != SIM_OK)
        fprintf(stderr, "%s\n", sim_open_failure());
    if (error == SIM_MISMATCH)
        return CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
    if (error != SIM_OK)
        return CUDA_ERROR_NO_DEVICE;
    read_visible();
    if (visible_count == 0)
        return CUDA_ERROR_NO_DEVICE;
    error = sim_join();
    if (error != SIM_OK) {
        fprintf(stderr, "%s\n", sim_open_failure());
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    pthread_atfork(NULL, NULL, in_child);
    initialised = true;
    return CUDA_SUCCESS;
}

CUresult cuInit(unsigned int flags)
{
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (forked)
        return CUDA_ERROR_NOT_INITIALIZED;
    pthread_mutex_lock(&driver_mutex);
    CUresult result = initialised ? CUDA_SUCCESS : init();
    pthread_mutex_unlock(&driver_mutex);
    return result;
}

CUresult cuDriverGetVersion(int *version)
{
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    *version = SIM_CUDA_VERSION;
    return CUDA_SUCCESS;
}

CUresult check_init(void)
{
    return initialised && !forked ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult enter_driver(void)
{
    CUresult result = check_init();
    if (result == CUDA_SUCCESS)
        pthread_mutex_lock(&driver_mutex);
    return result;
}

CUresult enter(struct context **context)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    *context = context_current();
    if (*context)
        return CUDA_SUCCESS;
    return leave(context_current_is_destroyed() ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_ERROR_INVALID_CONTEXT);
}

CUresult leave(CUresult result)
{
    pthread_mutex_unlock(&driver_mutex);
    return result;
}
