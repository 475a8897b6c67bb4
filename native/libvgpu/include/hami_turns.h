// The turns page: what a slice shows its neighbours on a card, so that they can take turns without a daemon between them.
// The only definition.  hami_hub/slicepage mirrors it; a test compares every size and offset.
//
// A slice directory holds
//   turns         this page, on tmpfs, written by the slice's own processes only, and by the card for them;
//   cards/<uuid>/ the card's ring: of every slice with a share of it
//       <name>         a hard link to that slice's turns page,
//       <name>.share   struct hami_share, written by whoever places slices: what cannot be lied about.
//
// A neighbour's page is hostile input: it is read with pread, never mapped (its owner could cut it short), every value in it
// is bounded, and what it claims is believed only while it adds up (native/libvgpu/src/ring.h).
#ifndef HAMI_TURNS_H
#define HAMI_TURNS_H

#include "hami_slice.h"

#define HAMI_TURNS_MAGIC   UINT64_C(0x4e525554494d4148) // "HAMITURN"
#define HAMI_SHARE_MAGIC   UINT64_C(0x52414853494d4148) // "HAMISHAR"
#define HAMI_TURNS_VERSION 1u

#define HAMI_TURNS_MEMBERS 128 // processes of a slice that use cards under a core share
#define HAMI_TURNS_LANES   32  // streams of a process with work in flight

// File "<name>.share" in a card's ring.
struct hami_share {
    uint64_t magic;
    uint32_t version;
    uint32_t size;
    uint32_t card;     // the card's index in the slice's pages
    uint32_t cores;    // percent, 1 .. 99
    uint32_t policy;   // enum hami_core_policy
    uint32_t priority; // enum hami_priority
    uint64_t reserved[4];
};

// One card of the slice.  All times are CLOCK_MONOTONIC or ns of the whole card.
struct hami_turns_card {
    HAMI_ATOMIC(uint64_t) virtual_ns; // card time charged, divided by the share: who has the least goes first
    HAMI_ATOMIC(uint64_t) earned_ns;  // hard cap: the time at which all that was used will have been earned
    HAMI_ATOMIC(uint64_t) spent_ns;   // card time charged, ever
    HAMI_ATOMIC(uint64_t) active_ns;  // when the slice last had work on the card
    HAMI_ATOMIC(uint64_t) begun_ns;   // when one of its processes last went to work on an idle card
    HAMI_ATOMIC(uint64_t) reserved[3];
};

// Why a process of the slice waits, in the low bits of `asks_ns`.
enum hami_turn {
    HAMI_TURN_NONE = 0,
    HAMI_TURN_WANTS = 1,  // its turn hasn't come
    HAMI_TURN_YIELDS = 2, // it has had its turn: the next one may go
};
#define HAMI_TURN_BITS UINT64_C(3)

struct hami_turns_member_card {
    HAMI_ATOMIC(uint64_t) until_ns; // when the work in flight is expected to end
    HAMI_ATOMIC(uint64_t) asks_ns;  // renewed while a launch waits; low bits: enum hami_turn
};

// The work of one stream.  In flight while the two differ.
struct hami_lane {
    HAMI_ATOMIC(uint32_t) sent; // number of the last mark that was put behind work
    HAMI_ATOMIC(uint32_t) done; // written by the card when it passes the mark
};

// One process.  `owner` as in struct hami_process.
struct hami_turns_member {
    HAMI_ATOMIC(uint64_t) owner;
    HAMI_ATOMIC(uint64_t) begun_ns; // when it last went to work on an idle card
    HAMI_ATOMIC(uint64_t) reserved[6];
    struct hami_turns_member_card cards[HAMI_MAX_CARDS];
    HAMI_ATOMIC(uint8_t) lane_card[HAMI_TURNS_LANES]; // 1 + the card's index, 0: the lane was never used
    struct hami_lane lanes[HAMI_TURNS_LANES];
    uint64_t more_reserved[52];
};

// File "turns".  All zero is a valid empty page once magic, version and size stand in it.
struct hami_turns {
    uint64_t magic;
    uint32_t version;
    uint32_t size;                     // sizeof(struct hami_turns)
    HAMI_ATOMIC(uint32_t) member_high; // members at and above this index were never used
    uint32_t zero;
    uint64_t reserved[5];
    struct hami_turns_card cards[HAMI_MAX_CARDS];
    uint64_t more_reserved[376];
    struct hami_turns_member members[HAMI_TURNS_MEMBERS];
};

#endif
