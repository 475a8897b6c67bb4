// Random operations by several processes of one slice, on the simulated card, and after each round the question whether the
// ledger and the driver say the same.
//   fuzz FOLDER WORKER [option=number ...] [skip=FILE]
//     seed, workers, cards' limit in MiB, rounds, steps a worker and round, kill and resize percent,
//     spaces: so many workers have a PID namespace and a /proc of their own (for root),
//     turns=1: one worker at a time, one step at a time: the run repeats exactly, and true use is checked after each step;
//     stop: so many steps are made by turns, the rest of the rounds only settles;
//     trace=1: after each step by turns, what page and driver say of who made it
// FOLDER is the simulation's and gets the slice; WORKER is the program, LIMITER in the environment what is preloaded into it.
// Prints what was done; ends with 1 and the reason, and the steps that were not skipped lie in FOLDER/steps.
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../programs/check.h"
#include "hamisim.h"
#include "judge.h"

#define PATIENCE 120 // seconds for a round that takes a fraction of one

static struct {
    uint64_t seed, workers, limit, rounds, steps, kill, resize, turns, stop, trace, spaces;
} options = {
    .seed = 1, .workers = 3, .limit = 1200, .rounds = 20, .steps = 200, .kill = 10, .resize = 10, .stop = UINT64_MAX};

static const struct {
    const char *name;
    uint64_t *value;
} option_names[] = {{"seed", &options.seed},     {"workers", &options.workers}, {"limit", &options.limit},
                    {"rounds", &options.rounds}, {"steps", &options.steps},     {"kill", &options.kill},
                    {"resize", &options.resize}, {"turns", &options.turns},     {"stop", &options.stop},
                    {"trace", &options.trace},   {"spaces", &options.spaces}};

static const char *folder, *worker_program;
static char slice_path[400], board_path[400];
static struct board *board;
static struct judge judge;
static pid_t pids[MAX_WORKERS];    // of the workers
static pid_t parents[MAX_WORKERS]; // of those that have a PID namespace of their own, else 0
static uint64_t kills, resizes;
static uint64_t dice_count;
static uint64_t turn;
static int last = -1; // who made the last step, by turns

static uint64_t dice(uint64_t sides)
{
    return plan_mix(plan_mix(options.seed, 1000), dice_count++) % sides;
}

// ---- preparing -------------------------------------------------------------------------------------------------------

static void read_options(char **arguments, const char **skip)
{
    for (; *arguments; arguments++) {
        char *value = strchr(*arguments, '=');
        CHECK(value);
        *value++ = 0;
        if (strcmp(*arguments, "skip") == 0) {
            *skip = value;
            continue;
        }
        bool known = false;
        for (size_t i = 0; i < sizeof option_names / sizeof *option_names; i++) {
            if (strcmp(*arguments, option_names[i].name) != 0)
                continue;
            *option_names[i].value = strtoull(value, NULL, 10);
            known = true;
        }
        CHECK(known);
    }
    CHECK(options.workers >= 1 && options.workers <= MAX_WORKERS);
}

// Numbers of 8 bytes, sorted.
static void make_board(const char *skip)
{
    struct stat status = {0};
    int skipped = skip ? open(skip, O_RDONLY | O_CLOEXEC) : -1;
    CHECK(!skip || (skipped >= 0 && fstat(skipped, &status) == 0));
    snprintf(board_path, sizeof board_path, "%s/board", folder);
    int fd = open(board_path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && ftruncate(fd, (off_t)sizeof *board + status.st_size) == 0);
    close(fd);
    board = board_map(board_path);
    CHECK(board);
    CHECK(skipped < 0 || read(skipped, board->skipped, (size_t)status.st_size) == status.st_size);
    board->skipped_count = (uint64_t)status.st_size / sizeof *board->skipped;
    board->seed = options.seed;
    for (unsigned card = 0; card < CARDS; card++)
        board->limit[card] = options.limit << 20;
}

static void become_worker(unsigned number)
{
    char text[8];
    snprintf(text, sizeof text, "%u", number);
    setenv("LD_PRELOAD", getenv("LIMITER"), 1);
    setenv("HAMI_SLICE_DIR", slice_path, 1);
    execl(worker_program, worker_program, board_path, text, NULL);
    _Exit(127);
}

