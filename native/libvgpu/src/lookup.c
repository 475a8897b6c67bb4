// Every way in which a process comes to an address of the driver: dlsym, dlvsym, dlopen, dlmopen, cuGetProcAddress.
// Decides; driver.c and namespaces.c do the work, lookup_entry.S is the doorstep.
//
// Each lookup is left to whoever answers it without us, with the caller's own handle, version and flags.  The answer is right
// because driver.c has pointed the library's own table at our wrappers before, or, for cuGetProcAddress, because the returned
// pointer is swapped for our wrapper of exactly that function.
#include <dlfcn.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "driver.h"
#include "namespaces.h"
#include "slice.h"

enum which { WHICH_DLSYM, WHICH_DLVSYM, WHICH_DLOPEN, WHICH_DLMOPEN };

struct lookup_answer {
    void *jump; // where to go on; NULL: return `value`
    void *value;
};

struct lookup_answer lookup_answer(void *arguments[3], const void *caller, unsigned which);

static bool is_upper(char c)
{
    return c >= 'A' && c <= 'Z';
}

static bool is_driver_name(const char *name)
{
    if (name[0] == 'c')
        return name[1] == 'u' && is_upper(name[2]);
    return name[0] == 'n' && name[1] == 'v' && name[2] == 'm' && name[3] == 'l' && is_upper(name[4]);
}

// Our exported wrapper of that name, with the real address it stands for; NULL: not hooked.
static void *exported_wrapper(const char *name, void **real)
{
    bool cuda = name[0] == 'c';
    const struct entry *entries = cuda ? cuda_entries : nvml_entries;
    int index = driver_find_entry(entries, cuda ? (int)CUDA_ENTRY_COUNT : (int)NVML_ENTRY_COUNT, name);
    if (index < 0 || !entries[index].wrapper)
        return NULL;
    bool bound = cuda ? cuda_bound() : nvml_bound();
    *real = bound ? (cuda ? cuda_real : nvml_real)[index] : NULL;
    if (*real == cuda_missing_address() || *real == nvml_missing_address())
        *real = NULL;
    return entries[index].wrapper;
}

// Looked up in the global scope, a hooked name would always be found in us, driver or not.  Answer as if we were the driver:
// not there when it isn't, the raw address when there is no slice.
static struct lookup_answer global_answer(void *real_lookup, const char *name)
{
    void *real = NULL;
    void *wrapper = exported_wrapper(name, &real);
    if (!wrapper)
        return (struct lookup_answer){real_lookup, NULL};
    if (!real) // sets the text for dlerror too
        return (struct lookup_answer){NULL, driver_loader()->dlsym(RTLD_NEXT, name)};
    return (struct lookup_answer){NULL, slice_state() == SLICE_NONE ? real : wrapper};
}

struct object_at {
    const void *address;
    ElfW(Addr) base;
    bool found;
};

static int find_object_at(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    struct object_at *wanted = data;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        ElfW(Addr) start = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_LOAD && (ElfW(Addr))wanted->address - start < segment->p_memsz) {
            wanted->found = true;
            wanted->base = info->dlpi_addr;
            return 1;
        }
    }
    return 0;
}

// The main program stands before us in the global scope; whoever else asks for RTLD_NEXT stands behind.
static bool is_main_program(const void *address)
{
    struct object_at wanted = {.address = address};
    dl_iterate_phdr(find_object_at, &wanted);
    return wanted.found && wanted.base == _r_debug.r_map->l_addr;
}

// libc's own dlmopen, asked for by its handle, would get round us; its dlopen and dlsym don't, since the tables are pointed.
// Another interposer who asks how to go on must not come back to us.
static bool is_next_dlmopen(void *handle)
{
    const struct next_loader *next = driver_loader();
    return next->dlmopen && slice_state() != SLICE_NONE && next->dlsym(handle, "dlmopen") == (void *)next->dlmopen;
}

static struct lookup_answer symbol_answer(void *handle, const char *name, const void *caller, void *real_lookup)
{
    if (name && is_driver_name(name)) {
        bool global = handle == RTLD_DEFAULT || handle == RTLD_NEXT;
        if (slice_state() != SLICE_NONE || global)
            driver_scan();
        if (handle == RTLD_DEFAULT || (handle == RTLD_NEXT && is_main_program(caller)))
            return global_answer(real_lookup, name);
    }
    if (name && handle != RTLD_NEXT && strcmp(name, "dlmopen") == 0 && is_next_dlmopen(handle))
        return (struct lookup_answer){NULL, own_dlmopen()};
    return (struct lookup_answer){real_lookup, NULL};
}

static bool is_driver_file(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    return strncmp(name, "libcuda.so", 10) == 0 || strncmp(name, "libnvidia-ml.so", 15) == 0;
}

// A plugin opened with RTLD_DEEPBIND sees libc's dlsym and not ours: the tables must be pointed before it runs.
static void before_open(const char *path, int flags)
{
    if (!path || (flags & RTLD_NOLOAD))
        return;
    bool is_driver = is_driver_file(path);
    if ((!is_driver && !(flags & RTLD_DEEPBIND)) || slice_state() == SLICE_NONE)
        return;
    if (flags & RTLD_DEEPBIND)
        driver_load();
    if (is_driver && driver_loader()->dlopen(path, RTLD_LAZY | RTLD_LOCAL))
        driver_scan();
}

// A new namespace has its own libc, whose dlopen and dlsym nobody stands before: it is made by us, with the driver's tables
// pointed, and what was asked for is opened in it.
static void before_open_in_namespace(Lmid_t *id, const char *path, int flags)
{
    if (*id == LM_ID_BASE)
        before_open(path, flags);
    else if (*id == LM_ID_NEWLM && slice_state() != SLICE_NONE)
        *id = namespaces_prepare();
}

struct lookup_answer lookup_answer(void *arguments[3], const void *caller, unsigned which)
{
    const struct next_loader *next = driver_loader();
    switch (which) {
    case WHICH_DLSYM:
        return symbol_answer(arguments[0], arguments[1], caller, (void *)next->dlsym);
    case WHICH_DLVSYM:
        return symbol_answer(arguments[0], arguments[1], caller, (void *)next->dlvsym);
    case WHICH_DLMOPEN:
        before_open_in_namespace((Lmid_t *)&arguments[0], arguments[1], (int)(intptr_t)arguments[2]);
        return (struct lookup_answer){(void *)next->dlmopen, NULL};
    default:
        before_open(arguments[0], (int)(intptr_t)arguments[1]);
        return (struct lookup_answer){(void *)next->dlopen, NULL};
    }
}

static void swap(void **address)
{
    void *wrapper = address && *address ? driver_wrapper_of(*address) : NULL;
    if (wrapper)
        *address = wrapper;
}

CUresult cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags)
{
    enum driver_mode mode = cuda_enter();
    CUresult result = REAL(cuGetProcAddress)(symbol, pfn, cudaVersion, flags);
    if (result == CUDA_SUCCESS && mode != DRIVER_PASS)
        swap(pfn);
    return result;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *symbolStatus)
{
    enum driver_mode mode = cuda_enter();
    CUresult result = REAL(cuGetProcAddress_v2)(symbol, pfn, cudaVersion, flags, symbolStatus);
    if (result == CUDA_SUCCESS && mode != DRIVER_PASS)
        swap(pfn);
    return result;
}
