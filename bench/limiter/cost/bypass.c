// Past a limiter and through it by turns, in one running program: what its calls cost there, whatever else the program
// does.  Between two processes any two runs differ by more than that.
//
// Past it, each wrapper begins with a jump to the driver's function of its name.  The limiter's own books don't go on
// meanwhile, so a program switches only where it takes and frees no memory, or doesn't mind.  x86-64 only.
#include "../../raw_symbol.h"

#include <dlfcn.h>
#include <linux/membarrier.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LIBRARY      "/libvgpu.so"
#define JUMP         14 // jmp *0(%rip), and the address
#define MAX_WRAPPERS 2048

static struct wrapper {
    unsigned char *code, own[JUMP], jump[JUMP];
} wrappers[MAX_WRAPPERS];
static size_t count;

static const struct link_map *find_limiter(void)
{
    struct link_map *map;
    if (dlinfo(dlopen(NULL, RTLD_NOW), RTLD_DI_LINKMAP, &map))
        return NULL;
    for (; map; map = map->l_next) {
        size_t length = strlen(map->l_name), tail = sizeof LIBRARY - 1;
        if (length > tail && strcmp(map->l_name + length - tail, LIBRARY) == 0)
            return map;
    }
    return NULL;
}

static bool make_writable(const struct wrapper *wrapper)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = (uintptr_t)wrapper->code & ~(page - 1);
    size_t size = (uintptr_t)wrapper->code + JUMP - first;
    return mprotect((void *)first, size, PROT_READ | PROT_WRITE | PROT_EXEC) == 0;
}

static bool add(unsigned char *code, void *driver)
{
    struct wrapper *wrapper = &wrappers[count];
    if (count == MAX_WRAPPERS)
        return false;
    wrapper->code = code;
    memcpy(wrapper->own, code, JUMP);
    memcpy(wrapper->jump, "\xff\x25\0\0\0\0", 6);
    memcpy(wrapper->jump + 6, &driver, sizeof driver);
    count++;
    return make_writable(wrapper);
}

#ifdef __x86_64__
#define KNOWS_JUMPS true
#else
#define KNOWS_JUMPS false
#endif

// How many wrappers can be passed by; 0: there is no limiter, or another processor; -1: its code can't be changed.
int bypass_open(void)
{
    struct raw_symbols found;
    const struct link_map *limiter = KNOWS_JUMPS ? find_limiter() : NULL;
    if (!limiter)
        return 0;
    if (!raw_symbols(limiter, &found) ||
        syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0))
        return -1;
    for (size_t i = 0; i < found.count; i++) {
        const ElfW(Sym) *symbol = &found.symbols[i];
        const char *name = found.names + symbol->st_name;
        bool calls = symbol->st_shndx != SHN_UNDEF && ELF64_ST_TYPE(symbol->st_info) == STT_FUNC;
        // an address that is looked up past the limiter would stay past it
        bool counts = strncmp(name, "cu", 2) == 0 && strncmp(name, "cuGetProcAddress", 16) != 0;
        void *driver = calls && counts ? raw_symbol(name) : NULL;
        if (driver && !add((unsigned char *)(found.base + symbol->st_value), driver))
            return -1;
    }
    return (int)count;
}

// No other thread may be in the driver.
void bypass(bool past)
{
    for (size_t i = 0; i < count; i++)
        memcpy(wrappers[i].code, past ? wrappers[i].jump : wrappers[i].own, JUMP);
    syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0);
}
