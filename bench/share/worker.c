// A tenant of the bench: keeps a card busy in one way, and says what the card did for it.
//
//   worker KEY=VALUE...
//     route    launch ptsz ex cooperative sync graph memset copy burst calibrate launches
//     grid     full (every multiprocessor) or small (one block)
//     turns    of the kernel's loop, which set how long it takes;  ns: the same for a simulated card
//     seconds  how long;  start: 1 to say "ready" and read from stdin when to begin, CLOCK_MONOTONIC in ns
//     streams, threads   for launch;  nodes: of the graph;  bytes: of memset and copy
//     period, burst      for burst: every `period` us launch `burst` kernels and wait for them
//     pairs              for launches: of batches, each of the driver's own call and of the one that the program is given
//     gaps               1 to look every millisecond whether something was done
//
// Prints one line of JSON: "done": work finished by every tenth of a second since the start, in units of one kernel, one copy,
// or on a simulated card ns of the card; "bursts": ms each took; "gap_ms": the longest time in which nothing was done.
// launches: "straight": ns a call of the driver's own, median; "added", "low", "high": what a limiter adds, and its interval.
#include "launches.h"
#include "worker.h"

#include <cuda.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MAX_STREAMS 64
#define MAX_SAMPLES 4096
#define MAX_BURSTS  8192

// Each kernel counts itself when it has done its turns.
static const char image[] =
    ".version 6.4\n"
    ".target sm_70\n"
    ".address_size 64\n"
    ".visible .entry sim_spin(.param .u64 ns, .param .u64 turns, .param .u64 count, .param .u64 seen)\n"
    "{\n"
    "    .reg .u64 %n<5>;\n"
    "    .reg .f32 %x, %a;\n"
    "    .reg .u32 %t<4>;\n"
    "    .reg .pred %p;\n"
    "    ld.param.u64 %n0, [turns];\n"
    "    mov.f32 %x, 0f3F800000;\n"
    "    mov.f32 %a, 0f3F7FFFFE;\n"
    "again:\n"
    "    fma.rn.f32 %x, %x, %a, %a;\n"
    "    fma.rn.f32 %x, %x, %a, %a;\n"
    "    fma.rn.f32 %x, %x, %a, %a;\n"
    "    fma.rn.f32 %x, %x, %a, %a;\n"
    "    sub.u64 %n0, %n0, 1;\n"
    "    setp.ne.u64 %p, %n0, 0;\n"
    "    @%p bra again;\n"
    "    ld.param.u64 %n1, [count];\n"
    "    setp.gt.f32 %p, %x, 0f7E000000;\n" // never: but the loop counts for something
    "    @%p st.global.f32 [%n1], %x;\n"
    "    mov.u32 %t0, %tid.x;\n"
    "    mov.u32 %t1, %ctaid.x;\n"
    "    or.b32 %t2, %t0, %t1;\n"
    "    setp.ne.u32 %p, %t2, 0;\n"
    "    @%p bra end;\n"
    "    ld.param.u64 %n2, [seen];\n"
    "    atom.global.add.u64 %n3, [%n1], 1;\n"
    "    st.global.u64 [%n2], %n3;\n"
    "end:\n"
    "    ret;\n"
    "}\n";

static struct {
    char route[32], grid[16];
    uint64_t turns, ns, start, bytes;
    double seconds, period, burst;
    unsigned streams, threads, nodes, pairs;
    bool gaps;
} options = {"launch", "full", 1000, 1000000, 0, 64 << 20, 6, 50000, 3, 1, 1, 10, 300, false};

static CUcontext context;
static CUfunction kernel;
static CUdeviceptr count, seen, from, to;
static volatile uint64_t *finished;
static unsigned blocks;
static uint64_t (*sim_busy)(unsigned, int);
static _Atomic uint64_t copies;
static _Atomic bool over;

static void sleep_until(uint64_t when)
{
    struct timespec time = {(time_t)(when / 1000000000u), (long)(when % 1000000000u)};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
}

static bool is(const char *route)
{
    return strcmp(options.route, route) == 0;
}

// What the card has done for this process.
static uint64_t done(void)
{
    if (is("memset") || is("copy"))
        return copies;
    return sim_busy ? sim_busy(0, 0) : *finished;
}

// ---- launching ---------------------------------------------------------------------------------------------------------

