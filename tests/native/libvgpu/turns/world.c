// The world: simulated time, the card's engine of native/simgpu, and the processes as coroutines.
//
//   world LIBRARY SECONDS SWITCH PROCESS...
//     SWITCH: us that the card takes from one process to another;  PROCESS: "slice=DIR kernel=us period=us ..."
//
// Each process has its own copy of the core share's code, LIBRARY being copied for it.  Prints one line of JSON a process.
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <ucontext.h>
#include <unistd.h>

#include "engine.h"
#include "world.h"

#define MAX_PROCESSES 32
#define STACK         (256 * 1024)
#define QUEUE         1024 // launches that the driver takes before a call waits
#define MAX_BURSTS    4096
#define LAUNCH_NS     2000
#define WAKE_NS       3000 // a thread that slept comes late
#define EVENT_NS      1000 // that the card takes for one
#define MARK_NS       300

struct entry {
    uint64_t position;
    _Atomic uint32_t *at; // a mark
    uint32_t value;
    uint64_t *when; // an event; neither: a kernel
    uint64_t issued;
};

struct process {
    char slice[512];
    uint64_t kernel_ns, period_ns, burst_ns, start_ns, stop_ns, pause_ns;
    unsigned streams, kinds, depth;
    bool synchronises, mixed;
    bool silent; // from stop_ns on it does nothing, and what it has put on the card stays there unmarked
    enum lie lie;
    ucontext_t context;
    uint64_t wakes; // UINT64_MAX: waits for the card
    uint64_t waits_for;
    bool finished;
    struct entry queue[QUEUE + 64];
    unsigned head, count;
    uint64_t ours_ns; // that the card took for marks and events
    uint64_t launched, done_at_second;
    uint64_t last_done, last_progress, longest_gap; // ns in which the card did nothing for it
    double bursts[MAX_BURSTS];
    unsigned burst_count;
    tenant_launch launch;
    tenant_synchronise synchronise;
    tenant_lie tell;
};

static struct process processes[MAX_PROCESSES];
static unsigned count;
static struct engine engine = {.current = -1};
static struct engine_work works[MAX_PROCESSES];
static ucontext_t scheduler;
static unsigned current;
static uint64_t time_now = UINT64_C(1000000000), end;
static const uint64_t origin = UINT64_C(1000000000);

static struct engine_queues queues(void)
{
    return (struct engine_queues){&engine, works, sizeof *works, count};
}

static uint64_t now(void)
{
    return time_now;
}

static void yield(void)
{
    swapcontext(&processes[current].context, &scheduler);
}

static void sleep_until(uint64_t when)
{
    processes[current].wakes = when <= time_now ? time_now + 1 : when > time_now + 20000 ? when + WAKE_NS : when;
    yield();
}

static void wait_for(uint64_t position)
{
    struct process *p = &processes[current];
    if (works[current].done >= position)
        return;
    p->waits_for = position;
    p->wakes = UINT64_MAX;
    yield();
}

static void enqueue(struct entry entry)
{
    struct process *p = &processes[current];
    while (p->count >= QUEUE)
        wait_for(p->queue[p->head].position);
    p->queue[(p->head + p->count++) % (QUEUE + 64)] = entry;
}

static uint64_t submit(uint64_t ns)
{
    struct engine_queues q = queues();
    engine_advance(&q, time_now);
    return engine_submit(&q, (int)current, ns);
}

static void kernel(uint64_t ns)
{
    sleep_until(time_now + LAUNCH_NS);
    processes[current].launched += ns;
    enqueue((struct entry){.position = submit(ns)});
}

static void settle(void);

static void mark(_Atomic uint32_t *at, uint32_t value)
{
    sleep_until(time_now + LAUNCH_NS / 2);
    enqueue((struct entry){.position = submit(MARK_NS), .at = at, .value = value});
    settle();
}

static void record(uint64_t *when)
{
    sleep_until(time_now + LAUNCH_NS / 8);
    enqueue((struct entry){.position = submit(EVENT_NS), .when = when, .issued = time_now});
    sleep_until(time_now + LAUNCH_NS / 8);
    settle();
}

static void synchronise(void)
{
    wait_for(works[current].submitted);
    sleep_until(time_now + LAUNCH_NS);
}

