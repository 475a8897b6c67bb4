// Environments that might lift a limit: the program starts itself anew in each, and then allocates plainly.
#include "way.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

static void start_anew(void)
{
    char *next[] = {arguments[0], "blocks_of_64m", arguments[2], arguments[3], NULL};
    execv(arguments[0], next);
    broken("execv");
}

// The variables of a simulated card stand for the hardware and its installed driver: they stay.
static void empty_environment(void)
{
    char *kept[8] = {0};
    size_t count = 0;
    bool simulated = getenv("HAMI_SIM_DIR") != NULL;
    for (char **variable = environ; simulated && *variable && count < 7; variable++)
        if (strncmp(*variable, "HAMI_SIM_", 9) == 0 || strncmp(*variable, "LD_LIBRARY_PATH=", 16) == 0)
            kept[count++] = *variable;
    environ = kept;
    start_anew();
}

static void no_preload(void)
{
    unsetenv("LD_PRELOAD");
    start_anew();
}

static void limits_of_zero(void)
{
    setenv("CUDA_DEVICE_MEMORY_LIMIT", "0", 1);
    setenv("CUDA_DEVICE_MEMORY_LIMIT_0", "0", 1);
    start_anew();
}

static void limits_far_higher(void)
{
    setenv("CUDA_DEVICE_MEMORY_LIMIT", "100g", 1);
    setenv("CUDA_DEVICE_MEMORY_LIMIT_0", "100g", 1);
    start_anew();
}

// A fresh file for the usage, with no limit in it.
static void another_usage_file(void)
{
    char path[PATH_MAX];
    beside("usage", path);
    unlink(path);
    setenv("CUDA_DEVICE_MEMORY_SHARED_CACHE", path, 1);
    limits_of_zero();
}

static void another_slice(void)
{
    setenv("HAMI_SLICE_DIR", "/nonexistent", 1);
    start_anew();
}

static void control_disabled(void)
{
    setenv("CUDA_DISABLE_CONTROL", "true", 1);
    start_anew();
}

// A libnvidia-ml.so.1 that answers nothing stands before the driver's.
static void blind_nvml(void)
{
    char path[PATH_MAX], list[2 * PATH_MAX];
    const char *before = getenv("LD_LIBRARY_PATH");
    beside("blind", path);
    snprintf(list, sizeof list, "%s:%s", path, before ? before : "");
    setenv("LD_LIBRARY_PATH", list, 1);
    start_anew();
}

static void visible_by_index(void)
{
    setenv("CUDA_VISIBLE_DEVICES", "0", 1);
    start_anew();
}

// The first `length` characters of "GPU-xxxxxxxx-...".
static void see_by_uuid(size_t length)
{
    const char *uuid = getenv("BENCH_CARD");
    char text[64];
    if (!uuid || strlen(uuid) >= sizeof text) {
        note("BENCH_CARD is not set");
        return;
    }
    strcpy(text, uuid);
    if (strlen(text) > length)
        text[length] = '\0';
    setenv("CUDA_VISIBLE_DEVICES", text, 1);
    start_anew();
}

static void visible_by_uuid(void)
{
    see_by_uuid(sizeof "GPU-00000000-0000-0000-0000-000000000000" - 1);
}

static void visible_by_part(void)
{
    see_by_uuid(sizeof "GPU-00000000" - 1);
}

const struct way environment_ways[] = {
    {"empty_environment", empty_environment},   {"no_preload", no_preload},
    {"limits_of_zero", limits_of_zero},         {"limits_far_higher", limits_far_higher},
    {"another_usage_file", another_usage_file}, {"another_slice", another_slice},
    {"control_disabled", control_disabled},     {"blind_nvml", blind_nvml},
    {"visible_by_index", visible_by_index},     {"visible_by_uuid", visible_by_uuid},
    {"visible_by_part", visible_by_part},       {0},
};
