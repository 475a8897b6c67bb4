// Processes that die or fork: their share comes back, and nobody else's is lost.
#include "way.h"

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#define STORM_ROUNDS   3
#define STORM_CHILDREN 3

struct signals {
    _Atomic bool go;
};

static struct signals *signals;

static uint64_t most(void)
{
    return limit / 5 * 3;
}

static void take_most(int index)
{
    (void)index;
    open_card();
    fill(most());
}

// One holds most of the slice and is killed; the next must get as much.
static void kill_a_holder(void)
{
    expect(most());
    start_child(take_most, 0);
    await_children();
    kill_child(0);
    gave_back(granted_so_far());
    start_child(take_most, 1);
    await_children();
}

static void take_a_piece_then_all(int index)
{
    (void)index;
    open_card();
    fill(PIECE);
    arrive();
    while (!atomic_load(&signals->go))
        usleep(1000);
    fill(goal);
}

// Three hold a little; the first is killed; the others take all they can get.
static void kill_one_of_three(void)
{
    signals = share_with_children(sizeof *signals);
    for (int i = 0; i < 3; i++)
        start_child(take_a_piece_then_all, i);
    await_arrivals();
    kill_child(0);
    gave_back(PIECE);
    atomic_store(&signals->go, true);
    await_children();
}

static void allocate_and_free(int index)
{
    (void)index;
    open_card();
    arrive();
    CUdeviceptr pointer;
    while (cuMemAlloc(&pointer, 2 * MIB) == CUDA_SUCCESS)
        cuMemFree(pointer);
}

// Processes are killed in the midst of allocating, again and again; then one must get most of the slice.
static void kill_storm(void)
{
    int next = 0;
    expect(most());
    srand(1);
    for (int round = 0; round < STORM_ROUNDS; round++) {
        int first = next;
        for (int i = 0; i < STORM_CHILDREN; i++)
            start_child(allocate_and_free, next++);
        await_arrivals();
        for (int i = first; i < next; i++) {
            usleep((useconds_t)(rand() % 5000));
            kill_child(i);
        }
    }
    start_child(take_most, next);
    await_children();
}

static void fill_all(int index)
{
    (void)index;
    open_card();
    fill(goal);
}

// A child of a process that has used the card already may not; one forked before may, beside its parent.
static void fork_before(void)
{
    start_child(fill_all, 0);
    open_card();
    fill(goal);
    await_children();
}

// In a PID namespace of its own, with a /proc that shows nobody else: for the others its PID means nothing.
static void fill_in_a_namespace(int index)
{
    (void)index;
    if (unshare(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS) != 0) {
        note("this system allows no user namespaces");
        return;
    }
    pid_t child = fork();
    if (child < 0)
        broken("fork");
    if (child > 0) {
        // this one stays outside, and stays until the child has what it gets
        while (!atomic_load(&signals->go))
            usleep(1000);
        return;
    }
    if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 || mount("proc", "/proc", "proc", 0, NULL) != 0)
        note("/proc can't be mounted");
    open_card();
    fill(goal / 2);
    atomic_store(&signals->go, true);
    pause();
}

static void pid_namespace(void)
{
    signals = share_with_children(sizeof *signals);
    start_child(fill_in_a_namespace, 0);
    await_children();
    open_card();
    fill(goal);
}

// Its stdin and stdout are pipes of ours: `from` gives its lines, and it holds as long as nothing is written to it.
static void start_image(const char *way, int *from)
{
    int in[2], out[2];
    if (pipe(in) || pipe(out))
        broken("pipe");
    pid_t pid = fork();
    if (pid < 0)
        broken("fork");
    if (pid == 0) {
        char *next[] = {arguments[0], (char *)way, arguments[2], arguments[3], NULL};
        dup2(in[0], STDIN_FILENO);
        dup2(out[1], STDOUT_FILENO);
        close(in[1]);
        execv(arguments[0], next);
        broken("execv");
    }
    close(out[1]);
    *from = out[0];
}

// A process that uses the card starts a program, as a shell or a test runner would.
static void fork_and_exec(void)
{
    char line[256];
    unsigned long long mib;
    int from;
    open_card();
    fill(goal / 2);
    start_image("blocks_of_64m", &from);
    FILE *lines = fdopen(from, "r");
    while (lines && fgets(line, sizeof line, lines) && strcmp(line, "hold\n") != 0)
        if (sscanf(line, "granted %llu", &mib) == 1)
            granted("the started program", CUDA_SUCCESS, mib * MIB);
}

const struct way kill_ways[] = {
    {"kill_a_holder", kill_a_holder},
    {"kill_one_of_three", kill_one_of_three},
    {"kill_storm", kill_storm},
    {"fork_before", fork_before},
    {"fork_and_exec", fork_and_exec},
    {"pid_namespace", pid_namespace},
    {0},
};