// What the card did for the program.
static uint64_t done_for(unsigned i)
{
    return works[i].done - processes[i].ours_ns;
}

static const struct world world = {now, sleep_until, kernel, mark, record, synchronise};

// Pass what the card has finished.
static void settle(void)
{
    for (unsigned i = 0; i < count; i++) {
        struct process *p = &processes[i];
        while (p->count && p->queue[p->head].position <= works[i].done) {
            struct entry *entry = &p->queue[p->head];
            if (entry->at && !(p->silent && time_now >= origin + p->stop_ns))
                *entry->at = entry->value;
            if (entry->when &&
                (!engine_reached(&works[i], entry->position, entry->when) || *entry->when < entry->issued))
                *entry->when = entry->issued;
            p->ours_ns += entry->when ? EVENT_NS : entry->at ? MARK_NS : 0;
            p->head = (p->head + 1) % (QUEUE + 64);
            p->count--;
        }
        if (p->wakes == UINT64_MAX && works[i].done >= p->waits_for && !p->finished)
            p->wakes = time_now;
    }
}

// ---- what processes do -------------------------------------------------------------------------------------------------

static void burst(struct process *p)
{
    uint64_t began = time_now;
    for (uint64_t gone = 0; gone < p->burst_ns; gone += p->kernel_ns)
        p->launch(0, 0, p->kernel_ns);
    p->synchronise(0);
    if (p->burst_count < MAX_BURSTS)
        p->bursts[p->burst_count++] = (double)(time_now - began) / 1e6;
}

static void tell_lies(struct process *p)
{
    while (time_now < end) {
        p->tell(p->lie);
        sleep_until(time_now + 50000);
    }
}

// A mix has as many short kinds as long ones, up to a hundred times as long.
static uint64_t length_of(const struct process *p, unsigned kind)
{
    if (!p->mixed)
        return p->kernel_ns * (1 + kind);
    uint64_t length = p->kernel_ns;
    for (unsigned steps = kind * 7919 % 20; steps; steps--)
        length += length * 26 / 100;
    return length;
}

static void run(void)
{
    struct process *p = &processes[current];
    if (p->lie)
        tell_lies(p);
    uint64_t stop = p->stop_ns ? origin + p->stop_ns : UINT64_MAX;
    for (unsigned i = 0; time_now < stop; i++) {
        if (p->period_ns) {
            uint64_t began = time_now;
            burst(p);
            sleep_until(began + p->period_ns + (i * UINT64_C(7919) % 1000) * 1000);
            continue;
        }
        p->launch(i % p->streams, i % p->kinds, length_of(p, i % p->kinds));
        if (p->synchronises && i % p->depth == p->depth - 1)
            p->synchronise(i % p->streams);
        if (p->pause_ns)
            sleep_until(time_now + p->pause_ns);
    }
    p->finished = true;
    p->wakes = UINT64_MAX;
    yield();
}

static uint64_t next_event(void)
{
    uint64_t next = end;
    struct engine_queues q = queues();
    for (unsigned i = 0; i < count; i++) {
        if (processes[i].wakes < next)
            next = processes[i].wakes;
        if (processes[i].count) {
            uint64_t at = engine_earliest(&q, (int)i, processes[i].queue[processes[i].head].position);
            next = at < next ? at : next;
        }
    }
    return next > time_now ? next : time_now;
}

static void note_gaps(void)
{
    for (unsigned i = 0; i < count; i++) {
        struct process *p = &processes[i];
        if (time_now - p->last_progress > p->longest_gap && p->last_progress)
            p->longest_gap = time_now - p->last_progress;
        if (done_for(i) != p->last_done) {
            p->last_done = done_for(i);
            p->last_progress = time_now;
        }
    }
}

static void go_on(void)
{
    while (time_now < end) {
        uint64_t next = next_event();
        if (time_now < origin + UINT64_C(1000000000) && next >= origin + UINT64_C(1000000000))
            next = origin + UINT64_C(1000000000);
        time_now = next;
        struct engine_queues q = queues();
        engine_advance(&q, time_now);
        if (time_now == origin + UINT64_C(1000000000))
            for (unsigned i = 0; i < count; i++)
                processes[i].done_at_second = done_for(i);
        settle();
        note_gaps();
        for (unsigned i = 0; i < count; i++) {
            if (processes[i].wakes > time_now)
                continue;
            current = i;
            processes[i].wakes = UINT64_MAX;
            processes[i].waits_for = UINT64_MAX;
            swapcontext(&scheduler, &processes[i].context);
            settle();
        }
    }
}

