// The streams of this process that have work in flight under a core share, and the marks behind that work.
//
// A mark is cuStreamWriteValue32 of a number into the lane's `done` word in our turns page, so the card itself tells us
// and the neighbours how far it is: no thread of ours has to be awake for it.  Work between two marks is a segment, and
// stamps.c says what it took.
// A launch takes its estimated time from the lane's part of the permit and adds it to what is open: nothing that
// threads with streams of their own would write in common.  Whoever finds that part used up does the rest (share.c).
//
// Never inside a capture: a mark there would become part of the program's graph.
// Owns: the lanes, the page's registration with the driver.
#ifndef LANES_H
#define LANES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "costs.h"
#include "entry_tables.h"
#include "hami_turns.h"

#define LANE_SEGMENTS 16 // closed and not yet seen as done

// Times are CLOCK_MONOTONIC.
struct segment {
    uint64_t ns;       // expected
    struct cost *only; // all of the segment is this; NULL: different things
    uint32_t count;
    bool probe;                    // its cost isn't known yet
    bool begun, ended;             // the stamps it has
    bool company;                  // others had work on the card when it began
    uint64_t opened_ns, closed_ns; // when the host started the first of it, on an idle lane (else 0), and the last
    uint64_t call_ns;              // how long that first call took
    bool guessed;                  // when it began is known by the host's clock only
    uint64_t from_ns, to_ns;       // when the card worked on it, by its own clock; 0: not known
};

// What is open: launches in the high bits, their estimates in ns in the low ones.
#define LANE_LAUNCH (UINT64_C(1) << 40)

static inline uint64_t open_ns(uint64_t open)
{
    return open & (LANE_LAUNCH - 1);
}

static inline uint32_t open_count(uint64_t open)
{
    return (uint32_t)(open / LANE_LAUNCH);
}

struct lane {
    // All that a launch touches, in one line of the cache.  The first few change only with the lane's stream.
    _Alignas(64) _Atomic uint64_t key; // 0: free
    _Atomic(CUstream) stream;
    _Atomic(CUcontext) context;
    _Atomic int card; // CARD_NONE: no core share there
    _Atomic bool per_thread;
    _Atomic bool marked;     // has a word in the page
    _Atomic int64_t left_ns; // of the lane's part of the permit
    _Atomic uint64_t open;
    _Atomic(struct cost *) only;

    // Of the segment that is open.
    _Alignas(64) _Atomic uint64_t opened_ns;
    _Atomic uint64_t call_ns;
    _Atomic bool begun, company;
    atomic_flag closing; // who holds it puts marks and stamps on the stream, and reads them

    _Atomic uint32_t sent; // with the card's meter locked as well
    _Atomic uint32_t read; // the stamps of the segments up to this one are read
    uint32_t seen;         // with the card's meter locked
    uint64_t stamp_ns;     // when the last stamp was passed, with `closing`
    uint32_t stamp;        // and its segment's number; 0: none
    uint64_t undone_ns;    // when `read` was last seen to be all that's done
    struct segment segments[LANE_SEGMENTS];
};

// A few more than have marks: those of the last resort, one a card, are known by their estimates only.
#define LANES_ALL (HAMI_TURNS_LANES + HAMI_MAX_CARDS)

// The lane of a stream of the current context.  NULL: no context.
struct lane *lanes_of(CUstream stream, bool per_thread);

struct lane *lanes_at(unsigned index);
unsigned lanes_index(const struct lane *lane);
unsigned lanes_high(void);

// How many lanes a card has.
unsigned lanes_on(unsigned card);

// Whether it's the legacy stream, or a thread's own.
bool lanes_is_default(const struct lane *lane);

// Number of the last mark that the card has passed.
uint32_t lanes_done(const struct lane *lane);

// The stream is about to be destroyed: no mark must be put there any more.
void lanes_forget(CUstream stream);

// Put mark `number` behind what the stream has.  False: this driver or stream takes none.
bool lanes_mark(struct lane *lane, uint32_t number);

// From a call that starts work on an idle card to its first instruction, and back to us.
uint64_t lanes_latency(void);

void lanes_after_fork(void);

// Take a launch's estimated time.  False: there isn't as much left; it's taken all the same.
static inline bool lane_take(struct lane *lane, uint64_t ns)
{
    return atomic_fetch_sub_explicit(&lane->left_ns, (int64_t)ns, memory_order_relaxed) >= (int64_t)ns;
}

static inline void lane_launch(struct lane *lane, struct cost *cost, uint64_t ns)
{
    if (open_count(atomic_fetch_add_explicit(&lane->open, LANE_LAUNCH | ns, memory_order_relaxed)) == 0)
        atomic_store_explicit(&lane->only, cost, memory_order_relaxed);
    else if (atomic_load_explicit(&lane->only, memory_order_relaxed) != cost)
        atomic_store_explicit(&lane->only, NULL, memory_order_relaxed);
}

static inline uint32_t lane_next(uint32_t number)
{
    return number + 1 ? number + 1 : 1; // 0 is "nothing"
}

static inline struct segment *lane_segment(struct lane *lane, uint32_t number)
{
    return &lane->segments[number % LANE_SEGMENTS];
}

#endif
