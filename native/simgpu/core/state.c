#define _GNU_SOURCE
#include "state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define STATE_MAGIC   UINT64_C(0x4d495349414d4148)
#define STATE_VERSION 2u
#define LOCK_BYTES    (INT64_C(1) << 40) // far beyond the file's end: byte LOCK_BYTES + slot says that its owner lives

static struct {
    enum sim_error error;
    char failure[256];
    int fd;
    int self;
    struct sim_state *state;
} own = {.fd = -1, .self = -1};

static pthread_once_t open_once = PTHREAD_ONCE_INIT;

static enum sim_error fail(enum sim_error error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(own.failure, sizeof own.failure, format, arguments);
    va_end(arguments);
    return error;
}

static void make_directory(char *path, size_t size)
{
    const char *given = getenv("HAMI_SIM_DIR");
    if (given && *given) {
        snprintf(path, size, "%s", given);
        // An error shows when the file is opened.  Several users may share the card: who makes the folder for others
        // says so by its mode.
        mkdir(path, 0777);
    } else {
        snprintf(path, size, "/dev/shm/hami-sim-%u", (unsigned)getuid());
        mkdir(path, 0700);
    }
}

// HAMI_SIM_MIG: the slices of each MIG device, "1g,1g,3g".
static bool read_mig(struct sim_state *state)
{
    const char *wish = getenv("HAMI_SIM_MIG");
    unsigned sum = 0;
    for (const char *at = wish; at && *at; at += *at == ',') {
        char *end;
        unsigned long slices = strtoul(at, &end, 10);
        bool known = slices == 1 || slices == 2 || slices == 3 || slices == 4 || slices == 7;
        if (!known || *end != 'g' || (end[1] && end[1] != ',') || (sum += (unsigned)slices) > SIM_MAX_MIG)
            return false;
        state->mig_slices[state->mig_count++] = (uint32_t)slices;
        at = end + 1;
    }
    return !state->mig_count || card_model_at(state->model)->mig_capable;
}

static enum sim_error read_wishes(struct sim_state *state)
{
    const char *profile = getenv("HAMI_SIM_PROFILE"), *cards = getenv("HAMI_SIM_CARDS");
    const char *clock = getenv("HAMI_SIM_CLOCK");
    if (!profile || !*profile)
        profile = "t4";
    if (!card_model_by_key(profile, &state->model))
        return fail(SIM_BAD_PROFILE, "HAMI_SIM_PROFILE=%.40s is no card: use t4, a10, a100-40gb or h200.", profile);
    char *end = NULL;
    unsigned long count = cards && *cards ? strtoul(cards, &end, 10) : 1;
    if ((end && *end) || count < 1 || count > SIM_MAX_CARDS)
        return fail(SIM_BAD_PROFILE, "HAMI_SIM_CARDS=%.40s is no number of cards: use 1 to %d.", cards, SIM_MAX_CARDS);
    state->card_count = (uint32_t)count;
    if (!read_mig(state))
        return fail(SIM_BAD_PROFILE,
                    "HAMI_SIM_MIG=%.80s can't be cut: name devices like 1g,2g,4g that are 7 slices at most, of an "
                    "a100-40gb or h200.",
                    getenv("HAMI_SIM_MIG"));
    state->manual_clock = clock && strcmp(clock, "manual") == 0;
    return SIM_OK;
}

