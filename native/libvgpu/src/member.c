#include "member.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "clock.h"
#include "importers.h"
#include "life.h"
#include "process.h"
#include "say.h"
#include "slice.h"

#define REAP_INTERVAL_NS UINT64_C(10000000)

static struct ledger ledger;
static _Atomic(struct ledger *) joined;
static pthread_mutex_t joining = PTHREAD_MUTEX_INITIALIZER; // one thread of a process joins or reaps at a time
static _Atomic uint64_t last_reap_ns;

static void begin_life(void)
{
    life_begin(slice()->usage_path, slice()->usage_file);
}

static struct ledger *join(void)
{
    int saved = errno;
    pthread_mutex_lock(&joining);
    struct ledger *result = atomic_load(&joined);
    if (!result) {
        char comm[HAMI_COMM_SIZE];
        process_name(comm);
        ledger.usage = slice()->usage;
        ledger.owner = process_self();
        begin_life();
        if (ledger_join(&ledger, comm)) {
            result = &ledger;
            atomic_store_explicit(&joined, result, memory_order_release);
        } else {
            say_once("hami: CUDA is refused, because %d processes of this slice use it already. End some of them.",
                     HAMI_MAX_PROCESSES);
        }
    }
    pthread_mutex_unlock(&joining);
    errno = saved;
    return result;
}

struct ledger *member_ledger(void)
{
    struct ledger *result = atomic_load_explicit(&joined, memory_order_acquire);
    return __builtin_expect(result != NULL, 1) ? result : join();
}

unsigned member_reap(bool now)
{
    uint64_t ns = clock_ns(CLOCK_MONOTONIC);
    uint64_t last = atomic_load_explicit(&last_reap_ns, memory_order_relaxed);
    if (!now && ns - last < REAP_INTERVAL_NS)
        return 0;
    atomic_store_explicit(&last_reap_ns, ns, memory_order_relaxed);
    int saved = errno;
    pthread_mutex_lock(&joining);
    struct ledger *self = atomic_load(&joined);
    begin_life();
    uint64_t owner = self ? self->owner : process_self();
    importers_look(owner);
    unsigned cleared = ledger_reap(slice()->usage, owner);
    pthread_mutex_unlock(&joining);
    errno = saved;
    return cleared;
}

void member_after_fork(void)
{
    pthread_mutex_init(&joining, NULL);
    atomic_store(&joined, NULL);
    atomic_store(&last_reap_ns, 0);
}
