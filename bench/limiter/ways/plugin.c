#include "plugin.h"

#include <dlfcn.h>
#include <stddef.h>

#define NO_DRIVER 100 // CUDA_ERROR_NO_DEVICE

struct driver {
    int (*init)(unsigned);
    int (*retain)(void **, int);
    int (*set_current)(void *);
    int (*alloc)(unsigned long long *, size_t);
};

static int find(void *library, struct driver *driver)
{
    *(void **)&driver->init = dlsym(library, "cuInit");
    *(void **)&driver->retain = dlsym(library, "cuDevicePrimaryCtxRetain");
    *(void **)&driver->set_current = dlsym(library, "cuCtxSetCurrent");
    *(void **)&driver->alloc = dlsym(library, "cuMemAlloc_v2");
    return driver->init && driver->retain && driver->set_current && driver->alloc;
}

int plugin_fill(const char *path, unsigned long long goal, unsigned long long piece, unsigned long long *bytes,
                const char **call)
{
    struct driver driver;
    void *context, *library = dlopen(path, RTLD_NOW);
    unsigned long long pointer;
    int code;
    *call = "dlopen";
    if (!library || !find(library, &driver))
        return NO_DRIVER;
    *call = "cuInit";
    if ((code = driver.init(0)))
        return code;
    *call = "cuDevicePrimaryCtxRetain";
    if ((code = driver.retain(&context, 0)) || (code = driver.set_current(context)))
        return code;
    *call = "cuMemAlloc_v2";
    for (*bytes = 0; *bytes < goal; *bytes += piece)
        if ((code = driver.alloc(&pointer, piece)))
            return code;
    return 0;
}
