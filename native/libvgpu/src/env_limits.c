#include "env_limits.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "say.h"

static struct hami_limits limits;
static uint64_t vram_of_index[HAMI_MAX_CARDS];
static uint32_t cores;
static uint32_t policy;
static uint32_t priority;
static uint32_t flags;

static const char *skip_digits(const char *text, uint64_t *value, bool *overflow)
{
    *value = 0;
    *overflow = false;
    for (; *text >= '0' && *text <= '9'; text++)
        *overflow |= __builtin_mul_overflow(*value, UINT64_C(10), value) ||
                     __builtin_add_overflow(*value, (uint64_t)(*text - '0'), value);
    return text;
}

bool env_limits_parse_bytes(const char *text, uint64_t *bytes)
{
    static const struct {
        const char *unit;
        unsigned shift;
    } units[] = {{"", 0},    {"b", 0},    {"k", 10},  {"kb", 10},  {"ki", 10}, {"kib", 10},
                 {"m", 20},  {"mb", 20},  {"mi", 20}, {"mib", 20}, {"g", 30},  {"gb", 30},
                 {"gi", 30}, {"gib", 30}, {"t", 40},  {"tb", 40},  {"ti", 40}, {"tib", 40}};
    bool overflow;
    const char *unit = skip_digits(text, bytes, &overflow);
    if (unit == text || overflow)
        return false;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcasecmp(unit, units[i].unit))
            continue;
        if (*bytes > UINT64_MAX >> units[i].shift)
            return false;
        *bytes <<= units[i].shift;
        return true;
    }
    return false;
}

// False: a value that is there and can't be read.
static bool read_vram(const char *name, uint64_t *bytes)
{
    const char *text = getenv(name);
    if (!text || !text[0])
        return true;
    if (env_limits_parse_bytes(text, bytes))
        return true;
    say_later("hami: CUDA is refused, because %s=%.64s is no amount of memory. Write it like 3000m or 4g.", name, text);
    return false;
}

static bool read_number(const char *name, uint32_t highest, uint32_t *value)
{
    const char *text = getenv(name);
    if (!text || !text[0])
        return true;
    uint64_t number;
    bool overflow;
    const char *end = skip_digits(text, &number, &overflow);
    if (end != text && !*end && !overflow && number <= highest) {
        *value = (uint32_t)number;
        return true;
    }
    say_later("hami: CUDA is refused, because %s=%.64s is no number from 0 to %u.", name, text, highest);
    return false;
}

static uint32_t read_policy(void)
{
    const char *text = getenv("GPU_CORE_UTILIZATION_POLICY");
    if (text && !strcasecmp(text, "force"))
        return HAMI_POLICY_FORCE;
    if (text && !strcasecmp(text, "disable"))
        return HAMI_POLICY_DISABLE;
    return HAMI_POLICY_DEFAULT;
}

// On unless it is turned off, as HAMi has it.
static uint32_t read_flags(void)
{
    const char *text = getenv("ACTIVE_OOM_KILLER");
    bool off = text && (!strcasecmp(text, "false") || !strcmp(text, "0"));
    return off ? 0 : HAMI_CARD_OOM_KILLER;
}

// Make the page beside its name and link it in, so that nobody ever sees half of one.  True also if it was there.
static bool make_usage(const char *path)
{
    char draft[600];
    snprintf(draft, sizeof draft, "%s.%d", path, (int)getpid());
    int fd = open(draft, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0)
        return false;
    struct {
        uint64_t magic;
        uint32_t version, size;
    } header = {HAMI_USAGE_MAGIC, HAMI_PAGE_VERSION, sizeof(struct hami_usage)};
    // every byte has its place before anybody maps it: on a full disk a hole would end the process at its first write
    int full = posix_fallocate(fd, 0, sizeof(struct hami_usage));
    bool made =
        full == 0 && write(fd, &header, sizeof header) == sizeof header && (link(draft, path) == 0 || errno == EEXIST);
    int failure = full ? full : errno;
    close(fd);
    unlink(draft);
    errno = failure;
    return made;
}

static bool open_usage(struct slice *out)
{
    char path[512];
    const char *named = getenv("CUDA_DEVICE_MEMORY_SHARED_CACHE");
    if (named && named[0])
        snprintf(path, sizeof path, "%s", named);
    else
        snprintf(path, sizeof path, "/dev/shm/hami-%u.usage", (unsigned)getuid());
    if (access(path, F_OK) != 0 && !make_usage(path)) {
        say_later("hami: CUDA is refused, because %s can't be made (%s). "
                  "Name another file in CUDA_DEVICE_MEMORY_SHARED_CACHE.",
                  path, strerror(errno));
        return false;
    }
    return slice_map_usage(path, out);
}

static bool read_variables(bool *any)
{
    uint64_t plain = 0;
    if (!read_vram("CUDA_DEVICE_MEMORY_LIMIT", &plain))
        return false;
    *any = plain != 0;
    for (unsigned i = 0; i < HAMI_MAX_CARDS; i++) {
        char name[48];
        snprintf(name, sizeof name, "CUDA_DEVICE_MEMORY_LIMIT_%u", i);
        vram_of_index[i] = plain;
        if (!read_vram(name, &vram_of_index[i]))
            return false;
        *any |= vram_of_index[i] != 0;
    }
    priority = HAMI_PRIORITY_LOW;
    if (!read_number("CUDA_DEVICE_SM_LIMIT", 100, &cores) || !read_number("CUDA_TASK_PRIORITY", UINT32_MAX, &priority))
        return false;
    *any |= cores != 0 && cores < 100;
    policy = read_policy();
    flags = read_flags();
    return true;
}

enum slice_state env_limits_find(struct slice *out)
{
    bool any;
    if (!read_variables(&any))
        return SLICE_BROKEN;
    if (!any)
        return SLICE_NONE;
    limits.magic = HAMI_LIMITS_MAGIC;
    limits.version = HAMI_PAGE_VERSION;
    limits.size = sizeof limits;
    out->limits = &limits;
    out->from_environment = true;
    return open_usage(out) ? SLICE_ACTIVE : SLICE_BROKEN;
}

void env_limits_name_card(unsigned index, const char *uuid)
{
    if (index >= HAMI_MAX_CARDS)
        return;
    struct hami_card_limit *card = &limits.cards[index];
    snprintf(card->uuid, sizeof card->uuid, "%s", uuid);
    // 0 is HAMi's "no limit": counted, never refused
    card->vram = vram_of_index[index] ? vram_of_index[index] : UINT64_MAX;
    card->cores = cores;
    card->policy = policy;
    card->priority = priority;
    card->flags = flags;
    if (limits.card_count <= index)
        limits.card_count = index + 1;
}
