#include "lanes.h"

#include <pthread.h>
#include <string.h>

#include "capture.h"
#include "cards.h"
#include "driver.h"
#include "share_clock.h"
#include "slice.h"
#include "stamps.h"
#include "turns.h"
#include "turns_page.h"

#define PAGE           UINT64_C(4096)
#define LATENCY_TRIES  6
#define LATENCY_MAX_NS (15 * TURN_US)

static struct lane lanes[LANES_ALL];
static _Atomic unsigned high;
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;
static _Atomic CUdeviceptr base; // of our member slot, as the card sees it; 0: not registered
static _Atomic uint64_t latency;

// ---- marks ----------------------------------------------------------------------------------------------------------

static CUresult write_value(CUstream stream, bool per_thread, CUdeviceptr at, uint32_t value)
{
    if (per_thread && CUDA_HAS(cuStreamWriteValue32_v2_ptsz))
        return REAL(cuStreamWriteValue32_v2_ptsz)(stream, at, value, CU_STREAM_WRITE_VALUE_DEFAULT);
    if (CUDA_HAS(cuStreamWriteValue32_v2))
        return REAL(cuStreamWriteValue32_v2)(stream, at, value, CU_STREAM_WRITE_VALUE_DEFAULT);
    return REAL(cuStreamWriteValue32)(stream, at, value, CU_STREAM_WRITE_VALUE_DEFAULT);
}

