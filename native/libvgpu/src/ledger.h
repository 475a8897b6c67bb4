// The slice's VRAM ledger: who of the slice holds how much on which card.  Never calls the driver.
//
// What the slice holds on a card is the sum over the process slots of the usage page; no other counter exists.
// Invariants
//   1. held + overhead of a slot >= what the driver holds for its owner on that card, at every instruction: bytes are added
//      before the driver is asked and taken off after it has freed.
//   2. ledger_reserve succeeds only if the sum, with the own bytes in it, was at most the limit.  Of two that race, each adds
//      before it sums, in one total order: the later one sees the earlier one's bytes, so both can't pass.
//   3. A slot whose owner word is 0 holds nothing.
//   4. Nothing here waits for another process; a process killed at any instruction leaves a slot that anybody can clear.
//   5. What may count too high for a moment stands in `moving` as well: an attempt that may be taken back, an estimate for a call
//      that is under way, bytes that go from one place to another and are in both.  No refusal may rest on it (doubt.h).
//
// Claim and reap
//   claim   take the slot's lock (life.h), then compare-and-swap `owner` from 0 to one's own word.  A slot that already carries
//           our word is our own image of before exec: the driver gave that memory back with the old image, so it is emptied, as
//           its own reaper, and taken over.
//   reap    1. see that the owner is dead; 2. take the slot's clearing lock, and swap `reaper` from 0, or from the word of a
//           dead reaper, to one's own; 3. see again that the owner is the same dead one (the slot may have been cleared and
//           claimed before 2, or its owner be back from exec); 4. empty it; 5. swap `owner` to 0; 6. give both back.  Nobody
//           can claim before 5, and nobody else empties while the reaper lives, so a live owner's amounts are never touched.
//           A reaper that dies in between is replaced by 2.
//   PIDs come again, owner words don't: they hold the start time.  Who lives is life.h's to say.
//   Within one process, joining and reaping are done by one thread at a time (member.c).
#ifndef LEDGER_H
#define LEDGER_H

#include <stdbool.h>
#include <stdint.h>

#include "hami_slice.h"

struct ledger {
    struct hami_usage *usage;
    struct hami_process *self; // our slot; NULL: not a member
    uint64_t owner;            // our owner word
};

// Take a slot.  False: all HAMI_MAX_PROCESSES are taken by processes that live.
bool ledger_join(struct ledger *ledger, const char *comm);

// Add `bytes` if the slice then holds at most `limit`.  `used` (may be NULL) gets what the others and we held without them.
bool ledger_reserve(struct ledger *ledger, unsigned card, uint64_t bytes, uint64_t limit, uint64_t *used);

// Add all that is left of the limit; returns it, 0: nothing, or somebody else was faster.  For a call whose cost nobody knows
// yet, so the peak is not noted: what it is worth is seen when ledger_settle takes it off.
uint64_t ledger_reserve_rest(struct ledger *ledger, unsigned card, uint64_t limit);

// Add without asking: the driver has taken it already.  The peak is not noted: the caller may hold a reservation for the
// same bytes still, and calls ledger_note_peak when that is off.
void ledger_add(struct ledger *ledger, unsigned card, uint64_t bytes);

void ledger_note_peak(struct ledger *ledger, unsigned card);

// Take off, after the driver has freed.  Never below zero.
void ledger_release(struct ledger *ledger, unsigned card, uint64_t bytes);

// What the driver holds for us beyond `held`.
void ledger_set_overhead(struct ledger *ledger, unsigned card, uint64_t bytes);

// The same for the process in another slot, if it is still `owner`, and only upwards.  Nobody clears the slot meanwhile.
void ledger_raise_overhead(struct hami_usage *usage, unsigned slot, uint64_t owner, uint64_t self, unsigned card,
                           uint64_t bytes);

// As ledger_set_overhead, and what `held` had reserved for a part of it comes off: afterwards, so that the sum is never too small.
void ledger_settle(struct ledger *ledger, unsigned card, uint64_t reserved, uint64_t overhead);

// Around what may count too high, by so many bytes at most.
void ledger_begin_move(struct ledger *ledger, uint64_t bytes);
void ledger_end_move(struct ledger *ledger, uint64_t bytes);

// By how much the slice may count too high now, on all cards together.
uint64_t ledger_moving(const struct hami_usage *usage);

// Bytes that the slice holds on a card.
uint64_t ledger_used(const struct hami_usage *usage, unsigned card);

// Clear the slots of dead processes.  Returns how many were cleared.
unsigned ledger_reap(struct hami_usage *usage, uint64_t reaper);

// Slots that were ever used; clamped, since a tenant may write nonsense into its own page.
unsigned ledger_high(const struct hami_usage *usage);

#endif
