// A library that looks a driver function up by whatever dlopen and dlsym it is bound to, and one that asks for RTLD_NEXT.
#include <dlfcn.h>
#include <stddef.h>

void *plugin_look(const char *path, const char *name);
void *plugin_next(const char *name);
void *plugin_in_namespace(const char *plugin);

void *plugin_look(const char *path, const char *name)
{
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    return handle ? dlsym(handle, name) : NULL;
}

// A further namespace, by whatever dlmopen it is bound to.
void *plugin_in_namespace(const char *plugin)
{
    return dlmopen(LM_ID_NEWLM, plugin, RTLD_NOW);
}

// RTLD_NEXT means: after this library, which stands behind the limiter.
void *plugin_next(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

int plugin_own(void);

int plugin_own(void)
{
    return 7;
}
