// The slice page: what was granted to a slice, and what the slice did with it.
// The only definition of both files.  hami_hub/slicepage mirrors it; a test compares every size and offset.
//
// A slice directory holds
//   limits  written by whoever places the slice (hub, device plugin), read-only to the tenant;
//   usage   written by the tenant's own processes through libvgpu, on tmpfs.
// A tenant may lie in its own usage file.  That can cost the tenant itself, never a neighbour.
//
// Rules for both files: native byte order, every field naturally aligned, all padding zero, sizes fixed.
// A file with another magic, version or size is refused, never interpreted.
#ifndef HAMI_SLICE_H
#define HAMI_SLICE_H

#include <stdint.h>

#ifdef __cplusplus
#define HAMI_ATOMIC(type) type
#else
#include <stdatomic.h>
#define HAMI_ATOMIC(type) _Atomic type
#endif

#define HAMI_LIMITS_MAGIC UINT64_C(0x54494d494c4d4148) // "HAMLIMIT"
#define HAMI_USAGE_MAGIC  UINT64_C(0x4547415355494d48) // "HMIUSAGE"
#define HAMI_PAGE_VERSION 1u

#define HAMI_MAX_CARDS     16
#define HAMI_MAX_PROCESSES 1024
#define HAMI_MAX_REFUSALS  16 // the last so many are kept
#define HAMI_MAX_HOLDERS   4  // processes named in one refusal, largest first
#define HAMI_UUID_SIZE     64 // "GPU-<uuid>" or "MIG-<uuid>", NUL-terminated
#define HAMI_NAME_SIZE     64
#define HAMI_CALL_SIZE     32
#define HAMI_COMM_SIZE     16

// GPU_CORE_UTILIZATION_POLICY
enum hami_core_policy {
    HAMI_POLICY_DEFAULT = 0, // elastic: never below the share when it is wanted, more when the card idles
    HAMI_POLICY_FORCE = 1,   // hard cap
    HAMI_POLICY_DISABLE = 2, // no core limit
};

// CUDA_TASK_PRIORITY
enum hami_priority {
    HAMI_PRIORITY_HIGH = 0,
    HAMI_PRIORITY_LOW = 1,
};

enum hami_card_flag {
    HAMI_CARD_WHOLE = 1u << 0,      // the whole card: no ledger and no share on the hot path
    HAMI_CARD_OOM_KILLER = 1u << 1, // a process that takes more than the slice has, and can't give it back, is ended
};

struct hami_card_limit {
    char uuid[HAMI_UUID_SIZE];   // cards are matched by UUID, never by index
    HAMI_ATOMIC(uint64_t) vram;  // bytes
    HAMI_ATOMIC(uint32_t) cores; // percent of the card's time, 0 or 100: no core limit
    uint32_t policy;             // enum hami_core_policy
    uint32_t priority;           // enum hami_priority
    uint32_t flags;              // enum hami_card_flag
    uint64_t reserved[5];
};

// File "limits".  A writer that changes a live slice makes `sequence` odd, writes, makes it even again.
struct hami_limits {
    uint64_t magic;
    uint32_t version;
    uint32_t size; // sizeof(struct hami_limits)
    HAMI_ATOMIC(uint32_t) sequence;
    uint32_t card_count;       // 0 .. HAMI_MAX_CARDS; 0: no card may be used
    char name[HAMI_NAME_SIZE]; // for people: "alice/" or "namespace/pod/container"
    uint64_t reserved[5];
    struct hami_card_limit cards[HAMI_MAX_CARDS];
};

