// The tables that native/tools/generate_libvgpu.py makes, and the way to call the real driver.
// Owns: nothing.  The real addresses are filled in by driver.c, once, before any wrapper may use them.
#ifndef ENTRY_TABLES_H
#define ENTRY_TABLES_H

#include <cuda.h>
#include <nvml.h>

#include "entry_points.h"

struct entry {
    const char *name;
    void *wrapper; // NULL: passes
};

extern const struct entry cuda_entries[CUDA_ENTRY_COUNT]; // sorted by name
extern const struct entry nvml_entries[NVML_ENTRY_COUNT];

// Never NULL once a library is bound: a name that this driver lacks answers "not supported".
extern void *cuda_real[CUDA_ENTRY_COUNT];
extern void *nvml_real[NVML_ENTRY_COUNT];

#define REAL(name)      ((fn_##name)cuda_real[ENTRY_##name])
#define NVML_REAL(name) ((fn_##name)nvml_real[ENTRY_##name])

#endif
