// What nearly every call reads, side by side in one line of the processor's caches.  Between two calls of the driver a program
// does so much else that whatever a wrapper touches is fetched anew, and every line counts.
#ifndef HOT_H
#define HOT_H

#include <stdatomic.h>
#include <stdbool.h>

struct hot {
    _Atomic int cuda_mode;       // enum driver_mode; driver.h
    _Atomic int share_mode;      // enum share_mode; share.h
    _Atomic int library_waiting; // kernels known and never loaded, one more where contexts come and go; library.h
    _Atomic int devices;         // how many the driver shows, 0: not asked yet; pool_request.c
    _Atomic bool capture_begun;  // whether any capture ever was, in this process; capture.h
};

extern struct hot hot;

// For what is seldom needed on the way of a call that nearly every program is full of: in a place of its own, out of its way.
#define SELDOM __attribute__((cold, noinline))

#endif
