// The table of entry points by version, generated from cudaTypedefs.h.
#ifndef SIM_LOOKUP_H
#define SIM_LOOKUP_H

// One ELF symbol: what cuGetProcAddress finds under a name from a version on.
struct lookup_entry {
    const char *name;         // "cuMemAlloc"
    int version;              // of introduction, 3020
    void (*function)(void);   // cuMemAlloc_v2
    void (*per_thread)(void); // its _ptsz or _ptds twin, NULL: none
    int per_thread_version;   // of the twin's introduction
};

// Sorted by name, then by version.
extern const struct lookup_entry lookup_table[];
extern const unsigned lookup_count;

#endif
