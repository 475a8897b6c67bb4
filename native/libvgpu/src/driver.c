#include "driver.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "elf_symbols.h"
#include "fork.h"
#include "say.h"
#include "slice.h"

#define MAX_LIBRARIES 16
#define WRAPPER_SLOTS 1024 // a power of two, far above the number of hooked names

struct library {
    struct elf_symbols symbols;
    char path[512];
    bool is_cuda;
};

_Atomic int nvml_mode;

static pthread_mutex_t binding = PTHREAD_MUTEX_INITIALIZER;
static _Atomic unsigned long long scanned_adds; // dlpi_adds at the last full scan, plus one
static ElfW(Addr) known[MAX_LIBRARIES];
static int known_count;
static _Atomic bool have_cuda;
static _Atomic bool have_nvml;

static struct {
    const void *real;
    void *wrapper;
} wrappers[WRAPPER_SLOTS];

static CUresult cuda_missing(void)
{
    return CUDA_ERROR_NOT_SUPPORTED;
}

static nvmlReturn_t nvml_missing(void)
{
    return NVML_ERROR_FUNCTION_NOT_FOUND;
}

void *cuda_missing_address(void)
{
    return (void *)cuda_missing;
}

void *nvml_missing_address(void)
{
    return (void *)nvml_missing;
}

bool cuda_bound(void)
{
    return atomic_load_explicit(&have_cuda, memory_order_acquire);
}

bool nvml_bound(void)
{
    return atomic_load_explicit(&have_nvml, memory_order_acquire);
}

int driver_find_entry(const struct entry *entries, int count, const char *name)
{
    int low = 0, high = count - 1;
    while (low <= high) {
        int middle = (low + high) / 2;
        int order = strcmp(name, entries[middle].name);
        if (order == 0)
            return middle;
        if (order < 0)
            high = middle - 1;
        else
            low = middle + 1;
    }
    return -1;
}

// ---- the loader beneath us -------------------------------------------------------------------------------------

static struct next_loader loader;
static _Atomic bool loader_found;

static ElfW(Addr) own_base(void)
{
    extern const char __ehdr_start[] __attribute__((visibility("hidden")));
    return (ElfW(Addr))__ehdr_start;
}

// In the order of the global scope: another interposer after us is called, not passed over.
static int find_loader(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    bool *past_us = data;
    struct elf_symbols symbols;
    if (!elf_read(info, &symbols))
        return 0;
    if (symbols.base == own_base()) {
        *past_us = true;
        return 0;
    }
    if (!*past_us)
        return 0;
    const ElfW(Sym) * symbol;
    if (!loader.dlsym && (symbol = elf_find(&symbols, "dlsym")))
        loader.dlsym = (void *(*)(void *, const char *))elf_address(&symbols, symbol);
    if (!loader.dlvsym && (symbol = elf_find(&symbols, "dlvsym")))
        loader.dlvsym = (void *(*)(void *, const char *, const char *))elf_address(&symbols, symbol);
    if (!loader.dlopen && (symbol = elf_find(&symbols, "dlopen")))
        loader.dlopen = (void *(*)(const char *, int))elf_address(&symbols, symbol);
    if (!loader.dlmopen && (symbol = elf_find(&symbols, "dlmopen")))
        loader.dlmopen = (void *(*)(Lmid_t, const char *, int))elf_address(&symbols, symbol);
    if (!loader.dlinfo && (symbol = elf_find(&symbols, "dlinfo")))
        loader.dlinfo = (int (*)(void *, int, void *))elf_address(&symbols, symbol);
    return loader.dlsym && loader.dlvsym && loader.dlopen && loader.dlmopen && loader.dlinfo;
}

const struct next_loader *driver_loader(void)
{
    if (!atomic_load_explicit(&loader_found, memory_order_acquire)) {
        bool past_us = false;
        dl_iterate_phdr(find_loader, &past_us);
        atomic_store_explicit(&loader_found, true, memory_order_release);
    }
    return &loader;
}

// ---- finding the libraries -------------------------------------------------------------------------------------

struct scan {
    struct library found[4];
    int count;
};