static void launch_on(CUstream stream)
{
    void *parameters[] = {&options.ns, &options.turns, &count, &seen};
    if (is("cooperative")) {
        CHECK(cuLaunchCooperativeKernel(kernel, blocks, 1, 1, 256, 1, 1, 0, stream, parameters));
    } else if (is("ex")) {
        CUlaunchConfig config = {.gridDimX = blocks,
                                 .gridDimY = 1,
                                 .gridDimZ = 1,
                                 .blockDimX = 256,
                                 .blockDimY = 1,
                                 .blockDimZ = 1,
                                 .hStream = stream};
        CHECK(cuLaunchKernelEx(&config, kernel, parameters, NULL));
    } else {
        CHECK(cuLaunchKernel(kernel, blocks, 1, 1, 256, 1, 1, 0, stream, parameters, NULL));
    }
}

static void *saturate(void *argument)
{
    CUstream streams[MAX_STREAMS] = {0};
    (void)argument;
    CHECK(cuCtxSetCurrent(context));
    bool per_thread = is("ptsz");
    for (unsigned i = 0; i < options.streams && !per_thread; i++)
        CHECK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    for (unsigned i = 0; !over; i++) {
        CUstream stream = per_thread ? CU_STREAM_PER_THREAD : streams[i % options.streams];
        if (is("memset")) {
            CHECK(cuMemsetD8Async(to, 0, options.bytes, stream));
            copies++;
        } else if (is("copy")) {
            CHECK(cuMemcpyDtoDAsync(to, from, options.bytes, stream));
            copies++;
        } else {
            launch_on(stream);
        }
        if (is("sync"))
            CHECK(cuStreamSynchronize(stream));
    }
    return NULL;
}

static void run_graph(void)
{
    CUstream stream;
    CUgraph graph;
    CUgraphExec exec;
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    for (unsigned i = 0; i < options.nodes; i++)
        launch_on(stream);
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    while (!over)
        CHECK(cuGraphLaunch(exec, stream));
}

static double bursts[MAX_BURSTS];
static unsigned burst_count;

static void run_bursts(void)
{
    CUstream stream;
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    unsigned noise = 1;
    for (uint64_t next = now(); !over && burst_count < MAX_BURSTS;) {
        uint64_t began = now();
        for (unsigned i = 0; i < (unsigned)options.burst; i++)
            launch_on(stream);
        CHECK(cuStreamSynchronize(stream));
        bursts[burst_count++] = (double)(now() - began) / 1e6;
        noise = noise * 1103515245u + 12345u;
        next += (uint64_t)(options.period * 1000) + noise / 65536 % 4000 * 1000 - 2000000;
        sleep_until(next);
    }
}

// ---- measuring ---------------------------------------------------------------------------------------------------------

static uint64_t samples[MAX_SAMPLES];
static unsigned sample_count;

static uint64_t longest_gap; // in which nothing was done for us, to a millisecond

static void watch_for_gaps(uint64_t until)
{
    static uint64_t last, last_change;
    for (uint64_t time = now(); time + 1000000 < until; time = now()) {
        uint64_t present = done();
        if (present != last || !last)
            last_change = time;
        last = present;
        if (time - last_change > longest_gap)
            longest_gap = time - last_change;
        sleep_until(time + 1000000);
    }
}

static void *watch(void *argument)
{
    uint64_t start = *(uint64_t *)argument;
    unsigned wanted = (unsigned)(options.seconds * 10 + 0.5);
    for (unsigned i = 1; i <= wanted && i <= MAX_SAMPLES; i++) {
        if (options.gaps)
            watch_for_gaps(start + i * UINT64_C(100000000));
        sleep_until(start + i * UINT64_C(100000000));
        samples[sample_count++] = done();
    }
    over = true;
    return NULL;
}

// ns a kernel takes back to back, alone on the card.
static void calibrate(void)
{
    CUstream stream;
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < 20; i++)
        launch_on(stream);
    CHECK(cuStreamSynchronize(stream));
    unsigned batch = (unsigned)options.nodes;
    uint64_t began = now();
    for (unsigned i = 0; i < batch; i++)
        launch_on(stream);
    CHECK(cuStreamSynchronize(stream));
    printf("{\"kernel_ns\": %.1f}\n", (double)(now() - began) / batch);
}

