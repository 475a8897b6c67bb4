// Running operations: seeing what the engines have finished, performing, and the two threads that do so without the
// program's help: one for the card, one for host functions.  They start when something has to wait for the first time.
#define _GNU_SOURCE
#include "context.h"
#include "op.h"
#include "op_ready.h"
#include "perform.h"

#include <signal.h>
#include <sys/prctl.h>
#include <time.h>

#define POLL_NS   UINT64_C(100000)   // between looks at a value in memory that a stream waits for
#define MANUAL_NS UINT64_C(500000)   // between looks at the manual clock
#define CHECK_NS  UINT64_C(10000000) // a neighbour that died with work in its queue is noticed after so long

static pthread_cond_t something_performed, card_wakes, host_wakes;
static bool threads_run;
static uint64_t card_until; // what the card's thread sleeps for; 0: it isn't asleep
static uint64_t last_check;

// See what the engines have finished.
static void look_at_engines(void)
{
    bool any = false;
    for (struct op *op = op_ready; op; op = op->next_ready)
        any |= op_is_kernel(op) && !op->reached;
    if (!any)
        return;
    uint64_t now = sim_now();
    sim_lock();
    if (now - last_check > CHECK_NS) {
        last_check = now;
        sim_reap();
    }
    for (unsigned card = 0; card < sim_state()->card_count; card++)
        sim_bring_up(card);
    const struct sim_process *self = &sim_state()->processes[sim_self()];
    for (struct op *op = op_ready; op; op = op->next_ready)
        if (op_is_kernel(op) && !op->reached)
            op->reached = engine_reached(&self->work[op->card], op->position, &op->time);
    sim_unlock();
}

static bool can_perform(const struct op *op)
{
    if (op->performing)
        return false;
    if (op_is_kernel(op))
        return op->reached;
    return op->work.type != CU_GRAPH_NODE_TYPE_BATCH_MEM_OP || memory_op_can_go(op->work.memory_ops.list);
}

static void call_host(struct op *op)
{
    op->performing = true;
    pthread_mutex_unlock(&driver_mutex);
    const struct host_work *host = &op->work.host;
    if (host->callback)
        host->callback(host->stream, CUDA_SUCCESS, host->argument);
    else
        host->call(host->argument);
    pthread_mutex_lock(&driver_mutex);
    op->time = sim_now();
}

static bool is_host(const struct op *op)
{
    return op->work.type == CU_GRAPH_NODE_TYPE_HOST;
}

static bool perform_one(void)
{
    for (struct op *op = op_ready; op; op = op->next_ready) {
        if (is_host(op) || !can_perform(op))
            continue;
        if (!op_is_kernel(op))
            perform(&op->work, &op->time);
        op_finish(op);
        return true;
    }
    return false;
}

// Perform all that can be, but for host functions: they may take their time, and have a thread of their own.
static void pump(void)
{
    bool any = false;
    look_at_engines();
    while (perform_one()) {
        any = true;
        look_at_engines();
    }
    if (any)
        pthread_cond_broadcast(&something_performed);
}

// When the card's thread has to look again; 0: not before something changes.
static uint64_t next_look(void)
{
    uint64_t at = 0, now = sim_now();
    for (struct op *op = op_ready; op; op = op->next_ready) {
        uint64_t look;
        if (is_host(op))
            continue;
        if (op_is_kernel(op)) {
            struct engine_queues queues = sim_queues(op->card);
            sim_lock();
            look = engine_earliest(&queues, sim_self(), op->position);
            bool alone = queues.engine->active <= 1;
            sim_unlock();
            if (!alone && look > now + CHECK_NS)
                look = now + CHECK_NS;
        } else {
            look = now + POLL_NS;
        }
        if (at == 0 || look < at)
            at = look;
    }
    return at;
}

static void wake_host_thread(void);

static void *run_card(void *unused)
{
    (void)unused;
    prctl(PR_SET_NAME, "sim-card");
    prctl(PR_SET_TIMERSLACK, 1000UL); // the default of 50 us is long beside a kernel
    pthread_mutex_lock(&driver_mutex);
    for (;;) {
        pump();
        wake_host_thread();
        uint64_t until = next_look();
        if (until == 0) {
            card_until = UINT64_MAX;
            pthread_cond_wait(&card_wakes, &driver_mutex);
        } else if (sim_state()->manual_clock) {
            struct timespec nap = {.tv_nsec = (long)MANUAL_NS};
            pthread_mutex_unlock(&driver_mutex);
            nanosleep(&nap, NULL);
            pthread_mutex_lock(&driver_mutex);
        } else if (until > sim_now()) {
            struct timespec time = {.tv_sec = (time_t)(until / 1000000000u), .tv_nsec = (long)(until % 1000000000u)};
            card_until = until;
            pthread_cond_timedwait(&card_wakes, &driver_mutex, &time);
        }
        card_until = 0;
    }
    return NULL;
}

static struct op *next_host(void)
{
    for (struct op *op = op_ready; op; op = op->next_ready)
        if (is_host(op) && !op->performing)
            return op;
    return NULL;
}

static void wake_host_thread(void)
{
    if (next_host())
        pthread_cond_signal(&host_wakes);
}

static void *run_host(void *unused)
{
    (void)unused;
    prctl(PR_SET_NAME, "sim-host");
    pthread_mutex_lock(&driver_mutex);
    for (;;) {
        struct op *op = next_host();
        if (!op) {
            pthread_cond_wait(&host_wakes, &driver_mutex);
            continue;
        }
        call_host(op);
        op_finish(op);
        pthread_cond_broadcast(&something_performed);
        pump();
        pthread_cond_signal(&card_wakes);
    }
    return NULL;
}

static void start_thread(void *(*run)(void *))
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, run, NULL) != 0)
        abort();
    pthread_detach(thread);
}

static void start_threads(void)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&something_performed, &monotonic);
    pthread_cond_init(&card_wakes, &monotonic);
    pthread_cond_init(&host_wakes, &monotonic);
    pthread_condattr_destroy(&monotonic);
    // The program's signals are the program's: none is to be handled here.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    start_thread(run_card);
    start_thread(run_host);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    threads_run = true;
}

// See to it that what is ready goes on without the caller.
static void wake_threads(void)
{
    if (!op_ready)
        return;
    if (!threads_run) {
        start_threads();
        return;
    }
    wake_host_thread();
    uint64_t look = next_look();
    if (card_until != 0 && look != 0 && look < card_until)
        pthread_cond_signal(&card_wakes);
}

void op_start(struct op *op)
{
    uint64_t now = sim_now();
    if (op->time < now)
        op->time = now;
    if (op->undispatched == 0)
        op_dispatch(op);
    if (op->unperformed == 0) {
        pump();
        wake_threads();
    }
}

bool op_finished(struct op *op)
{
    if (op && !op->performed) {
        pump();
        wake_threads();
    }
    return !op || op->performed;
}

void op_wait(struct op *op)
{
    op_hold(op);
    while (!op_finished(op))
        pthread_cond_wait(&something_performed, &driver_mutex);
    op_release(op);
}

void context_make_room(struct context *context)
{
    while (context->unfinished >= CONTEXT_QUEUE && !sim_state()->manual_clock) {
        pump();
        if (context->unfinished < CONTEXT_QUEUE)
            break;
        wake_threads();
        pthread_cond_wait(&something_performed, &driver_mutex);
    }
}

void context_drain(struct context *context)
{
    while (context->unfinished > 0) {
        pump();
        if (context->unfinished == 0)
            break;
        wake_threads();
        pthread_cond_wait(&something_performed, &driver_mutex);
    }
}
