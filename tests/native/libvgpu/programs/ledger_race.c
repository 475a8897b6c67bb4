// Many processes, each with threads, take and give back at random under one limit.  Beside the ledger a counter of what a driver
// would hold is kept: it must never pass the limit, and in the end both must be empty.
//   ledger_race PROCESSES THREADS ROUNDS KILLS
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "ledger.h"
#include "process.h"

#define LIMIT      UINT64_C(1000)
#define ONE_CHANGE (UINT64_C(1) << 32)

struct shared {
    struct hami_usage usage;
    _Atomic uint64_t driver[64]; // by child: bytes, and above them how often they changed
    _Atomic uint64_t passed, refused;
    _Atomic int over;
};

static struct shared *shared;
static struct ledger ledger;
static int self_index, rounds;

static void driver_takes(int64_t bytes)
{
    atomic_fetch_add(&shared->driver[self_index], ONE_CHANGE + (uint64_t)bytes);
}

// Whether more is held than may be: of one moment, since nothing changed between two looks.
static bool driver_is_over(void)
{
    uint64_t first[64], sum = 0;
    for (int i = 0; i < 64; i++) {
        first[i] = atomic_load(&shared->driver[i]);
        sum += first[i] % ONE_CHANGE;
    }
    for (int i = 0; i < 64; i++) {
        if (atomic_load(&shared->driver[i]) != first[i])
            return false;
    }
    return sum > LIMIT;
}

static void *worker(void *data)
{
    unsigned seed = (unsigned)(uintptr_t)data;
    for (int i = 0; i < rounds; i++) {
        uint64_t bytes = 1 + (uint64_t)rand_r(&seed) % 600;
        if (!ledger_reserve(&ledger, 0, bytes, LIMIT, NULL)) {
            atomic_fetch_add(&shared->refused, 1);
            continue;
        }
        driver_takes((int64_t)bytes);
        if (driver_is_over())
            atomic_store(&shared->over, 1);
        atomic_fetch_add(&shared->passed, 1);
        driver_takes(-(int64_t)bytes);
        ledger_release(&ledger, 0, bytes);
    }
    return NULL;
}

static void child(int index, int threads)
{
    self_index = index;
    ledger = (struct ledger){.usage = &shared->usage, .owner = process_self()};
    CHECK(ledger_join(&ledger, "racer"));
    pthread_t others[64];
    for (int i = 0; i < threads; i++)
        CHECK(pthread_create(&others[i], NULL, worker, (void *)(uintptr_t)(index * 100 + i + 1)) == 0);
    for (int i = 0; i < threads; i++)
        pthread_join(others[i], NULL);
}

static bool holds_a_slot(pid_t pid)
{
    for (unsigned i = 0; i < ledger_high(&shared->usage); i++)
        if (process_pid(atomic_load(&shared->usage.processes[i].owner)) == (uint32_t)pid)
            return true;
    return false;
}

static bool has_ended(pid_t pid)
{
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid;
}

int main(int argc, char **argv)
{
    CHECK(argc == 5);
    int processes = atoi(argv[1]), threads = atoi(argv[2]), kills = atoi(argv[4]);
    rounds = atoi(argv[3]);
    CHECK(processes <= 64 && threads <= 64);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    if (processes == 1) { // under ThreadSanitizer
        child(0, threads);
    } else {
        pid_t pids[64];
        for (int i = 0; i < processes; i++) {
            pids[i] = fork();
            CHECK(pids[i] >= 0);
            if (pids[i] == 0) {
                child(i, threads);
                _exit(0);
            }
        }
        for (int i = 0; i < kills; i++) {
            while (!holds_a_slot(pids[i]) && !has_ended(pids[i]))
                usleep(1000);
            kill(pids[i], SIGKILL);
            int status;
            waitpid(pids[i], &status, 0);
            // its memory is gone with it, and its share comes back while the others go on
            atomic_store(&shared->driver[i], 0);
            ledger_reap(&shared->usage, process_self());
            CHECK(!holds_a_slot(pids[i]));
        }
        for (int i = kills; i < processes; i++) {
            int status;
            CHECK(waitpid(pids[i], &status, 0) == pids[i]);
            CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        }
        ledger_reap(&shared->usage, process_self());
    }
    CHECK(!atomic_load(&shared->over));
    CHECK(ledger_used(&shared->usage, 0) == 0);
    CHECK(atomic_load(&shared->passed) > 0);
    CHECK(shared->usage.cards[0].peak <= LIMIT);
    printf("passed %llu refused %llu\n", (unsigned long long)shared->passed, (unsigned long long)shared->refused);
    return 0;
}