// ---- setting up --------------------------------------------------------------------------------------------------------

static void *load(const char *library, unsigned i)
{
    char copy[600], command[1300];
    snprintf(copy, sizeof copy, "/dev/shm/turns-%d-%u.so", (int)getpid(), i);
    snprintf(command, sizeof command, "cp '%s' '%s'", library, copy);
    if (system(command) != 0)
        exit(2);
    void *handle = dlopen(copy, RTLD_NOW | RTLD_LOCAL);
    unlink(copy);
    if (!handle) {
        fprintf(stderr, "%s\n", dlerror());
        exit(2);
    }
    return handle;
}

static uint64_t us(const char *text)
{
    return (uint64_t)(atof(text) * 1000);
}

static void read_process(struct process *p, char *text)
{
    *p = (struct process){.kernel_ns = 1000000, .streams = 1, .kinds = 1, .depth = 1};
    for (char *word = strtok(text, " "); word; word = strtok(NULL, " ")) {
        char *value = strchr(word, '=');
        *value++ = 0;
        if (!strcmp(word, "slice"))
            snprintf(p->slice, sizeof p->slice, "%s", value);
        else if (!strcmp(word, "kernel"))
            p->kernel_ns = us(value);
        else if (!strcmp(word, "period"))
            p->period_ns = us(value);
        else if (!strcmp(word, "burst"))
            p->burst_ns = us(value);
        else if (!strcmp(word, "start"))
            p->start_ns = us(value);
        else if (!strcmp(word, "stop"))
            p->stop_ns = us(value);
        else if (!strcmp(word, "pause"))
            p->pause_ns = us(value);
        else if (!strcmp(word, "lie"))
            p->lie = (enum lie)atoi(value);
        else if (!strcmp(word, "dies"))
            p->silent = true, p->stop_ns = us(value);
        else if (!strcmp(word, "streams"))
            p->streams = (unsigned)atoi(value);
        else if (!strcmp(word, "kinds"))
            p->kinds = (unsigned)atoi(value);
        else if (!strcmp(word, "mix"))
            p->mixed = atoi(value);
        else if (!strcmp(word, "sync"))
            p->synchronises = true, p->depth = (unsigned)atoi(value);
        else
            fprintf(stderr, "unknown: %s\n", word), exit(2);
    }
}

int main(int argc, char **argv)
{
    uint64_t seconds = (uint64_t)(atof(argv[2]) * 1e9);
    end = origin + seconds;
    engine.switch_ns = us(argv[3]);
    count = (unsigned)argc - 4;
    for (unsigned i = 0; i < count; i++) {
        struct process *p = &processes[i];
        read_process(p, argv[4 + i]);
        void *handle = load(argv[1], i);
        tenant_open open_tenant = (tenant_open)dlsym(handle, "open_tenant");
        p->launch = (tenant_launch)dlsym(handle, "launch");
        p->synchronise = (tenant_synchronise)dlsym(handle, "synchronise");
        p->tell = (tenant_lie)dlsym(handle, "lie");
        open_tenant(&(struct tenant_setup){&world, p->slice, i + 1});
        getcontext(&p->context);
        p->context.uc_stack.ss_sp = malloc(STACK);
        p->context.uc_stack.ss_size = STACK;
        p->context.uc_link = &scheduler;
        makecontext(&p->context, run, 0);
        p->wakes = origin + p->start_ns;
    }
    go_on();
    double later = (double)(end - origin) / 1e9 - 1;
    for (unsigned i = 0; i < count; i++) {
        struct process *p = &processes[i];
        printf("{\"first\": %.5f, \"later\": %.5f, \"gap_ms\": %.3f, \"bursts\": [", (double)p->done_at_second / 1e9,
               later > 0 ? (double)(done_for(i) - p->done_at_second) / 1e9 / later : 0, (double)p->longest_gap / 1e6);
        for (unsigned b = 0; b < p->burst_count; b++)
            printf("%s%.4f", b ? ", " : "", p->bursts[b]);
        printf("]}\n");
    }
    return 0;
}
