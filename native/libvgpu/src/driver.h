// The real libcuda and libnvidia-ml of this process: found, held open, and made to show our wrappers.
//
// As soon as the process looks up a CUDA or NVML name, or opens one of the libraries, every loaded object that is one of
// them has its dynamic symbol table pointed at our wrappers (only the hooked names).  From then on the dynamic linker itself
// gives the wrappers to everybody: dlsym with any handle, RTLD_NEXT as seen from any caller, dlvsym, an RTLD_DEEPBIND plugin
// that has libc's dlsym.  A second copy of libcuda, wherever it came from, is pointed at the first one as a whole, so that
// one process has one driver.  namespaces.c sees to the copies in other namespaces.
//
// Owns: cuda_real, nvml_real, the list of known objects.
#ifndef DRIVER_H
#define DRIVER_H

#include <dlfcn.h>
#include <stdbool.h>

#include "elf_symbols.h"
#include "entry_tables.h"
#include "hot.h"

enum driver_mode {
    DRIVER_UNKNOWN = 0,
    DRIVER_PASS,   // no slice: call the driver, nothing else
    DRIVER_ACTIVE, // there is a slice
    DRIVER_REFUSE, // a slice that can't be read
};

extern _Atomic int nvml_mode;

// What a wrapper must do.  Binds the real library at the first call.
enum driver_mode cuda_enter_slowly(void);
enum driver_mode nvml_enter_slowly(void);

static inline enum driver_mode cuda_enter(void)
{
    int mode = __atomic_load_n((int *)&hot.cuda_mode, __ATOMIC_ACQUIRE);
    return __builtin_expect(mode != DRIVER_UNKNOWN, 1) ? (enum driver_mode)mode : cuda_enter_slowly();
}

static inline enum driver_mode nvml_enter(void)
{
    int mode = __atomic_load_n((int *)&nvml_mode, __ATOMIC_ACQUIRE);
    return __builtin_expect(mode != DRIVER_UNKNOWN, 1) ? (enum driver_mode)mode : nvml_enter_slowly();
}

// Look at what was loaded since the last time.  Cheap when nothing was.
void driver_scan(void);

// Load the libraries ourselves and scan: for callers that would get round a later scan.
void driver_load(void);

// Point a copy of libcuda or libnvidia-ml that dl_iterate_phdr doesn't show, in another namespace, at the real ones.  It is
// never unloaded.
void driver_point_copy(const struct elf_symbols *symbols);

// True once the real library is bound.
bool cuda_bound(void);
bool nvml_bound(void);

// Our wrapper for a real address of libcuda; NULL: that one isn't hooked.
void *driver_wrapper_of(const void *real);

// Whether this driver has a function of that name: REAL(name) is never NULL.
#define CUDA_HAS(name) (cuda_real[ENTRY_##name] != cuda_missing_address())
#define NVML_HAS(name) (nvml_real[ENTRY_##name] != nvml_missing_address())
void *cuda_missing_address(void);
void *nvml_missing_address(void);

// The next dlsym, dlvsym and so on after ours in this process; NULL: an old libc keeps it in a library that isn't loaded.
struct next_loader {
    void *(*dlsym)(void *, const char *);
    void *(*dlvsym)(void *, const char *, const char *);
    void *(*dlopen)(const char *, int);
    void *(*dlmopen)(Lmid_t, const char *, int);
    int (*dlinfo)(void *, int, void *);
};
const struct next_loader *driver_loader(void);

// Index of `name` in a table of entries, -1: not there.
int driver_find_entry(const struct entry *entries, int count, const char *name);

void driver_after_fork(void);

#endif