// As the first process of a PID namespace, with a /proc that shows nothing else; this one stays outside and waits for it.
static void live_in_space(unsigned number)
{
    CHECK(unshare(CLONE_NEWPID | CLONE_NEWNS) == 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
        CHECK(mount("proc", "/proc", "proc", 0, NULL) == 0);
        become_worker(number);
    }
    atomic_store(&board->workers[number].outer_pid, (uint32_t)child);
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    _Exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

static void start_worker(unsigned number)
{
    struct worker_board *own = &board->workers[number];
    memset(own->beyond, 0, sizeof own->beyond);
    for (unsigned i = 0; i < OFFERS; i++)
        atomic_store(&own->offered[i], false);
    atomic_store(&own->done, atomic_load(&own->order));
    bool in_space = number < options.spaces;
    own->outer_pid = 0;
    pids[number] = fork();
    CHECK(pids[number] >= 0);
    if (pids[number] == 0)
        in_space ? live_in_space(number) : become_worker(number);
    parents[number] = in_space ? pids[number] : 0;
    while (in_space && (pids[number] = (pid_t)atomic_load(&own->outer_pid)) == 0)
        usleep(100);
}

static int collect(unsigned number, int *status, int flags)
{
    pid_t child = parents[number] ? parents[number] : pids[number];
    return waitpid(child, status, flags) == child;
}

// ---- telling what went wrong -----------------------------------------------------------------------------------------

static void write_steps(void)
{
    char path[400];
    snprintf(path, sizeof path, "%s/steps", folder);
    FILE *file = fopen(path, "w");
    CHECK(file);
    for (unsigned i = 0; i < options.workers; i++) {
        for (uint64_t number = 0; number < board->workers[i].next; number++) {
            if (board_skips(board, i, number))
                continue;
            struct step step = plan_step(options.seed, i, number);
            fprintf(file, "%u %llu %s %u %llu\n", i, (unsigned long long)number, plan_name(step.operation), step.slot,
                    (unsigned long long)step.bytes);
        }
    }
    fclose(file);
}

static void end_all(void)
{
    for (unsigned i = 0; i < options.workers; i++) {
        if (pids[i] > 0) {
            kill(pids[i], SIGKILL);
            collect(i, NULL, 0);
        }
    }
}

static void fail(const char *what)
{
    printf("seed %llu, turn %llu: %s\n", (unsigned long long)options.seed, (unsigned long long)turn, what);
    fflush(stdout);
    if (last >= 0) {
        uint64_t number = board->workers[last].next - 1;
        struct step step = plan_step(options.seed, (unsigned)last, number);
        printf("after worker %d's step %llu: %s of slot %u, %llu bytes\n", last, (unsigned long long)number,
               plan_name(step.operation), step.slot, (unsigned long long)step.bytes);
    }
    write_steps();
    end_all();
    exit(1);
}

static void require(bool holds)
{
    if (!holds)
        fail(judge.complaint);
}

// ---- giving orders ---------------------------------------------------------------------------------------------------

static void order(unsigned number, enum order_kind kind, uint64_t count)
{
    struct worker_board *own = &board->workers[number];
    own->kind = kind;
    own->first = own->next;
    own->count = count;
    atomic_fetch_add(&own->order, 1);
    board_wake(&own->order);
}

static void await(unsigned number)
{
    struct worker_board *own = &board->workers[number];
    uint32_t before = atomic_load(&own->order) - 1;
    for (int second = 0; !board_wait_for(&own->done, before, 1); second++) {
        int status;
        char text[100];
        if (collect(number, &status, WNOHANG)) {
            pids[number] = 0;
            snprintf(text, sizeof text, "Worker %u ended by itself, status %#x.", number, (unsigned)status);
            fail(text);
        }
        if (second > PATIENCE)
            fail("A worker answers no more.");
    }
    if (own->failed)
        fail(own->failure);
}

static void end_worker(unsigned number)
{
    kill(pids[number], SIGKILL);
    CHECK(collect(number, NULL, 0));
    pids[number] = 0;
    kills++;
}

// All at once; some are struck down or held up at any instruction.
static void run_freely(void)
{
    for (unsigned i = 0; i < options.workers; i++)
        order(i, ORDER_STEPS, options.steps / 2 + dice(options.steps));
    unsigned struck = (unsigned)options.workers;
    if (dice(100) < options.kill) {
        usleep((useconds_t)dice(4000));
        struck = (unsigned)dice(options.workers);
        end_worker(struck);
    } else if (dice(100) < options.kill) {
        unsigned held_up = (unsigned)dice(options.workers);
        usleep((useconds_t)dice(2000));
        kill(pids[held_up], SIGSTOP);
        usleep((useconds_t)dice(5000));
        kill(pids[held_up], SIGCONT);
    }
    for (unsigned i = 0; i < options.workers; i++)
        if (i != struck)
            await(i);
    require(judge_use(&judge));
    if (struck < options.workers)
        start_worker(struck);
}

static void trace_step(unsigned number)
{
    uint64_t made = board->workers[number].next - 1;
    struct step step = plan_step(options.seed, number, made);
    if (board_skips(board, number, made))
        return;
    printf("%u %llu %s %u %llu:", number, (unsigned long long)made, plan_name(step.operation), step.slot,
           (unsigned long long)step.bytes);
    for (unsigned card = 0; card < CARDS; card++)
        printf(" %llu %llu", (unsigned long long)judge_page(&judge, number, card) >> 10,
               (unsigned long long)hamisim_held(card, pids[number]) >> 10);
    printf("\n");
}

static void run_by_turns(void)
{
    for (uint64_t i = 0; i < options.steps * options.workers && turn < options.stop; i++, turn++) {
        unsigned number = (unsigned)dice(options.workers);
        order(number, ORDER_STEPS, 1);
        await(number);
        last = (int)number;
        if (options.trace)
            trace_step(number);
        require(judge_use(&judge));
    }
    last = -1;
    if (turn < options.stop && dice(100) < options.kill) {
        unsigned struck = (unsigned)dice(options.workers);
        end_worker(struck);
        start_worker(struck);
    }
}

static void settle(enum order_kind kind)
{
    for (unsigned i = 0; i < options.workers; i++) {
        order(i, kind, 0);
        await(i);
    }
    require(judge_use(&judge));
    require(judge_ledger(&judge, pids, (unsigned)options.workers));
}

static void report(void)
{
    uint64_t good = 0, refused = 0, other = 0;
    for (unsigned operation = 0; operation < OPERATION_COUNT; operation++) {
        uint64_t sums[3] = {0};
        for (unsigned i = 0; i < options.workers; i++) {
            sums[0] += board->workers[i].good[operation];
            sums[1] += board->workers[i].refused[operation];
            sums[2] += board->workers[i].other[operation];
        }
        printf("%-16s %10llu done %9llu refused %9llu other\n", plan_name((enum operation)operation),
               (unsigned long long)sums[0], (unsigned long long)sums[1], (unsigned long long)sums[2]);
        good += sums[0], refused += sums[1], other += sums[2];
    }
    printf("operations %llu, done %llu, refused %llu, other answers %llu, kills %llu, resizes %llu\n",
           (unsigned long long)(good + refused + other), (unsigned long long)good, (unsigned long long)refused,
           (unsigned long long)other, (unsigned long long)kills, (unsigned long long)resizes);
}

int main(int argc, char **argv)
{
    CHECK(argc >= 3);
    folder = argv[1];
    worker_program = argv[2];
    const char *skip = NULL;
    read_options(argv + 3, &skip);
    make_board(skip);
    snprintf(slice_path, sizeof slice_path, "%s/slice", folder);
    CHECK(mkdir(slice_path, 0755) == 0 || errno == EEXIST);
    CHECK(judge_make_slice(&judge, slice_path, board));
    for (unsigned i = 0; i < options.workers; i++)
        start_worker(i);
    for (uint64_t round = 0; round < options.rounds && turn < options.stop; round++) {
        options.turns ? run_by_turns() : run_freely();
        settle(ORDER_SETTLE);
        if (turn < options.stop && dice(100) < options.resize) {
            judge_resize(&judge, (unsigned)dice(CARDS), (options.limit / 2 + dice(options.limit)) << 20);
            resizes++;
        }
    }
    settle(ORDER_GIVE_ALL);
    settle(ORDER_GIVE_ALL);
    require(judge_empty(&judge, pids, (unsigned)options.workers));
    for (unsigned i = 0; i < options.workers; i++) {
        order(i, ORDER_END, 0);
        CHECK(collect(i, NULL, 0));
    }
    report();
    return 0;
}
