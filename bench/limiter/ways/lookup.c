// Other ways to find cuMemAlloc than to be linked with it.
#include "way.h"
#include "plugin.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#define SYMBOL "cuMemAlloc_v2"

static void *driver(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library)
        broken("dlopen libcuda.so.1");
    return library;
}

static void fill_with(const char *how, void *found)
{
    alloc_call *alloc;
    *(void **)&alloc = found;
    if (!alloc) {
        granted(how, CUDA_ERROR_NOT_FOUND, 0);
        note("no %s is found", SYMBOL);
        return;
    }
    open_card();
    fill_by(how, alloc, goal, PIECE);
}

static void by_dlsym(void)
{
    fill_with("dlsym", dlsym(driver(), SYMBOL));
}

// The driver's own symbols have no version, so dlvsym can find them only by way of libc's dlsym.
static void *libc(void)
{
    void *library = dlopen("libc.so.6", RTLD_NOW);
    if (!library)
        broken("dlopen libc.so.6");
    return library;
}

static void fill_by_dlsym(const char *how, void *found)
{
    void *(*real_dlsym)(void *, const char *);
    *(void **)&real_dlsym = found;
    fill_with(how, real_dlsym ? real_dlsym(driver(), SYMBOL) : NULL);
}

static void by_dlvsym(void)
{
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"};
    void *found = NULL;
    for (size_t i = 0; !found && i < sizeof versions / sizeof *versions; i++)
        found = dlvsym(libc(), "dlsym", versions[i]);
    fill_by_dlsym("dlvsym", found);
}

static void by_dlsym_of_dlsym(void)
{
    fill_by_dlsym("dlsym of dlsym", dlsym(libc(), "dlsym"));
}

// The second look-up of a thread is where a hook may lose its way.
static void by_rtld_next(void)
{
    dlsym(RTLD_NEXT, SYMBOL);
    fill_with("dlsym(RTLD_NEXT)", dlsym(RTLD_NEXT, SYMBOL));
}

typedef CUresult lookup_call(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);

static lookup_call *find_lookup(void)
{
    lookup_call *lookup;
    *(void **)&lookup = dlsym(driver(), "cuGetProcAddress_v2");
    if (!lookup)
        broken("dlsym cuGetProcAddress_v2");
    return lookup;
}

static void *ask(lookup_call *lookup, const char *symbol, int version)
{
    void *found = NULL;
    CUdriverProcAddressQueryResult status;
    CUresult result = lookup(symbol, &found, version, CU_GET_PROC_ADDRESS_DEFAULT, &status);
    return granted("cuGetProcAddress", result, 0) ? found : NULL;
}

static void by_proc_address(void)
{
    fill_with("cuGetProcAddress", ask(find_lookup(), "cuMemAlloc", 3020));
}

// As NVIDIA's runtime does: the look-up that a look-up gives.
static void by_its_own_address(void)
{
    lookup_call *second;
    *(void **)&second = ask(find_lookup(), "cuGetProcAddress", 12000);
    fill_with("cuGetProcAddress's own", second ? ask(second, "cuMemAlloc", 3020) : NULL);
}

// The plugin looks the driver up for itself and does all by what it found.
static void by_plugin(const char *how, void *plugin, const char *driver_path)
{
    plugin_call *plugged;
    *(void **)&plugged = plugin ? dlsym(plugin, "plugin_fill") : NULL;
    if (!plugged) {
        granted(how, CUDA_ERROR_NOT_FOUND, 0);
        note("%s", dlerror());
        return;
    }
    unsigned long long bytes = 0;
    const char *call = how;
    int code = plugged(driver_path, goal, PIECE, &bytes, &call);
    granted(how, CUDA_SUCCESS, bytes);
    granted(call, (CUresult)code, 0);
}

static void plugin_deepbind(void)
{
    char path[PATH_MAX];
    beside("plugin.so", path);
    by_plugin("RTLD_DEEPBIND", dlopen(path, RTLD_NOW | RTLD_DEEPBIND), "libcuda.so.1");
}

static void plugin_namespace(void)
{
    char path[PATH_MAX];
    beside("plugin.so", path);
    by_plugin("dlmopen", dlmopen(LM_ID_NEWLM, path, RTLD_NOW), "libcuda.so.1");
}

static void copy_file(const char *from, const char *to)
{
    struct stat status;
    int in = open(from, O_RDONLY | O_CLOEXEC), out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);
    if (in < 0 || out < 0 || fstat(in, &status))
        broken(to);
    for (off_t left = status.st_size; left > 0;) {
        ssize_t copied = sendfile(out, in, NULL, (size_t)left);
        if (copied <= 0)
            broken(to);
        left -= copied;
    }
    close(in);
    close(out);
}

// The driver's library under another name, so that it is loaded a second time.
static void copied_driver(void)
{
    char path[PATH_MAX], copy[PATH_MAX];
    struct link_map *map;
    if (dlinfo(driver(), RTLD_DI_LINKMAP, &map))
        broken("dlinfo");
    beside("libcopy-XXXXXX", copy);
    int made = mkstemp(copy);
    if (made < 0)
        broken(copy);
    close(made);
    copy_file(map->l_name, copy);
    beside("plugin.so", path);
    by_plugin("a copy of libcuda", dlopen(path, RTLD_NOW), copy);
    unlink(copy);
}

const struct way lookup_ways[] = {
    {"by_dlsym", by_dlsym},
    {"by_dlvsym", by_dlvsym},
    {"by_dlsym_of_dlsym", by_dlsym_of_dlsym},
    {"by_rtld_next", by_rtld_next},
    {"by_proc_address", by_proc_address},
    {"by_its_own_address", by_its_own_address},
    {"plugin_deepbind", plugin_deepbind},
    {"plugin_namespace", plugin_namespace},
    {"copied_driver", copied_driver},
    {0},
};