// An interposer of somebody else may export cuInit as well; only the driver has its oldest and oddest names too.
static bool is_libcuda(const struct elf_symbols *symbols)
{
    return elf_find(symbols, "cuInit") && elf_find(symbols, "cuGetExportTable") &&
           elf_find(symbols, "cuTexRefCreate") && elf_find(symbols, "cuMemAlloc_v2");
}

static bool is_libnvidia_ml(const struct elf_symbols *symbols)
{
    return elf_find(symbols, "nvmlInit_v2") && elf_find(symbols, "nvmlErrorString") &&
           elf_find(symbols, "nvmlUnitGetCount");
}

static bool is_known(ElfW(Addr) base)
{
    for (int i = 0; i < known_count; i++)
        if (known[i] == base)
            return true;
    return false;
}

static int scan_object(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    struct scan *scan = data;
    if (info->dlpi_adds + 1 == atomic_load_explicit(&scanned_adds, memory_order_relaxed))
        return 1;
    struct library library;
    if (scan->count == 4 || !elf_read(info, &library.symbols) || library.symbols.base == own_base() ||
        is_known(library.symbols.base))
        return 0;
    library.is_cuda = is_libcuda(&library.symbols);
    if (!library.is_cuda && !is_libnvidia_ml(&library.symbols))
        return 0;
    size_t length = strlen(library.symbols.path);
    if (length >= sizeof library.path)
        return 0;
    memcpy(library.path, library.symbols.path, length + 1);
    scan->found[scan->count++] = library;
    return 0;
}

static int read_adds(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    *(unsigned long long *)data = info->dlpi_adds + 1;
    return 1;
}

static unsigned long long current_adds(void)
{
    unsigned long long adds = 0;
    dl_iterate_phdr(read_adds, &adds);
    return adds;
}

// ---- binding and pointing --------------------------------------------------------------------------------------

