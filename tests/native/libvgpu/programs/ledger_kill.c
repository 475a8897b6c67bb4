// Kill a process at every step of the ledger, one after the other, and see that what it leaves is true and can be cleared.
//   ledger_kill SCENARIO     prints how many steps the scenario has
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "ledger.h"
#include "process.h"

#define LIMIT 1000
#define DEAD  ((uint64_t)0x7ffffff0 << 32 | 1) // no PID is that high

struct shared {
    struct hami_usage usage;
    _Atomic uint64_t driver; // what a driver would hold for the child
};

static struct shared *shared;
static int steps;
static int die_at = -1;
static bool rival; // another process adds at the same moment as we do, every time

void ledger_step(const char *where)
{
    if (rival && strcmp(where, "reserve: added") == 0)
        atomic_store(&shared->usage.processes[1].held[0], 900);
    if (rival && strcmp(where, "reserve: retreated") == 0)
        atomic_store(&shared->usage.processes[1].held[0], 0);
    if (steps++ == die_at)
        kill(getpid(), SIGKILL);
}

static struct ledger joined(void)
{
    struct ledger ledger = {.usage = &shared->usage, .owner = process_self()};
    CHECK(ledger_join(&ledger, "child"));
    return ledger;
}

// Reserve, let the driver take it, let the driver free it, release.
static void allocate_and_free(void)
{
    struct ledger ledger = joined();
    for (int i = 0; i < 2; i++) {
        CHECK(ledger_reserve(&ledger, 0, 300, LIMIT, NULL));
        atomic_fetch_add(&shared->driver, 300);
    }
    atomic_fetch_sub(&shared->driver, 300);
    ledger_release(&ledger, 0, 300);
    CHECK(!ledger_reserve(&ledger, 0, 800, LIMIT, NULL));
    ledger_set_overhead(&ledger, 0, 50);
}

// Clear what a dead process left, then use the slot.
static void reap(void)
{
    struct ledger ledger = joined();
    ledger_reap(&shared->usage, ledger.owner);
    CHECK(ledger_used(&shared->usage, 0) == 0);
    CHECK(ledger_reserve(&ledger, 0, 1000, LIMIT, NULL));
    atomic_fetch_add(&shared->driver, 1000);
}

// The same where an earlier reaper died at it.
static void reap_after_dead_reaper(void)
{
    reap();
}

// Two that race again and again: both retreat, nobody passes.
static void retreat(void)
{
    struct ledger ledger = joined();
    shared->usage.process_high = 2;
    rival = true;
    CHECK(!ledger_reserve(&ledger, 0, 300, LIMIT, NULL));
    rival = false;
    CHECK(ledger_used(&shared->usage, 0) == 0);
    CHECK(ledger_reserve(&ledger, 0, 300, LIMIT, NULL));
    atomic_fetch_add(&shared->driver, 300);
}

// The first context of a slice: reserve all, let the driver take what it takes, settle.
static void first_context(void)
{
    struct ledger ledger = joined();
    CHECK(ledger_reserve_rest(&ledger, 0, LIMIT) == LIMIT);
    atomic_fetch_add(&shared->driver, 104);
    ledger_settle(&ledger, 0, LIMIT, 104);
    CHECK(ledger_used(&shared->usage, 0) == 104);
}

static const struct scenario {
    const char *name;
    void (*run)(void);
    bool dead_slot, dead_reaper;
} scenarios[] = {
    {"allocate", allocate_and_free, false, false},
    {"retreat", retreat, false, false},
    {"first_context", first_context, false, false},
    {"reap", reap, true, false},
    {"reap_after_dead_reaper", reap_after_dead_reaper, true, true},
};

static void prepare(const struct scenario *scenario)
{
    memset(shared, 0, sizeof *shared);
    if (!scenario->dead_slot)
        return;
    shared->usage.processes[0].owner = DEAD;
    shared->usage.processes[0].held[0] = 700;
    shared->usage.processes[0].overhead[0] = 200;
    shared->usage.processes[0].reaper = scenario->dead_reaper ? DEAD + 1 : 0;
    shared->usage.process_high = 1;
}

// Everything of the child in the page, whatever state it is in.
static uint64_t held_by(pid_t pid)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < HAMI_MAX_PROCESSES; i++)
        if (process_pid(shared->usage.processes[i].owner) == (uint32_t)pid)
            sum += shared->usage.processes[i].held[0] + shared->usage.processes[i].overhead[0];
    return sum;
}

static void no_trace_left(void)
{
    unsigned high = ledger_high(&shared->usage);
    for (unsigned i = 0; i < HAMI_MAX_PROCESSES; i++) {
        CHECK(i < high || shared->usage.processes[i].owner == 0);
        CHECK(shared->usage.processes[i].owner == 0);
        CHECK(shared->usage.processes[i].held[0] == 0 && shared->usage.processes[i].overhead[0] == 0);
        CHECK(shared->usage.processes[i].moving == 0);
    }
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    const struct scenario *scenario = NULL;
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++)
        if (strcmp(scenarios[i].name, argv[1]) == 0)
            scenario = &scenarios[i];
    CHECK(scenario);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    for (die_at = 0;; die_at++) {
        prepare(scenario);
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            scenario->run();
            _exit(0);
        }
        int status;
        // a zombie still has its PID: that it counts as dead is part of the test
        siginfo_t info;
        CHECK(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) == 0);
        CHECK(held_by(pid) >= shared->driver);
        int saved = die_at;
        die_at = -1; // the survivor clears up
        rival = false;
        shared->usage.processes[1].held[0] =
            process_pid(shared->usage.processes[1].owner) == (uint32_t)pid ? shared->usage.processes[1].held[0] : 0;
        uint64_t self = process_self();
        ledger_reap(&shared->usage, self);
        no_trace_left();
        struct ledger ledger = {.usage = &shared->usage, .owner = self};
        CHECK(ledger_join(&ledger, "survivor"));
        CHECK(ledger_reserve(&ledger, 0, LIMIT, LIMIT, NULL));
        die_at = saved;
        CHECK(waitpid(pid, &status, 0) == pid);
        if (WIFEXITED(status)) {
            CHECK(WEXITSTATUS(status) == 0);
            break;
        }
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        steps = 0;
    }
    printf("%d\n", die_at);
    return 0;
}
