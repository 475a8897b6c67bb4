// Ways to come to an address of the driver.  Each prints "<library> <symbol>" of what it found, or "nothing".
//   lookups WAY [ARGUMENT...]
#include <dlfcn.h>
#include <string.h>

#include "check.h"

static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static void show(void *address)
{
    Dl_info info;
    if (!address)
        puts("nothing");
    else if (dladdr(address, &info) && info.dli_sname)
        printf("%s %s\n", file_name(info.dli_fname), info.dli_sname);
    else
        puts("unknown");
}

static void *open_driver(const char *path)
{
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    CHECK(handle);
    return handle;
}

static void by_handle(char **arguments)
{
    void *handle = open_driver(arguments[0]);
    show(dlsym(handle, arguments[1]));
}

static void by_version(char **arguments)
{
    void *handle = open_driver(arguments[0]);
    show(dlvsym(handle, arguments[1], "LIBCUDA_TEST"));
}

static void global(char **arguments)
{
    show(dlsym(RTLD_DEFAULT, arguments[1]));
    show(dlsym(RTLD_NEXT, arguments[1]));
    CHECK(dlopen(arguments[0], RTLD_NOW | RTLD_GLOBAL));
    show(dlsym(RTLD_DEFAULT, arguments[1]));
    show(dlsym(RTLD_NEXT, arguments[1]));
}

// libc's own dlsym, got round everybody who stands before it.
static void by_raw_dlsym(char **arguments)
{
    void *(*raw)(void *, const char *) = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", arguments[2]);
    CHECK(raw);
    show(raw(open_driver(arguments[0]), arguments[1]));
}

static void look_by(void *plugin, char **arguments)
{
    if (!plugin)
        fprintf(stderr, "%s\n", dlerror());
    CHECK(plugin);
    void *(*look)(const char *, const char *) = (void *(*)(const char *, const char *))dlsym(plugin, "plugin_look");
    CHECK(look);
    show(look(arguments[0], arguments[1]));
}

// A plugin that sees libc's dlsym and dlopen first.
static void by_plugin(char **arguments)
{
    look_by(dlopen(arguments[2], RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND), arguments);
}

// A plugin with a libc and a driver of its own.
static void by_namespace(char **arguments)
{
    CHECK(!dlmopen(LM_ID_NEWLM, "/nonexistent.so", RTLD_NOW) && dlerror());
    look_by(dlmopen(LM_ID_NEWLM, arguments[2], RTLD_NOW), arguments);
}

// One that is opened by such a plugin, and one by libc's own dlmopen.
static void by_nested_namespace(char **arguments)
{
    void *outer = dlmopen(LM_ID_NEWLM, arguments[2], RTLD_NOW);
    CHECK(outer);
    void *(*open)(const char *) = (void *(*)(const char *))dlsym(outer, "plugin_in_namespace");
    CHECK(open);
    look_by(open(arguments[2]), arguments);
}

static void by_found_dlmopen(char **arguments)
{
    void *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
    void *(*open)(Lmid_t, const char *, int) = (void *(*)(Lmid_t, const char *, int))dlsym(libc, "dlmopen");
    CHECK(open);
    look_by(open(LM_ID_NEWLM, arguments[2], RTLD_NOW), arguments);
}

// The linker has room for 16 namespaces: those that fail must not use them up.
static void after_failed_namespaces(char **arguments)
{
    for (int i = 0; i < 40; i++)
        CHECK(!dlmopen(LM_ID_NEWLM, "/nonexistent.so", RTLD_NOW));
    by_namespace(arguments);
}

// Two copies of the driver: both lead to one.
static void in_a_copy(char **arguments)
{
    void *first = open_driver(arguments[0]);
    void *second = open_driver(arguments[2]);
    CHECK(first != second);
    puts(dlsym(first, "cuCtxGetCurrent") == dlsym(second, "cuCtxGetCurrent") ? "one driver" : "two drivers");
    show(dlsym(second, arguments[1]));
}

static void after_close(char **arguments)
{
    void *handle = open_driver(arguments[0]);
    int (*init)(unsigned) = (int (*)(unsigned))dlsym(handle, "cuInit");
    CHECK(dlclose(handle) == 0 && dlclose(handle) != 12345);
    printf("cuInit answers %d\n", init(0));
    show(dlsym(open_driver(arguments[0]), arguments[1]));
}

// The pitfall of interposers: the second one is another answer.
static void next_twice(char **arguments)
{
    (void)arguments;
    void *first = dlsym(RTLD_NEXT, "malloc");
    void *second = dlsym(RTLD_NEXT, "malloc");
    CHECK(first && first == second);
    show(first);
    CHECK(!dlsym(RTLD_NEXT, "no_such_symbol") && dlerror());
    CHECK(!dlsym(RTLD_DEFAULT, "cuNoSuchSymbol") && dlerror());
}

static const struct {
    const char *name;
    void (*run)(char **);
} ways[] = {
#define WAY(name) {#name, name}
    WAY(by_handle),    WAY(by_version),          WAY(global),           WAY(by_raw_dlsym),
    WAY(by_plugin),    WAY(in_a_copy),           WAY(after_close),      WAY(next_twice),
    WAY(by_namespace), WAY(by_nested_namespace), WAY(by_found_dlmopen), WAY(after_failed_namespaces),
};

int main(int argc, char **argv)
{
    CHECK(argc >= 2);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        if (strcmp(ways[i].name, argv[1]) == 0) {
            ways[i].run(argv + 2);
            return 0;
        }
    }
    CHECK(!"such a way");
}