static void print_results(void)
{
    printf("{\"done\": [");
    for (unsigned i = 0; i < sample_count; i++)
        printf("%s%llu", i ? ", " : "", (unsigned long long)samples[i]);
    printf("], \"bursts\": [");
    for (unsigned i = 0; i < burst_count; i++)
        printf("%s%.4f", i ? ", " : "", bursts[i]);
    struct timespec cpu;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    printf("], \"gap_ms\": %.1f, \"cpu\": %.3f}\n", (double)longest_gap / 1e6,
           (double)cpu.tv_sec + (double)cpu.tv_nsec / 1e9);
}

static void run(void)
{
    pthread_t watcher, threads[MAX_STREAMS];
    unsigned long long start_given = now();
    if (options.start) {
        puts("ready");
        fflush(stdout);
        if (scanf("%llu", &start_given) != 1)
            exit(2);
        sleep_until(start_given);
    }
    uint64_t start = start_given;
    pthread_create(&watcher, NULL, watch, &start);
    if (is("graph")) {
        run_graph();
    } else if (is("burst")) {
        run_bursts();
    } else {
        for (unsigned i = 0; i < options.threads; i++)
            pthread_create(&threads[i], NULL, saturate, NULL);
        for (unsigned i = 0; i < options.threads; i++)
            pthread_join(threads[i], NULL);
    }
    pthread_join(watcher, NULL);
    print_results();
}

static void read_options(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        char *value = strchr(argv[i], '=');
        if (!value)
            exit(2);
        *value++ = 0;
        const char *key = argv[i];
        if (!strcmp(key, "route"))
            snprintf(options.route, sizeof options.route, "%s", value);
        else if (!strcmp(key, "grid"))
            snprintf(options.grid, sizeof options.grid, "%s", value);
        else if (!strcmp(key, "turns"))
            options.turns = strtoull(value, NULL, 10);
        else if (!strcmp(key, "ns"))
            options.ns = strtoull(value, NULL, 10);
        else if (!strcmp(key, "start"))
            options.start = strtoull(value, NULL, 10);
        else if (!strcmp(key, "bytes"))
            options.bytes = strtoull(value, NULL, 10);
        else if (!strcmp(key, "seconds"))
            options.seconds = atof(value);
        else if (!strcmp(key, "period"))
            options.period = atof(value);
        else if (!strcmp(key, "burst"))
            options.burst = atof(value);
        else if (!strcmp(key, "streams"))
            options.streams = (unsigned)atoi(value);
        else if (!strcmp(key, "threads"))
            options.threads = (unsigned)atoi(value);
        else if (!strcmp(key, "pairs"))
            options.pairs = (unsigned)atoi(value);
        else if (!strcmp(key, "gaps"))
            options.gaps = atoi(value);
        else if (!strcmp(key, "nodes"))
            options.nodes = (unsigned)atoi(value);
        else
            exit(2);
    }
}

int main(int argc, char **argv)
{
    read_options(argc, argv);
    CUdevice device;
    CUmodule module;
    int processors = 0;
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device));
    blocks = strcmp(options.grid, "small") == 0 ? 1 : (unsigned)processors * 2;
    CHECK(cuModuleLoadData(&module, image));
    CHECK(cuModuleGetFunction(&kernel, module, "sim_spin"));
    CHECK(cuMemAlloc(&count, 8));
    CHECK(cuMemsetD8(count, 0, 8));
    void *host;
    CHECK(cuMemHostAlloc(&host, 8, CU_MEMHOSTALLOC_DEVICEMAP));
    CHECK(cuMemHostGetDevicePointer(&seen, host, 0));
    finished = host;
    *finished = 0;
    *(void **)&sim_busy = dlsym(RTLD_DEFAULT, "hamisim_busy_for");
    if (is("memset") || is("copy")) {
        CHECK(cuMemAlloc(&to, options.bytes));
        CHECK(cuMemAlloc(&from, options.bytes));
    }
    CHECK(cuCtxSynchronize());
    if (is("calibrate"))
        calibrate();
    else if (is("launches"))
        measure_launches(context, kernel, (void *[]){&options.ns, &options.turns, &count, &seen}, options.threads,
                         options.pairs);
    else
        run();
    fflush(stdout);
    _exit(0);
}
