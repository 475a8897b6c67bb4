// One card's execution engine: work of several processes, time-sliced.  Pure arithmetic on shared memory: no clock, no
// lock, no I/O.  The caller holds the state's lock and says what time it is.
//
// Each process has one queue per card and a running total of the work it has submitted and the engine has done, both in
// ns of the whole card's time.  A process alone keeps the card; another's work gets its slice when one of the first's
// is over. Going from one process to another takes `switch_ns`.  A piece of work is finished when `done` has reached
// its position, so that anybody who looks can bring the engine up to date, and nobody has to be alive for a neighbour's
// work to go on.
#ifndef SIM_ENGINE_H
#define SIM_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#define ENGINE_SLICE_NS  UINT64_C(2000000)
#define ENGINE_HISTORY   32
#define ENGINE_BUCKETS   16
#define ENGINE_BUCKET_NS UINT64_C(100000000)

// An unbroken run on the engine: from `start` (time) the process's total went from `from` to `to`.
struct engine_run {
    uint64_t start, from, to;
};

// Busy time by tenths of a second; a bucket counts only while its `stamp` is the bucket's number.
struct engine_usage {
    uint64_t stamp[ENGINE_BUCKETS];
    uint64_t busy[ENGINE_BUCKETS];
};

struct engine_work {
    uint64_t submitted, done; // ns
    uint64_t run_count;
    struct engine_run runs[ENGINE_HISTORY]; // the last so many, to say when a position was reached
    struct engine_usage usage;
};

struct engine {
    uint64_t time;       // up to here everything is worked out
    uint64_t slice_left; // ns, of the current process
    uint64_t switch_ns;
    uint64_t switch_left; // until the current process works
    int32_t current;      // slot, -1: none
    int32_t last;         // slot + 1 that the card is set up for, 0: none
    uint32_t active;      // slots with work left
    uint64_t busy;        // ns, ever
    struct engine_usage usage;
};

// The queues of one card: works[slot * stride bytes].
struct engine_queues {
    struct engine *engine;
    struct engine_work *first;
    uint32_t stride, count;
};

void engine_advance(struct engine_queues *queues, uint64_t now);
// Add work to a slot's queue at the engine's present; returns the position at which it's finished.
uint64_t engine_submit(struct engine_queues *queues, int slot, uint64_t cost);
// The earliest time at which the position can be reached, by what is known now.
uint64_t engine_earliest(const struct engine_queues *queues, int slot, uint64_t position);
// Whether the position was reached, and when.
bool engine_reached(const struct engine_work *work, uint64_t position, uint64_t *when);
// A slot's owner is dead: its work vanishes.
void engine_forget(struct engine_queues *queues, int slot);
// Percent of the last second.
unsigned engine_percent(const struct engine_usage *usage, uint64_t now);

#endif
