#include "heap.h"

#include <pthread.h>

#include "cards.h"
#include "charge.h"
#include "driver.h"
#include "footprint.h"

#define MAX_PROMISES 256
#define DEFAULT_HEAP (UINT64_C(8) << 20) // every context's own, never set by a program

struct promise {
    CUcontext context; // NULL: free
    int card;
    uint64_t pending; // charged, not taken yet
    uint64_t taken;   // by the driver
};

static pthread_mutex_t setting = PTHREAD_MUTEX_INITIALIZER; // one program's thread at a time changes a limit
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;    // of the list; never held over a call
static struct promise promises[MAX_PROMISES];
static _Atomic int count;

static struct promise *find(CUcontext context)
{
    for (int i = 0; i < count; i++)
        if (promises[i].context == context)
            return &promises[i];
    return NULL;
}

static struct promise read_promise(CUcontext context, int card)
{
    pthread_mutex_lock(&lock);
    const struct promise *known = find(context);
    struct promise copy = known ? *known : (struct promise){.context = context, .card = card};
    pthread_mutex_unlock(&lock);
    return copy;
}

static bool add_pending(CUcontext context, int card, int64_t bytes)
{
    pthread_mutex_lock(&lock);
    struct promise *known = find(context);
    if (!known && (known = find(NULL)))
        *known = (struct promise){.context = context, .card = card};
    if (!known && count < MAX_PROMISES) {
        known = &promises[count];
        *known = (struct promise){.context = context, .card = card};
        count++;
    }
    // a look may have found it arrived in the meantime
    if (known)
        known->pending = bytes < 0 && known->pending < (uint64_t)-bytes ? 0 : known->pending + (uint64_t)bytes;
    pthread_mutex_unlock(&lock);
    return known != NULL;
}

static void give_back(int card, uint64_t bytes)
{
    charge_drop(&(struct object){.card = (int16_t)card, .flags = OBJECT_MANAGED, .bytes = bytes});
}

static CUresult grow(CUcontext context, int card, size_t value, uint64_t more, const char *call)
{
    struct charge charge;
    CUresult refused = charge_exactly(&charge, card, more, call);
    if (refused != CUDA_SUCCESS)
        return refused;
    charge_mark_managed(&charge);
    CUresult result = REAL(cuCtxSetLimit)(CU_LIMIT_MALLOC_HEAP_SIZE, value);
    if (result == CUDA_SUCCESS && !add_pending(context, card, (int64_t)more))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    return charge_finish(&charge, result);
}

static CUresult set_limit(CUcontext context, int card, size_t value, const char *call)
{
    uint64_t wanted = value > DEFAULT_HEAP ? charge_round(value) : 0;
    struct promise promise = read_promise(context, card);
    uint64_t has = promise.pending + promise.taken;
    if (wanted > has)
        return grow(context, card, value, wanted - has, call);
    CUresult result = REAL(cuCtxSetLimit)(CU_LIMIT_MALLOC_HEAP_SIZE, value);
    uint64_t less = has - wanted < promise.pending ? has - wanted : promise.pending;
    if (result == CUDA_SUCCESS && less) {
        add_pending(context, card, -(int64_t)less);
        give_back(card, less);
    }
    return result;
}

CUresult heap_set_limit(size_t value, const char *call)
{
    CUcontext context = NULL;
    int card = cards_current();
    if (card < 0 || REAL(cuCtxGetCurrent)(&context) != CUDA_SUCCESS || !context)
        return REAL(cuCtxSetLimit)(CU_LIMIT_MALLOC_HEAP_SIZE, value);
    pthread_mutex_lock(&setting);
    CUresult result = set_limit(context, card, value, call);
    pthread_mutex_unlock(&setting);
    return result;
}

uint64_t heap_arrived(int card, uint64_t grown)
{
    uint64_t arrived = 0;
    if (grown == 0 || count == 0)
        return 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < count; i++) {
        struct promise *promise = &promises[i];
        if (!promise->context || promise->card != card || promise->pending == 0 || promise->pending > grown - arrived)
            continue;
        arrived += promise->pending;
        promise->taken += promise->pending;
        promise->pending = 0;
    }
    pthread_mutex_unlock(&lock);
    if (arrived)
        footprint_hide(card, -(int64_t)arrived);
    return arrived;
}

void heap_forget(CUcontext context)
{
    struct promise gone = {0};
    if (count == 0)
        return;
    pthread_mutex_lock(&lock);
    struct promise *known = find(context);
    if (known) {
        gone = *known;
        *known = (struct promise){0};
    }
    pthread_mutex_unlock(&lock);
    if (gone.pending)
        give_back(gone.card, gone.pending);
}

void heap_after_fork(void)
{
    pthread_mutex_init(&setting, NULL);
    pthread_mutex_init(&lock, NULL);
    count = 0;
}
