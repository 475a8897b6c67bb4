// Whether the owner of a slot lives, where its PID means something and where it doesn't.
//
// A PID names a process within one /proc.  Processes of a slice may count in different ones (a PID namespace of their own), so
// each slot says in which its owner counts (`view`), and its owner holds the kernel's lock on a byte of the usage file: such a
// lock ends with the process, whoever looks from wherever.  In the same view /proc decides, since a program may close any
// descriptor, and the lock with it; in another the lock does.
// A second byte of each slot is locked by whoever clears it, so that no two do, in whatever namespaces they are; and one of
// each card by whoever makes the slice's first context there.
// Where the kernel or the file system has no such locks, owners in other views count as alive, and everybody gets the others.
//
// Owns: the one descriptor whose locks these are.  It belongs to the process: a forked child gives its copy back.
#ifndef LIFE_H
#define LIFE_H

#include <stdbool.h>
#include <stdint.h>

#include "file_id.h"
#include "hami_slice.h"

// Open `path` for locking, if it still is that file.
void life_begin(const char *path, struct file_id file);

// Which /proc this process sees; never 0 if there is one.
uint64_t life_view(void);

// Whether the owner that stands in a slot lives.
bool life_of_owner(const struct hami_usage *usage, unsigned slot);

// The owner's lock on a slot.  False: somebody else has it.
bool life_hold(unsigned slot);
void life_let_go(unsigned slot);

// The lock of whoever clears a slot.  False: somebody else does.
bool life_start_clearing(unsigned slot);
void life_end_clearing(unsigned slot);

// The lock of whoever learns what a context on a card takes.  False: another process does.
bool life_start_learning(unsigned card);
void life_end_learning(unsigned card);

void life_after_fork(void);

#endif