// The page must be known to the driver; while a thread captures, that is only allowed to calls of our own.
static bool register_page(void)
{
    char *member = (char *)turns_page_member();
    if (!member)
        return false;
    char *start = (char *)((uintptr_t)member & ~(PAGE - 1));
    CUdeviceptr address = 0;
    CUstreamCaptureMode mode = capture_relax();
    CUresult result =
        REAL(cuMemHostRegister_v2)(start, PAGE, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
    if (result == CUDA_SUCCESS || result == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED)
        result = REAL(cuMemHostGetDevicePointer_v2)(&address, start, 0);
    capture_restore(mode);
    if (result != CUDA_SUCCESS)
        return false;
    atomic_store(&base, address + (CUdeviceptr)(member - start));
    return true;
}

static CUdeviceptr done_word(unsigned index)
{
    return atomic_load(&base) + offsetof(struct hami_turns_member, lanes) + index * sizeof(struct hami_lane) +
           offsetof(struct hami_lane, done);
}

bool lanes_mark(struct lane *lane, uint32_t number)
{
    if (!atomic_load_explicit(&lane->marked, memory_order_relaxed))
        return false;
    CUstream stream = atomic_load_explicit(&lane->stream, memory_order_relaxed);
    bool per_thread = atomic_load_explicit(&lane->per_thread, memory_order_relaxed);
    for (int attempt = 0; attempt < 2; attempt++) {
        if (atomic_load(&base) == 0 && !register_page())
            break;
        CUresult result = write_value(stream, per_thread, done_word(lanes_index(lane)), number);
        if (result == CUDA_SUCCESS)
            return true;
        atomic_store(&base, 0); // the context that it was registered in may be gone
    }
    return false;
}

unsigned lanes_index(const struct lane *lane)
{
    return (unsigned)(lane - lanes);
}

uint32_t lanes_done(const struct lane *lane)
{
    return atomic_load_explicit(&turns_page_member()->lanes[lanes_index(lane)].done, memory_order_acquire);
}

// Marks on an idle stream, timed.
static void learn_latency(struct lane *lane)
{
    uint64_t best = LATENCY_MAX_NS;
    for (int i = 0; i < LATENCY_TRIES; i++) {
        uint32_t number = lane_next(lane->sent);
        uint64_t began = share_now(), now = began;
        if (!lanes_mark(lane, number))
            break;
        lane->sent = lane->read = lane->seen = number;
        while (lanes_done(lane) != number && now - began < LATENCY_MAX_NS) {
            share_sleep_until(now + TURN_US / 10);
            now = share_now();
        }
        if (now - began < best)
            best = now - began;
    }
    stamps_learn(lane);
    atomic_store(&turns_page_member()->lanes[lanes_index(lane)].sent, lane->sent);
    atomic_store(&latency, best + 1);
}

uint64_t lanes_latency(void)
{
    uint64_t known = atomic_load_explicit(&latency, memory_order_relaxed);
    return known ? known - 1 : 0;
}

// ---- lanes ----------------------------------------------------------------------------------------------------------

struct lane *lanes_at(unsigned index)
{
    return &lanes[index];
}

unsigned lanes_high(void)
{
    return atomic_load_explicit(&high, memory_order_acquire);
}

unsigned lanes_on(unsigned card)
{
    unsigned count = 0, all = lanes_high();
    for (unsigned i = 0; i < all; i++)
        count += atomic_load_explicit(&lanes[i].card, memory_order_relaxed) == (int)card &&
                 (i >= HAMI_TURNS_LANES || atomic_load_explicit(&lanes[i].key, memory_order_relaxed));
    return count;
}

static bool is_default(CUstream stream)
{
    return !stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
}

bool lanes_is_default(const struct lane *lane)
{
    return is_default(atomic_load_explicit(&lane->stream, memory_order_relaxed));
}

static uint64_t key_of(CUstream stream, bool per_thread, CUcontext *context)
{
    if (!is_default(stream)) {
        *context = NULL;
        return (uint64_t)(uintptr_t)stream;
    }
    if (REAL(cuCtxGetCurrent)(context) != CUDA_SUCCESS || !*context)
        return 0;
    if (stream == CU_STREAM_PER_THREAD || (!stream && per_thread))
        return ((uint64_t)(uintptr_t)*context * 31 ^ (uint64_t)pthread_self()) | 1;
    return (uint64_t)(uintptr_t)*context | 2;
}

static unsigned first_of(uint64_t key)
{
    return (unsigned)((key >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 59) & (HAMI_TURNS_LANES - 1);
}

static struct lane *find(uint64_t key)
{
    unsigned at = first_of(key);
    for (unsigned i = 0; i < HAMI_TURNS_LANES; i++) {
        struct lane *lane = &lanes[(at + i) & (HAMI_TURNS_LANES - 1)];
        if (__builtin_expect(atomic_load_explicit(&lane->key, memory_order_acquire) == key, 1))
            return lane;
    }
    return NULL;
}

static bool is_limited(int card)
{
    if (card < 0)
        return false;
    const struct hami_card_limit *limit = &slice()->limits->cards[card];
    return slice_has_core_share(limit);
}

static bool is_idle(const struct lane *lane)
{
    return atomic_load(&lane->sent) == atomic_load(&lane->read) && !atomic_load(&lane->open);
}

static struct lane *free_lane(uint64_t key)
{
    unsigned at = first_of(key);
    for (int reuse = 0; reuse < 2; reuse++)
        for (unsigned i = 0; i < HAMI_TURNS_LANES; i++) {
            struct lane *lane = &lanes[(at + i) & (HAMI_TURNS_LANES - 1)];
            if (is_idle(lane) && (reuse || !atomic_load(&lane->key)))
                return lane;
        }
    return NULL;
}

static void raise_high(unsigned index)
{
    if (atomic_load(&high) <= index)
        atomic_store_explicit(&high, index + 1, memory_order_release);
}

static struct lane *last_resort(int card)
{
    struct lane *lane = &lanes[HAMI_TURNS_LANES + (unsigned)card];
    lane->card = card;
    lane->marked = false;
    raise_high(lanes_index(lane));
    return lane;
}

static struct lane *open_lane(uint64_t key, CUstream stream, bool per_thread)
{
    int card = cards_current(); // a launch's stream is of the current context
    struct hami_turns_member *member = is_limited(card) ? turns_page_member() : NULL;
    pthread_mutex_lock(&opening);
    struct lane *lane = find(key);
    bool new = !lane;
    if (new && !(lane = free_lane(key)) && member)
        lane = last_resort(card), new = false;
    if (new && lane) {
        lane->stream = stream;
        lane->per_thread = per_thread;
        CUcontext context = NULL;
        REAL(cuCtxGetCurrent)(&context);
        lane->context = context;
        atomic_store(&lane->left_ns, 0);
        lane->card = member ? card : CARD_NONE;
        lane->marked = member != NULL;
        atomic_store(&lane->only, NULL);
        if (member) {
            atomic_store(&member->lane_card[lanes_index(lane)], (uint8_t)(card + 1));
            if (!atomic_load(&latency) && !capture_active(stream, per_thread))
                learn_latency(lane);
        }
        raise_high(lanes_index(lane));
        atomic_store_explicit(&lane->key, key, memory_order_release);
    }
    pthread_mutex_unlock(&opening);
    return lane;
}

struct lane *lanes_of(CUstream stream, bool per_thread)
{
    CUcontext context;
    uint64_t key = key_of(stream, per_thread, &context);
    if (!key)
        return NULL;
    struct lane *lane = find(key);
    return __builtin_expect(lane != NULL, 1) ? lane : open_lane(key, stream, per_thread);
}

void lanes_forget(CUstream stream)
{
    if (is_default(stream))
        return;
    struct lane *lane = find((uint64_t)(uintptr_t)stream);
    if (!lane)
        return;
    while (atomic_flag_test_and_set_explicit(&lane->closing, memory_order_acquire))
        share_sleep_until(share_now() + TURN_US);
    atomic_store(&lane->key, 0);
    atomic_flag_clear_explicit(&lane->closing, memory_order_release);
}

void lanes_after_fork(void)
{
    pthread_mutex_init(&opening, NULL);
    memset(lanes, 0, sizeof lanes);
    atomic_store(&high, 0);
    atomic_store(&base, 0);
    atomic_store(&latency, 0);
}
