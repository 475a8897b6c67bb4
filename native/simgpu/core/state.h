// The state that every process on the simulated cards shares: one mapped file in the simulation directory.
//
// Who lives: a process owns a slot and holds the kernel's record lock on one byte of the file for it.  The kernel
// drops that lock when the last thread of the process is gone (SIGKILL, zombie) or at exec, across PID namespaces,
// and no forked child inherits it.  So "is the slot's owner alive?" is one fcntl(F_GETLK), and a slot without a lock
// is empty, whatever stands in it.  A descriptor of the file is therefore never closed: closing one drops the lock.
//
// What is held: the sum over the slots.  `used` below is only that sum kept at hand; it is made anew whenever a slot is
// cleared or a holder of the mutex died.
#ifndef SIM_STATE_H
#define SIM_STATE_H

#include "card.h"
#include "engine.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SIM_MAX_CARDS     16
#define SIM_MAX_PROCESSES 1024
#define SIM_MAX_XIDS      16
#define SIM_MAX_MIG       7

enum sim_memory {
    SIM_SHOWN,  // in NVML's figure of the process
    SIM_HIDDEN, // takes room on the card only: managed memory
    SIM_MEMORY_KINDS,
};

struct sim_process {
    uint32_t pid; // 0: free.  As the owner's own PID namespace sees it
    uint32_t uid;
    uint64_t pid_namespace; // inode of /proc/self/ns/pid
    uint64_t image;         // changes at exec
    char comm[16];
    uint64_t held[SIM_MAX_CARDS][SIM_MEMORY_KINDS]; // bytes
    uint32_t contexts[SIM_MAX_CARDS];
    struct engine_work work[SIM_MAX_CARDS];
};

struct sim_xid {
    uint64_t code;
    uint64_t time;
};

struct sim_card {
    uint64_t used; // bytes, sum of held over all slots
    uint64_t peak; // the most that `used` ever was
    struct engine engine;
    uint32_t lost; // fell off the bus: NVML can't reach it
    uint32_t zero;
    uint64_t xid_count;
    struct sim_xid xids[SIM_MAX_XIDS]; // the last so many, xids[n % SIM_MAX_XIDS]
};

struct sim_state {
    uint64_t magic;
    uint32_t version;
    uint32_t size;
    uint32_t model;
    uint32_t card_count;
    uint32_t manual_clock;
    uint32_t process_high;            // slots at and above this were never used
    _Atomic uint32_t event_count;     // a futex: who waits for events sleeps on it
    uint32_t mig_count;               // MIG devices of each card; 0: MIG is off
    uint32_t mig_slices[SIM_MAX_MIG]; // of the seven that a card has
    uint32_t zero;
    _Atomic uint64_t clock; // the manual clock's time, ns
    pthread_mutex_t mutex;  // robust and shared
    struct sim_card cards[SIM_MAX_CARDS];
    struct sim_process processes[SIM_MAX_PROCESSES];
};

enum sim_error {
    SIM_OK,
    SIM_NO_DIRECTORY, // the simulation directory can't be used
    SIM_BAD_PROFILE,  // HAMI_SIM_PROFILE or HAMI_SIM_CARDS names nothing
    SIM_MISMATCH,     // made by another version of this library
    SIM_FULL,         // no free process slot
};

// Map the state, creating it if this is the first process.  Once per library; later calls return the first answer.
enum sim_error sim_open(void);
// One plain sentence about the last failure of sim_open, for stderr.
const char *sim_open_failure(void);
struct sim_state *sim_state(void);
const struct card_model *sim_model(void);

// Claim a slot for this process; only the driver's library does.  sim_self() is its index, -1 before.
enum sim_error sim_join(void);
int sim_self(void);

void sim_lock(void);
void sim_unlock(void);

// Below: with the lock held.

// Clear the slots of the dead.
void sim_reap(void);
// The owner's PID as this process sees it; 0: alive, in a namespace that this one can't see; -1: dead or free.
pid_t sim_process_pid(int slot);
// Take room on a card for this process; false if the card has no room.
bool sim_take(unsigned card, uint64_t bytes, enum sim_memory kind);
void sim_give(unsigned card, uint64_t bytes, enum sim_memory kind);

// The card's queues, and its engine brought up to the present.
struct engine_queues sim_queues(unsigned card);
void sim_bring_up(unsigned card);

// hooks.c: how often this library was asked for the list of processes.
extern _Atomic uint64_t sim_lists;

// Simulated time in ns: CLOCK_MONOTONIC, or the manual clock.
uint64_t sim_now(void);

// The file descriptor that must stay open; tests of fork need to know it.
int sim_descriptor(void);

#endif
