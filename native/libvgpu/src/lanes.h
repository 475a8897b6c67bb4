// The streams of this process that have work in flight under a core share, and the marks behind that work.
//
// A mark is cuStreamWriteValue32 of a number into the lane's `done` word in our turns page, so the card itself tells us and the
// neighbours how far it is: no thread of ours has to be awake for it.  Work between two marks is a segment.
// A launch adds to `open_ns` with one atomic add and nothing else; whoever has used up the permit closes the segment.
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

struct segment {
    uint64_t ns;       // expected
    struct cost *only; // all of the segment is this; NULL: different things
    uint32_t count;
    bool probe; // its cost isn't known yet
};

struct lane {
    _Atomic uint64_t key; // 0: free
    CUstream stream;
    CUcontext context;
    bool per_thread;
    bool marked; // has a word in the page
    int card;    // CARD_NONE: no core share there
    unsigned index;
    _Atomic uint64_t open_ns;
    _Atomic uint32_t open_count;
    _Atomic(struct cost *) only;
    atomic_flag closing;

    // With the card's meter locked.
    uint32_t sent, seen;
    struct segment segments[LANE_SEGMENTS];
};

// A few more than have marks: those of the last resort, one a card, are known by their estimates only.
#define LANES_ALL (HAMI_TURNS_LANES + HAMI_MAX_CARDS)

// The lane of a stream of the current context.  NULL: no context.
struct lane *lanes_of(CUstream stream, bool per_thread);

struct lane *lanes_at(unsigned index);
unsigned lanes_high(void);

// Whether it's the legacy stream, or a thread's own.
bool lanes_is_default(const struct lane *lane);

// The stream is gone, or about to be captured: no mark must be put there any more.
void lanes_forget(CUstream stream);

// Put mark `number` behind what the stream has.  False: this driver or stream takes none.
bool lanes_mark(struct lane *lane, uint32_t number);

// Record an event of ours behind what the stream has.
bool lanes_record(const struct lane *lane, CUevent event);

// From a call that starts work on an idle card to its first instruction, and back to us.
uint64_t lanes_latency(void);

void lanes_after_fork(void);

#endif