static void remember_wrapper(const void *real, void *wrapper)
{
    uintptr_t slot = ((uintptr_t)real >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 32;
    while (wrappers[slot & (WRAPPER_SLOTS - 1)].real && wrappers[slot & (WRAPPER_SLOTS - 1)].real != real)
        slot++;
    wrappers[slot & (WRAPPER_SLOTS - 1)].real = real;
    wrappers[slot & (WRAPPER_SLOTS - 1)].wrapper = wrapper;
}

void *driver_wrapper_of(const void *real)
{
    uintptr_t slot = ((uintptr_t)real >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 32;
    for (; wrappers[slot & (WRAPPER_SLOTS - 1)].real; slot++)
        if (wrappers[slot & (WRAPPER_SLOTS - 1)].real == real)
            return wrappers[slot & (WRAPPER_SLOTS - 1)].wrapper;
    return NULL;
}

static void bind(const struct elf_symbols *symbols, const struct entry *entries, void **real, int count, void *missing,
                 bool remember)
{
    for (int i = 0; i < count; i++) {
        const ElfW(Sym) *symbol = elf_find(symbols, entries[i].name);
        real[i] = symbol ? elf_address(symbols, symbol) : missing;
        if (symbol && remember && entries[i].wrapper)
            remember_wrapper(real[i], entries[i].wrapper);
    }
}

static void point(const struct elf_symbols *symbols, const struct entry *entries, void *const *real, int count,
                  const void *missing, bool second_copy)
{
    if (!elf_unlock(symbols))
        return;
    size_t total = elf_count(symbols);
    for (size_t i = 0; i < total; i++) {
        ElfW(Sym) *symbol = &symbols->table[i];
        if (!elf_defines_function(symbol))
            continue;
        int entry = driver_find_entry(entries, count, symbols->names + symbol->st_name);
        if (entry < 0)
            continue;
        if (entries[entry].wrapper)
            elf_point(symbols, symbol, entries[entry].wrapper);
        else if (second_copy && real[entry] != missing)
            elf_point(symbols, symbol, real[entry]);
    }
    elf_lock(symbols);
}

static void take_in(const struct library *library)
{
    if (known_count == MAX_LIBRARIES || is_known(library->symbols.base))
        return;
    // never unloaded from now on: our table holds its addresses
    if (library->path[0] && !driver_loader()->dlopen(library->path, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE))
        return;
    known[known_count++] = library->symbols.base;
    _Atomic bool *have = library->is_cuda ? &have_cuda : &have_nvml;
    bool second_copy = atomic_load(have);
    const struct entry *entries = library->is_cuda ? cuda_entries : nvml_entries;
    int count = library->is_cuda ? (int)CUDA_ENTRY_COUNT : (int)NVML_ENTRY_COUNT;
    void **real = library->is_cuda ? cuda_real : nvml_real;
    void *missing = library->is_cuda ? (void *)cuda_missing : (void *)nvml_missing;
    if (!second_copy)
        bind(&library->symbols, entries, real, count, missing, library->is_cuda);
    if (slice_state() != SLICE_NONE)
        point(&library->symbols, entries, real, count, missing, second_copy);
    atomic_store_explicit(have, true, memory_order_release);
}

void driver_point_copy(const struct elf_symbols *symbols)
{
    pthread_mutex_lock(&binding);
    if (is_libcuda(symbols) && cuda_bound())
        point(symbols, cuda_entries, cuda_real, CUDA_ENTRY_COUNT, (void *)cuda_missing, true);
    else if (is_libnvidia_ml(symbols) && nvml_bound())
        point(symbols, nvml_entries, nvml_real, NVML_ENTRY_COUNT, (void *)nvml_missing, true);
    pthread_mutex_unlock(&binding);
}

void driver_scan(void)
{
    if (current_adds() == atomic_load_explicit(&scanned_adds, memory_order_acquire))
        return;
    int saved = errno;
    pthread_mutex_lock(&binding);
    unsigned long long adds = current_adds();
    struct scan scan;
    do {
        scan.count = 0;
        dl_iterate_phdr(scan_object, &scan);
        for (int i = 0; i < scan.count; i++)
            take_in(&scan.found[i]);
    } while (scan.count == 4);
    atomic_store_explicit(&scanned_adds, adds, memory_order_release);
    pthread_mutex_unlock(&binding);
    errno = saved;
}

void driver_load(void)
{
    driver_scan();
    bool opened = false;
    if (!cuda_bound())
        opened |= driver_loader()->dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NODELETE) != NULL;
    if (!nvml_bound())
        opened |= driver_loader()->dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_NODELETE) != NULL;
    if (opened)
        driver_scan();
}

static enum driver_mode mode_of_slice(void)
{
    switch (slice_state()) {
    case SLICE_ACTIVE:
        return DRIVER_ACTIVE;
    case SLICE_BROKEN:
        say_kept();
        return DRIVER_REFUSE;
    default:
        return DRIVER_PASS;
    }
}

static enum driver_mode enter(const char *soname, bool (*bound)(void), void **real, int count, void *missing,
                              _Atomic int *mode_out)
{
    driver_scan();
    if (!bound() && driver_loader()->dlopen(soname, RTLD_LAZY | RTLD_NODELETE))
        driver_scan();
    if (!bound()) {
        pthread_mutex_lock(&binding);
        for (int i = 0; i < count && !bound(); i++)
            real[i] = missing;
        pthread_mutex_unlock(&binding);
        return mode_of_slice();
    }
    enum driver_mode mode = mode_of_slice();
    if (mode == DRIVER_ACTIVE)
        fork_watch();
    atomic_store_explicit(mode_out, (int)mode, memory_order_release);
    return mode;
}

enum driver_mode cuda_enter_slowly(void)
{
    return enter("libcuda.so.1", cuda_bound, cuda_real, CUDA_ENTRY_COUNT, (void *)cuda_missing, &hot.cuda_mode);
}

enum driver_mode nvml_enter_slowly(void)
{
    return enter("libnvidia-ml.so.1", nvml_bound, nvml_real, NVML_ENTRY_COUNT, (void *)nvml_missing, &nvml_mode);
}

void driver_after_fork(void)
{
    pthread_mutex_init(&binding, NULL);
}
