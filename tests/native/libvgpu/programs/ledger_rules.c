// The ledger's rules one by one: who counts as alive, who may take a slot, what a refusal record holds.
//   ledger_rules RULE
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "ledger.h"
#include "process.h"
#include "refusal.h"

#define DEAD ((uint64_t)0x7ffffff0 << 32 | 1)

static struct hami_usage *usage;

static struct ledger joined(void)
{
    struct ledger ledger = {.usage = usage, .owner = process_self()};
    CHECK(ledger_join(&ledger, "a name that is far too long"));
    return ledger;
}

static void recycled_pid_is_another_process(void)
{
    uint64_t self = process_self();
    CHECK(process_alive(self));
    CHECK(!process_alive(self + 1)); // our PID, started a tick later
    CHECK(!process_alive(DEAD));
    CHECK(process_pid(self) == (uint32_t)getpid());
}

static void *sleeper(void *data)
{
    (void)data;
    pause();
    return NULL;
}

static void zombie_leader_with_threads_is_alive(void)
{
    int ready[2];
    CHECK(pipe(ready) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, sleeper, NULL) == 0);
        uint64_t self = process_self();
        CHECK(write(ready[1], &self, sizeof self) == sizeof self);
        pthread_exit(NULL);
    }
    uint64_t owner;
    CHECK(read(ready[0], &owner, sizeof owner) == sizeof owner);
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    do { // until the leader is a zombie
        FILE *file = fopen(path, "r");
        CHECK(file && fgets(line, sizeof line, file));
        fclose(file);
    } while (!strstr(line, ") Z "));
    CHECK(process_alive(owner));
    kill(pid, SIGKILL);
    siginfo_t info;
    CHECK(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) == 0);
    CHECK(!process_alive(owner));
    CHECK(waitpid(pid, NULL, 0) == pid);
    CHECK(!process_alive(owner));
}

static void own_slot_of_before_exec_is_taken_over(void)
{
    usage->process_high = 3;
    usage->processes[2].owner = process_self();
    usage->processes[2].held[5] = 77;
    usage->processes[1].owner = DEAD;
    usage->processes[1].reaper = process_self(); // exec struck while it reaped
    struct ledger ledger = joined();
    CHECK(ledger.self == &usage->processes[2]);
    CHECK(ledger_used(usage, 5) == 0);
    CHECK(ledger_reap(usage, ledger.owner) == 1);
    CHECK(memcmp(ledger.self->comm, "a name that is ", 16) == 0);
}

