// What a child process must forget.  A child is another member of the slice: it takes a process slot of its own at its first
// use, and what the parent holds stays the parent's.
#ifndef FORK_H
#define FORK_H

// From now on a forked child starts clean.  Called once the process really uses a card.
void fork_watch(void);

#endif