static struct sim_state *map(int fd)
{
    void *at = mmap(NULL, sizeof(struct sim_state), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return at == MAP_FAILED ? NULL : at;
}

static void init_mutex(pthread_mutex_t *mutex)
{
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
}

static enum sim_error fill(struct sim_state *state)
{
    state->version = STATE_VERSION;
    state->size = sizeof *state;
    init_mutex(&state->mutex);
    for (unsigned card = 0; card < SIM_MAX_CARDS; card++)
        state->cards[card].engine.current = -1;
    state->magic = STATE_MAGIC;
    return read_wishes(state);
}

// Write a whole state aside and link it into place: whoever links first made it, the others throw theirs away.
// Returns a descriptor of the file in place, or -1 with own.error set.
static int create(const char *directory, const char *path)
{
    char aside[512];
    snprintf(aside, sizeof aside, "%s/state.XXXXXX", directory);
    int fd = mkostemp(aside, O_CLOEXEC);
    if (fd < 0) {
        own.error = fail(SIM_NO_DIRECTORY,
                         "The simulated card can't write in %s (%s): set HAMI_SIM_DIR to a folder that can be written, "
                         "on tmpfs.",
                         directory, strerror(errno));
        return -1;
    }
    struct sim_state *state = ftruncate(fd, sizeof *state) == 0 && fchmod(fd, 0666) == 0 ? map(fd) : NULL;
    bool linked = false;
    if (!state) {
        own.error =
            fail(SIM_NO_DIRECTORY, "The simulated card can't make its state in %s (%s).", directory, strerror(errno));
    } else {
        own.error = fill(state);
        linked = own.error == SIM_OK && link(aside, path) == 0;
        if (own.error == SIM_OK && !linked && errno != EEXIST)
            own.error = fail(SIM_NO_DIRECTORY, "The simulated card can't make %s (%s).", path, strerror(errno));
        munmap(state, sizeof *state);
    }
    unlink(aside);
    if (linked)
        return fd; // kept: another library of this process may already hold its lock on this very file
    close(fd);
    return own.error == SIM_OK ? open(path, O_RDWR | O_CLOEXEC) : -1;
}

static enum sim_error attach(void)
{
    char directory[400], path[420];
    make_directory(directory, sizeof directory);
    snprintf(path, sizeof path, "%s/state", directory);
    own.fd = open(path, O_RDWR | O_CLOEXEC);
    if (own.fd < 0 && errno == ENOENT)
        own.fd = create(directory, path);
    if (own.error != SIM_OK)
        return own.error;
    if (own.fd < 0)
        return fail(SIM_NO_DIRECTORY, "The simulated card can't open %s (%s).", path, strerror(errno));
    struct stat status;
    bool fits = fstat(own.fd, &status) == 0 && status.st_size == (off_t)sizeof(struct sim_state);
    own.state = fits ? map(own.fd) : NULL;
    if (!own.state || own.state->magic != STATE_MAGIC || own.state->version != STATE_VERSION ||
        !card_model_at(own.state->model))
        return fail(SIM_MISMATCH, "%s is of another version of the simulated card: end its processes and remove it.",
                    path);
    return SIM_OK;
}

static void open_state(void)
{
    own.error = attach();
}

enum sim_error sim_open(void)
{
    pthread_once(&open_once, open_state);
    return own.error;
}

const char *sim_open_failure(void)
{
    return own.failure;
}

struct sim_state *sim_state(void)
{
    return own.state;
}

const struct card_model *sim_model(void)
{
    return card_model_at(own.state->model);
}

int sim_self(void)
{
    return own.self;
}

int sim_descriptor(void)
{
    return own.fd;
}

uint64_t sim_now(void)
{
    if (own.state->manual_clock)
        return own.state->clock;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void add_up(void)
{
    struct sim_state *s = own.state;
    for (unsigned card = 0; card < s->card_count; card++) {
        uint64_t used = 0;
        for (uint32_t i = 0; i < s->process_high; i++)
            used += s->processes[i].held[card][SIM_SHOWN] + s->processes[i].held[card][SIM_HIDDEN];
        s->cards[card].used = used;
    }
}

// The engine's count of active slots is kept at hand as well.
static void count_active(void)
{
    struct sim_state *s = own.state;
    for (unsigned card = 0; card < s->card_count; card++) {
        s->cards[card].engine.active = 0;
        for (uint32_t i = 0; i < s->process_high; i++)
            s->cards[card].engine.active += s->processes[i].work[card].done < s->processes[i].work[card].submitted;
    }
}

void sim_lock(void)
{
    if (pthread_mutex_lock(&own.state->mutex) == EOWNERDEAD) {
        add_up();
        count_active();
        pthread_mutex_consistent(&own.state->mutex);
    }
}

void sim_unlock(void)
{
    pthread_mutex_unlock(&own.state->mutex);
}

static struct flock life_of(int slot)
{
    return (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = LOCK_BYTES + slot, .l_len = 1};
}

static uint64_t image_id(void)
{
    uint64_t id;
    memcpy(&id, (const void *)getauxval(AT_RANDOM), sizeof id);
    return id;
}

static uint64_t pid_namespace(void)
{
    struct stat status;
    return stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

// F_GETLK never reports a lock of this very process, so one's own slot is known by who wrote it.
static bool is_own(const struct sim_process *process)
{
    return process->pid == (uint32_t)getpid() && process->image == image_id() &&
           process->pid_namespace == pid_namespace();
}

pid_t sim_process_pid(int slot)
{
    const struct sim_process *process = &own.state->processes[slot];
    if (process->pid == 0)
        return -1;
    struct flock lock = life_of(slot);
    if (fcntl(own.fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK)
        return lock.l_pid > 0 ? lock.l_pid : 0;
    return is_own(process) ? getpid() : -1;
}

struct engine_queues sim_queues(unsigned card)
{
    struct sim_state *s = own.state;
    return (struct engine_queues){&s->cards[card].engine, &s->processes[0].work[card], sizeof s->processes[0],
                                  s->process_high};
}

void sim_bring_up(unsigned card)
{
    struct engine_queues queues = sim_queues(card);
    engine_advance(&queues, sim_now());
}

static void clear(int slot)
{
    for (unsigned card = 0; card < own.state->card_count; card++) {
        struct engine_queues queues = sim_queues(card);
        engine_forget(&queues, slot);
    }
    memset(&own.state->processes[slot], 0, sizeof(struct sim_process));
}

void sim_reap(void)
{
    bool cleared = false;
    for (uint32_t i = 0; i < own.state->process_high; i++) {
        if (own.state->processes[i].pid == 0 || (int)i == own.self || sim_process_pid((int)i) >= 0)
            continue;
        clear((int)i);
        cleared = true;
    }
    if (cleared)
        add_up();
}

static enum sim_error claim(void)
{
    struct sim_state *s = own.state;
    for (int slot = 0; slot < SIM_MAX_PROCESSES; slot++) {
        struct sim_process *process = &s->processes[slot];
        struct flock lock = life_of(slot);
        if (process->pid != 0 || fcntl(own.fd, F_SETLK, &lock) != 0)
            continue;
        process->uid = (uint32_t)getuid();
        process->pid_namespace = pid_namespace();
        process->image = image_id();
        int comm = open("/proc/self/comm", O_RDONLY | O_CLOEXEC);
        ssize_t length = comm < 0 ? -1 : read(comm, process->comm, sizeof process->comm - 1);
        if (comm >= 0)
            close(comm);
        process->comm[length > 0 ? length - 1 : 0] = '\0';
        process->pid = (uint32_t)getpid();
        if ((uint32_t)slot >= s->process_high)
            s->process_high = (uint32_t)slot + 1;
        own.self = slot;
        return SIM_OK;
    }
    return fail(SIM_FULL, "All %d process slots of the simulated card are taken: end some processes.",
                SIM_MAX_PROCESSES);
}

enum sim_error sim_join(void)
{
    sim_lock();
    sim_reap();
    enum sim_error error = own.self >= 0 ? SIM_OK : claim();
    sim_unlock();
    return error;
}

bool sim_take(unsigned card, uint64_t bytes, enum sim_memory kind)
{
    struct sim_card *c = &own.state->cards[card];
    uint64_t total = sim_model()->vram_mib * MIB;
    if (bytes > total)
        return false;
    if (c->used + bytes > total || c->used + bytes > c->peak) // of the dead nothing is left on the card
        sim_reap();
    if (c->used + bytes > total)
        return false;
    own.state->processes[own.self].held[card][kind] += bytes;
    c->used += bytes;
    if (c->used > c->peak)
        c->peak = c->used;
    return true;
}

void sim_give(unsigned card, uint64_t bytes, enum sim_memory kind)
{
    own.state->processes[own.self].held[card][kind] -= bytes;
    own.state->cards[card].used -= bytes;
}
