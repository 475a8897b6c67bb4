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
#include <cuda.h>
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAX_STREAMS 64
#define MAX_SAMPLES 4096
#define MAX_BURSTS  8192
#define MAX_PAIRS   (64 * 1000)
#define BATCH       100
#define WARM_UP     20

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

static void check(CUresult result, const char *call)
{
    if (result == CUDA_SUCCESS)
        return;
    fprintf(stderr, "%s answered %d\n", call, (int)result);
    exit(1);
}
#define CHECK(call) check(call, #call)

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

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

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// ---- what a launch costs -----------------------------------------------------------------------------------------------

typedef CUresult (*launch_call)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                                CUstream, void **, void **);

static launch_call drivers_own;

static void *map_driver(char *path, uintptr_t *base)
{
    char line[PATH_MAX + 100];
    FILE *maps = fopen("/proc/self/maps", "r");
    *path = 0;
    while (maps && !*path && fgets(line, sizeof line, maps))
        if (strstr(line, "/libcuda.so"))
            sscanf(line, "%" SCNxPTR "-%*x %*s %*x %*s %*u %s", base, path);
    int file = open(path, O_RDONLY);
    struct stat status;
    if (!maps || file < 0 || fstat(file, &status))
        exit(3);
    return mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
}

// cuLaunchKernel by the table in the library's file: whatever a limiter put before it in memory isn't there.
static void find_drivers_own(void)
{
    char path[PATH_MAX + 100];
    uintptr_t base;
    const char *file = map_driver(path, &base);
    const Elf64_Ehdr *head = (const void *)file;
    const Elf64_Shdr *sections = (const void *)(file + head->e_shoff);
    for (unsigned i = 0; i < head->e_shnum; i++) {
        if (sections[i].sh_type != SHT_DYNSYM)
            continue;
        const char *names = file + sections[sections[i].sh_link].sh_offset;
        const Elf64_Sym *symbols = (const void *)(file + sections[i].sh_offset);
        for (size_t n = 0; n < sections[i].sh_size / sizeof *symbols; n++)
            if (!strcmp(names + symbols[n].st_name, "cuLaunchKernel"))
                drivers_own = (launch_call)(base + symbols[n].st_value);
    }
    if (!drivers_own)
        exit(3);
}

static double straight[MAX_PAIRS], wrapped[MAX_PAIRS];
static pthread_barrier_t together;

static double time_batch(launch_call call, CUstream stream)
{
    void *parameters[] = {&options.ns, &options.turns, &count, &seen};
    pthread_barrier_wait(&together);
    uint64_t began = now();
    for (unsigned i = 0; i < BATCH; i++)
        CHECK(call(kernel, 1, 1, 1, 32, 1, 1, 0, stream, parameters, NULL));
    double took = (double)(now() - began) / BATCH;
    pthread_barrier_wait(&together);
    CHECK(cuStreamSynchronize(stream));
    return took;
}

// All threads launch in one way, then all in the other.
static void *time_launches(void *argument)
{
    CUstream stream;
    unsigned first = *(unsigned *)argument * options.pairs;
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (unsigned i = 0; i < options.pairs + WARM_UP; i++) {
        unsigned at = first + (i < WARM_UP ? 0 : i - WARM_UP);
        for (unsigned way = 0; way < 2; way++)
            if ((i + way) % 2)
                straight[at] = time_batch(drivers_own, stream);
            else
                wrapped[at] = time_batch(cuLaunchKernel, stream);
    }
    return NULL;
}

// Medians, and of the differences the bounds of a 95 % interval.
static void run_launches(void)
{
    pthread_t threads[MAX_STREAMS];
    unsigned numbers[MAX_STREAMS], all = options.threads * options.pairs;
    static double added[MAX_PAIRS];
    find_drivers_own();
    pthread_barrier_init(&together, NULL, options.threads);
    for (unsigned i = 0; i < options.threads; i++) {
        numbers[i] = i;
        pthread_create(&threads[i], NULL, time_launches, &numbers[i]);
    }
    for (unsigned i = 0; i < options.threads; i++)
        pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < all; i++)
        added[i] = wrapped[i] - straight[i];
    qsort(added, all, sizeof *added, ascending);
    qsort(straight, all, sizeof *straight, ascending);
    unsigned off = 0;
    while (off * off < all)
        off++;
    printf("{\"straight\": %.1f, \"added\": %.1f, \"low\": %.1f, \"high\": %.1f}\n", straight[all / 2], added[all / 2],
           added[all / 2 - off], added[all / 2 + off]);
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
        run_launches();
    else
        run();
    fflush(stdout);
    _exit(0);
}
