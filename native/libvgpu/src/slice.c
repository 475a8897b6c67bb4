#include "slice.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "env_limits.h"
#include "say.h"

// Only a build for the tests may name another place: an environment variable here would be a way out.
#ifndef HAMI_MOUNTED_SLICE
#define HAMI_MOUNTED_SLICE "/run/hami/slice"
#endif
#define PATH_SIZE 512
#define REMEDY    "Restart the server; if that doesn't help, tell whoever runs the machine."

static struct slice the_slice;
static _Atomic int state;
static pthread_mutex_t finding = PTHREAD_MUTEX_INITIALIZER;

static void refuse(const char *path, const char *problem)
{
    say_later("hami: CUDA is refused, because %s %s. " REMEDY, path, problem);
}

// Map a whole file whose size must be exactly `size`; NULL after saying why not.
static void *map_page(const char *path, size_t size, bool writable)
{
    int fd = open(path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) {
        char problem[128];
        snprintf(problem, sizeof problem, "can't be opened%s (%s)", writable ? " for writing" : "", strerror(errno));
        refuse(path, problem);
        return NULL;
    }
    void *page = MAP_FAILED;
    off_t length = lseek(fd, 0, SEEK_END);
    if (length != (off_t)size)
        refuse(path, "has the wrong size");
    else if ((page = mmap(NULL, size, PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED, fd, 0)) == MAP_FAILED)
        refuse(path, "can't be mapped");
    close(fd);
    return page == MAP_FAILED ? NULL : page;
}

static bool right_header(const char *path, uint64_t magic, uint32_t version, uint32_t size, uint64_t want_magic,
                         uint32_t want_size)
{
    char problem[128];
    if (magic != want_magic) {
        refuse(path, "is no slice page");
        return false;
    }
    if (version != HAMI_PAGE_VERSION) {
        snprintf(problem, sizeof problem, "has version %u and this library reads version %u", version,
                 HAMI_PAGE_VERSION);
        refuse(path, problem);
        return false;
    }
    if (size != want_size) {
        snprintf(problem, sizeof problem, "says its size is %u and not %u", size, want_size);
        refuse(path, problem);
        return false;
    }
    return true;
}

static bool sound_cards(const char *path, const struct hami_limits *limits)
{
    if (limits->card_count > HAMI_MAX_CARDS) {
        refuse(path, "names more cards than a slice can have");
        return false;
    }
    for (uint32_t i = 0; i < limits->card_count; i++) {
        const char *uuid = limits->cards[i].uuid;
        if (!uuid[0] || !memchr(uuid, 0, HAMI_UUID_SIZE)) {
            refuse(path, "has a card without a UUID");
            return false;
        }
    }
    return true;
}

bool slice_map_usage(const char *path, struct slice *out)
{
    out->usage = map_page(path, sizeof *out->usage, true);
    if (out->usage && file_id(AT_FDCWD, path, &out->usage_file))
        snprintf(out->usage_path, sizeof out->usage_path, "%s", path);
    return out->usage && right_header(path, out->usage->magic, out->usage->version, out->usage->size, HAMI_USAGE_MAGIC,
                                      sizeof *out->usage);
}

static enum slice_state open_directory(const char *directory, struct slice *out)
{
    char path[PATH_SIZE];
    if (snprintf(path, sizeof path, "%s/limits", directory) >= (int)sizeof path) {
        refuse(directory, "is too long a path");
        return SLICE_BROKEN;
    }
    const struct hami_limits *limits = map_page(path, sizeof *limits, false);
    if (!limits ||
        !right_header(path, limits->magic, limits->version, limits->size, HAMI_LIMITS_MAGIC, sizeof *limits) ||
        !sound_cards(path, limits))
        return SLICE_BROKEN;
    out->limits = limits;
    snprintf(out->directory, sizeof out->directory, "%s", directory);
    snprintf(path, sizeof path, "%s/usage", directory);
    return slice_map_usage(path, out) ? SLICE_ACTIVE : SLICE_BROKEN;
}

static enum slice_state find(struct slice *out)
{
    // EACCES and the like mean that something is there
    if (access(HAMI_MOUNTED_SLICE, F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR))
        return open_directory(HAMI_MOUNTED_SLICE, out);
    const char *directory = secure_getenv("HAMI_SLICE_DIR");
    if (directory && directory[0])
        return open_directory(directory, out);
    return env_limits_find(out);
}

enum slice_state slice_state(void)
{
    int now = atomic_load_explicit(&state, memory_order_acquire);
    if (__builtin_expect(now != SLICE_UNKNOWN, 1))
        return (enum slice_state)now;
    int saved = errno;
    pthread_mutex_lock(&finding);
    now = atomic_load(&state);
    if (now == SLICE_UNKNOWN) {
        now = find(&the_slice);
        atomic_store(&state, now);
    }
    pthread_mutex_unlock(&finding);
    errno = saved;
    return (enum slice_state)now;
}

const struct slice *slice(void)
{
    return &the_slice;
}
