// One simulated process: the core share's code as it is, with the driver, the clock and the slice replaced by the world's.
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "capture.h"
#include "cards.h"
#include "driver.h"
#include "process.h"
#include "say.h"
#include "share.h"
#include "share_clock.h"
#include "slice.h"
#include "turns_page.h"
#include "world.h"

void *cuda_real[CUDA_ENTRY_COUNT];
struct hot hot = {.cuda_mode = DRIVER_ACTIVE};

static struct tenant_setup setup;
static struct slice own;

// ---- what the rest of the limiter gives ------------------------------------------------------------------------------

enum driver_mode cuda_enter_slowly(void)
{
    return DRIVER_ACTIVE;
}

void *cuda_missing_address(void)
{
    return NULL;
}

enum slice_state slice_state(void)
{
    return SLICE_ACTIVE;
}

const struct slice *slice(void)
{
    return &own;
}

int cards_current(void)
{
    return 0;
}

int cards_of_stream(CUstream stream)
{
    (void)stream;
    return 0;
}

bool capture_ask(CUstream stream, bool per_thread)
{
    (void)stream, (void)per_thread;
    return false;
}

CUstreamCaptureMode capture_exchange(CUstreamCaptureMode mode)
{
    return mode;
}

uint64_t process_self(void)
{
    return setup.process;
}

bool process_alive(uint64_t owner)
{
    (void)owner;
    return true;
}

void say_once(const char *format, ...)
{
    (void)format;
}

uint64_t share_now(void)
{
    return setup.world->now();
}

void share_sleep_until(uint64_t when)
{
    setup.world->sleep_until(when);
}

// ---- the driver --------------------------------------------------------------------------------------------------------

static CUresult get_current(CUcontext *context)
{
    *context = (CUcontext)(uintptr_t)0x1000;
    return CUDA_SUCCESS;
}

static CUresult host_register(void *pointer, size_t size, unsigned flags)
{
    (void)pointer, (void)size, (void)flags;
    return CUDA_SUCCESS;
}

static CUresult device_pointer(CUdeviceptr *out, void *pointer, unsigned flags)
{
    (void)flags;
    *out = (CUdeviceptr)(uintptr_t)pointer;
    return CUDA_SUCCESS;
}

static CUresult write_value(CUstream stream, CUdeviceptr at, cuuint32_t value, unsigned flags)
{
    (void)stream, (void)flags;
    setup.world->mark((_Atomic uint32_t *)(uintptr_t)at, value);
    return CUDA_SUCCESS;
}

static CUresult event_create(CUevent *event, unsigned flags)
{
    (void)flags;
    *event = calloc(1, sizeof(uint64_t));
    return CUDA_SUCCESS;
}

static CUresult event_record(CUevent event, CUstream stream)
{
    (void)stream;
    *(uint64_t *)event = 0;
    setup.world->record((uint64_t *)event);
    return CUDA_SUCCESS;
}

static CUresult event_elapsed(float *ms, CUevent begin, CUevent end)
{
    if (!*(uint64_t *)begin || !*(uint64_t *)end)
        return CUDA_ERROR_NOT_READY;
    *ms = (float)((double)(*(uint64_t *)end - *(uint64_t *)begin) / 1e6);
    return CUDA_SUCCESS;
}

static void *map(const char *name, size_t size, bool writable)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", setup.directory, name);
    int fd = open(path, writable ? O_RDWR : O_RDONLY);
    void *at = mmap(NULL, size, PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED, fd, 0);
    if (fd < 0 || at == MAP_FAILED) {
        perror(path);
        exit(2);
    }
    close(fd);
    return at;
}

__attribute__((visibility("default"))) void open_tenant(const struct tenant_setup *given)
{
    setup = *given;
    snprintf(own.directory, sizeof own.directory, "%s", given->directory);
    own.limits = map("limits", sizeof *own.limits, false);
    own.usage = map("usage", sizeof *own.usage, true);
    cuda_real[ENTRY_cuCtxGetCurrent] = get_current;
    cuda_real[ENTRY_cuMemHostRegister_v2] = host_register;
    cuda_real[ENTRY_cuMemHostGetDevicePointer_v2] = device_pointer;
    cuda_real[ENTRY_cuStreamWriteValue32_v2] = write_value;
    cuda_real[ENTRY_cuEventCreate] = event_create;
    cuda_real[ENTRY_cuEventRecord] = event_record;
    cuda_real[ENTRY_cuEventElapsedTime] = event_elapsed;
}

__attribute__((visibility("default"))) void launch(unsigned stream, uint64_t kind, uint64_t ns)
{
    CUstream handle = (CUstream)(uintptr_t)(0x100000 + 64 * (stream + 1));
    struct share_ticket ticket = share_enter((void *)(uintptr_t)(0x7000000 + 16 * kind), 1, handle, false);
    setup.world->kernel(ns);
    share_leave(&ticket);
}

__attribute__((visibility("default"))) void synchronise(unsigned stream)
{
    CUstream handle = (CUstream)(uintptr_t)(0x100000 + 64 * (stream + 1));
    struct share_wait wait = share_wait(handle, false, false);
    setup.world->synchronise();
    share_waited(&wait, CUDA_SUCCESS);
}

__attribute__((visibility("default"))) void lie(enum lie kind)
{
    static uint64_t random = 88172645463325252u;
    struct hami_turns_member *member = turns_page_member();
    uint64_t now = share_now();
    if (kind == LIE_RUBBISH) {
        uint64_t *words = (uint64_t *)(void *)turns_page()->cards;
        for (size_t i = 0; i < (sizeof(struct hami_turns) - offsetof(struct hami_turns, cards)) / 8; i++) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            words[i] = random;
        }
        turns_page()->member_high = (uint32_t)random;
        return;
    }
    turns_page()->cards[0].virtual_ns = 0;
    member->lane_card[0] = 1;
    member->lanes[0].sent = kind == LIE_WORKS;
    member->lanes[0].done = 0;
    member->cards[0].until_ns = kind == LIE_WORKS ? now + 1000000000 : 0;
    member->cards[0].asks_ns = kind == LIE_WANTS ? (now & ~HAMI_TURN_BITS) | HAMI_TURN_WANTS : 0;
}
