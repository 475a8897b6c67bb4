// Who waits for the slice's first context never reserves the rest of it once the cost is known, not even if that comes
// between its look and its grasp: others that fit would be refused.
//   context_turn process|thread FILE     the one that waits; FILE will be the usage page
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cards.h"
#include "check.h"
#include "context_cost.h"
#include "life.h"
#include "member.h"
#include "process.h"
#include "slice.h"

#define LIMIT   1000
#define CONTEXT 104

struct stage {
    _Atomic bool is_making, settle, is_settled;
};

static struct hami_limits limits = {.cards[0].vram = LIMIT};
static struct slice place = {.limits = &limits};
static struct ledger ledger;
static struct stage *stage;
static _Thread_local bool waits;

// ---- what context_cost.c stands on, without a driver -------------------------------------------------------------------

const struct slice *slice(void)
{
    return &place;
}

struct ledger *member_ledger(void)
{
    return &ledger;
}

unsigned member_reap(bool now)
{
    (void)now;
    return 0;
}

static void let_the_cost_be_known(void)
{
    atomic_store(&stage->settle, true);
    while (!atomic_load(&stage->is_settled))
        usleep(1000);
}

bool charge_rest(struct charge *charge, int card, const char *call)
{
    if (waits)
        let_the_cost_be_known();
    *charge = (struct charge){.card = CARD_NONE, .call = call};
    charge->taken = ledger_reserve_rest(&ledger, (unsigned)card, LIMIT);
    if (!charge->taken)
        return false;
    CHECK(atomic_load(&place.usage->cards[card].context_bytes) == 0);
    charge->card = card;
    return true;
}

CUresult charge_exactly(struct charge *charge, int card, uint64_t bytes, const char *call)
{
    *charge = (struct charge){.card = card, .bytes = bytes, .taken = bytes, .call = call};
    return ledger_reserve(&ledger, (unsigned)card, bytes, LIMIT, NULL) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult charge_finish(struct charge *charge, CUresult result)
{
    if (result != CUDA_SUCCESS)
        ledger_release(&ledger, (unsigned)charge->card, charge->taken);
    return result;
}

CUresult charge_refuse(int card, uint64_t asked, const char *call)
{
    (void)card, (void)asked, (void)call;
    return CUDA_ERROR_OUT_OF_MEMORY;
}

void footprint_before(struct measure *measure, int card)
{
    measure->card = card;
}

uint64_t footprint_learn_context(const struct measure *measure, uint64_t reserved)
{
    ledger_settle(&ledger, (unsigned)measure->card, reserved, CONTEXT);
    return CONTEXT;
}

void footprint_take_over(int card, uint64_t reserved)
{
    uint64_t before = atomic_load(&ledger.self->overhead[card]);
    ledger_settle(&ledger, (unsigned)card, reserved, before + reserved);
}

bool footprint_is_exact(int card)
{
    (void)card;
    return false;
}

void footprint_refresh(int card)
{
    (void)card;
}

// In place of libc's: whoever sleeps waits for the cost.
int nanosleep(const struct timespec *time, struct timespec *rest)
{
    if (waits)
        let_the_cost_be_known();
    return clock_nanosleep(CLOCK_MONOTONIC, 0, time, rest);
}

// ---- the two -----------------------------------------------------------------------------------------------------------

static void join(void)
{
    life_begin(place.usage_path, place.usage_file);
    ledger = (struct ledger){.usage = place.usage, .owner = process_self()};
    CHECK(ledger_join(&ledger, "turn"));
}

static void make_the_first(void)
{
    struct context_cost cost;
    CHECK(context_cost_reserve(&cost, 0, "first") == CUDA_SUCCESS && cost.first);
    atomic_store(&stage->is_making, true);
    while (!atomic_load(&stage->settle))
        usleep(1000);
    CHECK(context_cost_settle(&cost, true) == CONTEXT);
    atomic_store(&stage->is_settled, true);
}

static void *make_the_second(void *unused)
{
    struct context_cost cost;
    waits = true;
    while (!atomic_load(&stage->is_making))
        usleep(1000);
    CHECK(context_cost_reserve(&cost, 0, "second") == CUDA_SUCCESS && !cost.first && cost.charge.taken == CONTEXT);
    CHECK(context_cost_settle(&cost, true) == CONTEXT);
    return unused;
}

static void beside_a_process(void)
{
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        alarm(60); // a parent that failed never settles
        join();
        make_the_second(NULL);
        _exit(0);
    }
    join();
    make_the_first();
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

static void beside_a_thread(void)
{
    pthread_t thread;
    join();
    CHECK(pthread_create(&thread, NULL, make_the_second, NULL) == 0);
    make_the_first();
    CHECK(pthread_join(thread, NULL) == 0);
}

static void *shared(size_t bytes, int fd)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0);
    CHECK(at != MAP_FAILED);
    return at;
}

int main(int argc, char **argv)
{
    CHECK(argc == 3 && strlen(argv[2]) < sizeof place.usage_path);
    strcpy(place.usage_path, argv[2]);
    int fd = open(argv[2], O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && ftruncate(fd, sizeof(struct hami_usage)) == 0 && file_id(fd, "", &place.usage_file));
    place.usage = shared(sizeof(struct hami_usage), fd);
    stage = shared(sizeof *stage, -1);
    if (strcmp(argv[1], "process") == 0)
        beside_a_process();
    else
        beside_a_thread();
    CHECK(ledger_used(place.usage, 0) == (uint64_t)2 * CONTEXT);
    return 0;
}
