// Who a process is, and whether it still lives.  No lock, no thread, no signal: /proc only.
// An owner word is pid << 32 | low 32 bits of the start time in clock ticks, so a recycled PID is another owner.
#ifndef PROCESS_H
#define PROCESS_H

#include <stdbool.h>
#include <stdint.h>

// Our own owner word, read anew: a child after fork is another owner.
uint64_t process_self(void);

// False only if the owner is surely gone.  A zombie leader whose threads still run is alive: they hold the card's memory.
bool process_alive(uint64_t owner);

static inline uint32_t process_pid(uint64_t owner)
{
    return (uint32_t)(owner >> 32);
}

// The name of the calling program, at most 15 characters.
void process_name(char name[16]);

#endif
