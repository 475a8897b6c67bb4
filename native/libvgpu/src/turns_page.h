// The slice's own turns page, and this process's member slot in it.
// Owns: the mapping.  Without a page in the slice directory a process has one for itself, and no neighbours.
#ifndef TURNS_PAGE_H
#define TURNS_PAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "hami_turns.h"
#include "turns.h"

#define TURNS_FAR_NS (UINT64_C(10000) * TURN_MS) // no honest time lies further ahead

// Both NULL after one line on stderr if no slot is free.
struct hami_turns *turns_page(void);
struct hami_turns_member *turns_page_member(void);

ino_t turns_page_inode(void);

// stat, which glibc has as a function only since 2.33.  False: it failed.
bool turns_file_status(const char *path, struct stat *status);

// The owner is dead: its slot is free, its work forgotten.
void turns_page_bury(struct hami_turns_member *member, uint64_t owner);

static inline uint64_t turns_word(const _Atomic uint64_t *from)
{
    return atomic_load_explicit(from, memory_order_relaxed);
}

// Whether a member, of our page or of a snapshot, has work on the card.  The lowest bit of `until_ns` says that some of it has no
// mark behind it yet: then that time is all that is known of its end.
bool turns_pending(const struct hami_turns_member *member, unsigned card, uint64_t now);

void turns_page_after_fork(void);

#endif