// What a slice did on one card.  What it holds *now* is not here: it is the sum over the process slots,
// so that no counter can drift from the truth when a process dies between two instructions.
// Who makes the slice's first context holds a write lock (F_OFD_SETLK) on the byte where `context_bytes` begins.
struct hami_card_usage {
    HAMI_ATOMIC(uint64_t) peak;           // bytes, highest sum seen
    HAMI_ATOMIC(uint64_t) refusals;       // allocations refused
    HAMI_ATOMIC(uint64_t) overshoots;     // times a cost known only afterwards had to be undone
    HAMI_ATOMIC(uint64_t) throttled_ns;   // time that launches waited for the core share
    HAMI_ATOMIC(uint64_t) used_ns;        // card time charged
    HAMI_ATOMIC(uint64_t) last_launch_ns; // CLOCK_MONOTONIC, 0: never
    HAMI_ATOMIC(uint64_t) context_bytes;  // what the slice's first context on the card took, 0: none yet
    HAMI_ATOMIC(uint64_t) borrowed_ns;    // card time used beyond the share, by tenths of a second
    HAMI_ATOMIC(uint64_t) lent_ns;        // card time of the share that neighbours used, likewise
    HAMI_ATOMIC(uint64_t) window_ns;      // CLOCK_MONOTONIC at which the present tenth of a second began
    HAMI_ATOMIC(uint64_t) window_used_ns; // used_ns at that time
    HAMI_ATOMIC(uint64_t) reserved[5];
};

// One process of the slice.  A slot never moves while its owner lives.
// Invariant: held + overhead of card c >= what the driver holds for this process on c, at every instruction.
//
// `owner` is 0 (free) or pid << 32 | low 32 bits of the process's start time in clock ticks
// (field 22 of /proc/PID/stat), so that one compare-and-swap claims a slot and a recycled PID is another owner.
// A slot whose owner is dead counts as empty; whoever notices may clear it.  As long as the owner lives it also holds a write
// lock (F_OFD_SETLK) on the byte of the file where `owner` begins: for those who see other PIDs.
struct hami_process {
    HAMI_ATOMIC(uint64_t) owner;
    HAMI_ATOMIC(uint64_t) reaper;                   // owner word of the process that clears this slot, 0: nobody
    char comm[HAMI_COMM_SIZE];                      // name of the program, NUL-terminated
    HAMI_ATOMIC(uint64_t) held[HAMI_MAX_CARDS];     // bytes allocated, as the driver rounds them, or about to be
    HAMI_ATOMIC(uint64_t) overhead[HAMI_MAX_CARDS]; // bytes of contexts, modules, stacks: as the driver shows
    HAMI_ATOMIC(uint64_t) view;                     // which /proc the owner's PID counts in, 0: not known
    HAMI_ATOMIC(uint64_t) imports;                  // 1: other processes' memory is or was open here
    HAMI_ATOMIC(uint64_t) moving;                   // bytes of these, on any card, that may be here for a moment only
    uint64_t reserved[9];
};

struct hami_holder {
    uint32_t pid;
    uint32_t zero;
    uint64_t bytes;
};

// One refused allocation.  `ticket` is 0 while it is written, then 1 + its number: a reader copies the record
// and believes it only if the ticket was the same, and not 0, before and after.
struct hami_refusal {
    HAMI_ATOMIC(uint64_t) ticket;
    uint64_t time_ns; // CLOCK_REALTIME
    uint64_t asked;   // bytes
    uint64_t used;    // bytes held by the slice at that moment
    uint64_t limit;   // bytes
    uint32_t card;    // index into hami_limits.cards
    uint32_t pid;
    char call[HAMI_CALL_SIZE]; // "cuMemAlloc_v2"
    struct hami_holder holders[HAMI_MAX_HOLDERS];
};

// File "usage".  All zero is a valid empty page once magic, version and size stand in it.
struct hami_usage {
    uint64_t magic;
    uint32_t version;
    uint32_t size;                      // sizeof(struct hami_usage)
    HAMI_ATOMIC(uint32_t) process_high; // slots at and above this index were never used
    uint32_t zero;
    HAMI_ATOMIC(uint64_t) refusal_count; // refusals[n % HAMI_MAX_REFUSALS] is the n-th
    uint64_t reserved[12];
    struct hami_card_usage cards[HAMI_MAX_CARDS];
    struct hami_refusal refusals[HAMI_MAX_REFUSALS];
    struct hami_process processes[HAMI_MAX_PROCESSES];
};

#endif
