// What the ways past a slice's VRAM limit share.  A way takes what it can get, says what it was granted, and holds it
// while the runner (bench/limiter) looks at the card from outside.  It never judges.
//
//   ways NAME LIMIT_MIB CONTEXT_MIB [ROUNDS]     runs one way; ways --list names them all
//
// On stdout: "expect MIB", "granted MIB", "refused CODE CALL", "note TEXT", then "hold"; it ends at a line on stdin.
#ifndef WAY_H
#define WAY_H

#include <cuda.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MIB   (UINT64_C(1) << 20)
#define PIECE (64 * MIB)

struct way {
    const char *name;
    void (*run)(void);
};

// Each ends with a way without a name.
extern const struct way memory_ways[], pool_ways[], vmm_ways[], array_ways[], module_ways[], limit_ways[], graph_ways[],
    context_ways[], race_ways[], kill_ways[], share_ways[], peer_ways[], lookup_ways[], environment_ways[];

// Bytes: the slice's limit, and how much more than that a way wants.
extern uint64_t limit, goal;
// What one context takes, in bytes.
extern uint64_t context_bytes;
// How often a race is run: 100 times, unless a slow machine is told otherwise.
extern int rounds;
// This program, as it was started.
extern char **arguments;

// Count what a call granted, for the whole family of processes; remember the first refusal.  True if it went well.
bool granted(const char *call, CUresult result, uint64_t bytes);
void gave_back(uint64_t bytes);
uint64_t granted_so_far(void);
// Whether less than the goal was granted so far.
bool wanting(void);
// A call that the way can't go on without: if it is refused, the way holds what it has and ends.
void need(const char *call, CUresult result);
// What must be granted if the limiter works, in bytes.
void expect(uint64_t bytes);
void note(const char *format, ...) __attribute__((format(printf, 1, 2)));
// Say what was granted, wait for the runner, end.
void hold(void) __attribute__((noreturn));
// The machine, not the driver, failed: end with its reason.
void broken(const char *what) __attribute__((noreturn));

// The path of a file in this program's folder.
void beside(const char *name, char path[PATH_MAX]);

// cuInit, and the first card's primary context current in this thread.
void open_card(void);
// cuMemAlloc in pieces until `bytes` more are granted or one is refused.
void fill(uint64_t bytes);
typedef CUresult alloc_call(CUdeviceptr *, size_t);
void fill_by(const char *call, alloc_call *alloc, uint64_t bytes, uint64_t piece);

// Zeroed memory that children forked later see too.
void *share_with_children(size_t bytes);
// A child that runs `run` and then holds until the way ends.  Fork before the first CUDA call.
void start_child(void (*run)(int index), int index);
// Whether it has finished its work, or died.
bool child_is_done(int index);
void await_children(void);
// In a child: here its parent, and perhaps the others, wait for it.  Not all need come: what a child needs may be refused.
void arrive(void);
// Wait until each child has arrived or is done without.  How many of all arrived.
int await_arrivals(void);
// SIGKILL, and wait until it is gone.
void kill_child(int index);

#endif