static void full_page_refuses_the_next(void)
{
    usage->process_high = HAMI_MAX_PROCESSES;
    uint64_t parent = process_self();
    for (unsigned i = 0; i < HAMI_MAX_PROCESSES; i++)
        usage->processes[i].owner = parent; // one that lives, and isn't the child
    pid_t pid = fork();
    if (pid == 0) {
        struct ledger ledger = {.usage = usage, .owner = process_self()};
        CHECK(!ledger_join(&ledger, "one too many"));
        usage->processes[500].owner = DEAD;
        usage->processes[500].held[0] = 5;
        CHECK(ledger_join(&ledger, "now there is room"));
        CHECK(ledger.self == &usage->processes[500] && ledger.self->held[0] == 0);
        _exit(0);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void live_reaper_is_left_alone(void)
{
    usage->process_high = 1;
    usage->processes[0].owner = DEAD;
    usage->processes[0].held[0] = 9;
    usage->processes[0].reaper = (uint64_t)getppid() << 32; // lives, if its start time were known
    uint64_t parent = process_self();
    usage->processes[0].reaper = parent;
    pid_t pid = fork();
    if (pid == 0) {
        CHECK(ledger_reap(usage, process_self()) == 0);
        CHECK(usage->processes[0].held[0] == 9 && usage->processes[0].reaper == parent);
        _exit(0);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void nonsense_in_the_page_does_no_harm(void)
{
    memset(usage, 0xff, sizeof *usage);
    CHECK(ledger_high(usage) == HAMI_MAX_PROCESSES);
    CHECK(ledger_used(usage, 3) == UINT64_MAX);
    struct ledger ledger = {.usage = usage, .owner = process_self(), .self = &usage->processes[0]};
    uint64_t used;
    CHECK(!ledger_reserve(&ledger, 3, 1, UINT64_MAX - 1, &used));
    refusal_record(&ledger, &(struct refusal){.card = 3, .call = "cuMemAlloc_v2"});
}

static void release_never_goes_below_zero(void)
{
    struct ledger ledger = joined();
    CHECK(ledger_reserve(&ledger, 0, 10, 100, NULL));
    ledger_release(&ledger, 0, 11);
    CHECK(ledger_used(usage, 0) == 0);
    CHECK(usage->cards[0].peak == 10);
}

static void the_rest_is_all_that_is_left_and_no_peak(void)
{
    struct ledger ledger = joined();
    CHECK(ledger_reserve(&ledger, 0, 300, 1000, NULL));
    CHECK(ledger_reserve_rest(&ledger, 0, 1000) == 700);
    CHECK(ledger_reserve_rest(&ledger, 0, 1000) == 0);
    CHECK(ledger_reserve_rest(&ledger, 0, 500) == 0);
    CHECK(!ledger_reserve(&ledger, 0, 1, 1000, NULL));
    CHECK(usage->cards[0].peak == 300);
    ledger_settle(&ledger, 0, 700, 104);
    CHECK(ledger.self->held[0] == 300 && ledger.self->overhead[0] == 104);
    CHECK(ledger_used(usage, 0) == 404 && usage->cards[0].peak == 404);
}

static void refusal_says_who_holds_what(void)
{
    struct ledger ledger = joined();
    for (unsigned i = 1; i <= 6; i++) {
        usage->processes[i].owner = (uint64_t)i << 32;
        usage->processes[i].held[1] = i * 100;
    }
    usage->process_high = 7;
    struct refusal refusal = {.card = 1, .asked = 50, .used = 2100, .limit = 2120, .call = "cuMemAllocPitch_v2"};
    for (int i = 0; i < HAMI_MAX_REFUSALS + 1; i++)
        refusal_record(&ledger, &refusal);
    const struct hami_refusal *record = &usage->refusals[0]; // the 17th overwrote the first
    CHECK(usage->refusal_count == HAMI_MAX_REFUSALS + 1 && record->ticket == HAMI_MAX_REFUSALS + 1);
    CHECK(record->asked == 50 && record->used == 2100 && record->limit == 2120 && record->card == 1);
    CHECK(record->pid == (uint32_t)getpid() && strcmp(record->call, "cuMemAllocPitch_v2") == 0);
    CHECK(record->holders[0].pid == 6 && record->holders[0].bytes == 600);
    CHECK(record->holders[3].pid == 3 && record->holders[3].bytes == 300);
    CHECK(usage->cards[1].refusals == HAMI_MAX_REFUSALS + 1);
}

static const struct {
    const char *name;
    void (*run)(void);
} rules[] = {
#define RULE(name) {#name, name}
    RULE(recycled_pid_is_another_process),
    RULE(zombie_leader_with_threads_is_alive),
    RULE(own_slot_of_before_exec_is_taken_over),
    RULE(full_page_refuses_the_next),
    RULE(live_reaper_is_left_alone),
    RULE(nonsense_in_the_page_does_no_harm),
    RULE(release_never_goes_below_zero),
    RULE(the_rest_is_all_that_is_left_and_no_peak),
    RULE(refusal_says_who_holds_what),
};

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    usage = mmap(NULL, sizeof *usage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(usage != MAP_FAILED);
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (strcmp(rules[i].name, argv[1]) == 0) {
            rules[i].run();
            return 0;
        }
    }
    CHECK(!"such a rule");
}
