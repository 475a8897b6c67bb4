#include "way.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_CHILDREN 256
#define MAX_NOTE     256

// Shared by the way and its children.
struct tally {
    _Atomic uint64_t granted;
    _Atomic int refused; // CUresult of the first refusal
    char call[64];
    _Atomic bool arrived[MAX_CHILDREN];
    _Atomic bool finished[MAX_CHILDREN];
};

uint64_t limit, goal, context_bytes;
int rounds = 100;
char **arguments;

static struct tally *tally;
static uint64_t expected;
static char notes[MAX_NOTE];
static pid_t children[MAX_CHILDREN];
static int child_count;
static int own_index = -1; // of a child

bool granted(const char *call, CUresult result, uint64_t bytes)
{
    if (result == CUDA_SUCCESS) {
        atomic_fetch_add(&tally->granted, bytes);
        return true;
    }
    int none = CUDA_SUCCESS;
    if (atomic_compare_exchange_strong(&tally->refused, &none, (int)result))
        snprintf(tally->call, sizeof tally->call, "%s", call);
    return false;
}

void gave_back(uint64_t bytes)
{
    atomic_fetch_sub(&tally->granted, bytes);
}

uint64_t granted_so_far(void)
{
    return atomic_load(&tally->granted);
}

bool wanting(void)
{
    return granted_so_far() < goal;
}

void expect(uint64_t bytes)
{
    expected = bytes;
}

void note(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(notes, sizeof notes, format, list);
    va_end(list);
}

void broken(const char *what)
{
    printf("broken %s: %s\n", what, strerror(errno));
    fflush(stdout);
    _exit(3);
}

void *share_with_children(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        broken("mmap");
    return memory;
}

void beside(const char *name, char path[PATH_MAX])
{
    ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - 64);
    if (length < 0)
        broken("readlink");
    path[length] = '\0';
    strcpy(strrchr(path, '/') + 1, name);
}

static void finish_child(void)
{
    atomic_store(&tally->finished[own_index], true);
    for (;;)
        pause();
}

void hold(void)
{
    if (own_index >= 0)
        finish_child();
    if (expected)
        printf("expect %llu\n", (unsigned long long)(expected / MIB));
    printf("granted %llu\n", (unsigned long long)(granted_so_far() / MIB));
    if (tally->refused)
        printf("refused %d %s\n", tally->refused, tally->call);
    if (notes[0])
        printf("note %s\n", notes);
    puts("hold");
    fflush(stdout);
    char byte;
    while (read(STDIN_FILENO, &byte, 1) < 0 && errno == EINTR)
        ;
    for (int i = 0; i < child_count; i++)
        kill_child(i);
    _exit(0);
}

void need(const char *call, CUresult result)
{
    if (!granted(call, result, 0))
        hold();
}

void open_card(void)
{
    CUdevice device;
    CUcontext context;
    need("cuInit", cuInit(0));
    need("cuDeviceGet", cuDeviceGet(&device, 0));
    need("cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain(&context, device));
    need("cuCtxSetCurrent", cuCtxSetCurrent(context));
}

void fill_by(const char *call, alloc_call *alloc, uint64_t bytes, uint64_t piece)
{
    CUdeviceptr pointer;
    for (uint64_t got = 0; got < bytes && wanting(); got += piece)
        if (!granted(call, alloc(&pointer, piece), piece))
            return;
}

void fill(uint64_t bytes)
{
    fill_by("cuMemAlloc", cuMemAlloc, bytes, PIECE);
}

void start_child(void (*run)(int), int index)
{
    if (index >= MAX_CHILDREN || index != child_count) {
        errno = EINVAL;
        broken("start_child");
    }
    pid_t pid = fork();
    if (pid < 0)
        broken("fork");
    if (pid > 0) {
        children[child_count++] = pid;
        return;
    }
    own_index = index;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    run(index);
    finish_child();
}

static bool is_gone(int index)
{
    return children[index] == 0;
}

bool child_is_done(int index)
{
    int status;
    if (atomic_load(&tally->finished[index]) || is_gone(index))
        return true;
    // one that crashed will never say that it has finished
    if (waitpid(children[index], &status, WNOHANG) != children[index])
        return false;
    note("a child ended with %s %d", WIFSIGNALED(status) ? "signal" : "code",
         WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    children[index] = 0;
    return true;
}

void await_children(void)
{
    for (int i = 0; i < child_count; i++)
        while (!child_is_done(i))
            usleep(1000);
}

void arrive(void)
{
    atomic_store(&tally->arrived[own_index], true);
}

int await_arrivals(void)
{
    int count = 0;
    for (int i = 0; i < child_count; i++) {
        while (!atomic_load(&tally->arrived[i]) && !child_is_done(i))
            usleep(1000);
        count += atomic_load(&tally->arrived[i]);
    }
    return count;
}

void kill_child(int index)
{
    if (is_gone(index))
        return;
    kill(children[index], SIGKILL);
    waitpid(children[index], NULL, 0);
    children[index] = 0;
}

static const struct way *const subjects[] = {memory_ways, pool_ways,  vmm_ways,     array_ways,      module_ways,
                                             limit_ways,  graph_ways, context_ways, race_ways,       kill_ways,
                                             share_ways,  peer_ways,  lookup_ways,  environment_ways};

static const struct way *find(const char *name)
{
    for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++)
        for (const struct way *way = subjects[i]; way->name; way++) {
            if (!name)
                puts(way->name);
            else if (strcmp(way->name, name) == 0)
                return way;
        }
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        find(NULL);
        return 0;
    }
    const struct way *way = argc == 4 || argc == 5 ? find(argv[1]) : NULL;
    if (!way) {
        fprintf(stderr, "usage: ways NAME LIMIT_MIB CONTEXT_MIB [ROUNDS]\n");
        return 2;
    }
    arguments = argv;
    limit = strtoull(argv[2], NULL, 10) * MIB;
    goal = limit / 2 * 3;
    context_bytes = strtoull(argv[3], NULL, 10) * MIB;
    if (argc == 5)
        rounds = atoi(argv[4]);
    tally = share_with_children(sizeof *tally);
    way->run();
    hold();
}
