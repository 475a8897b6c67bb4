#include "namespaces.h"

#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <string.h>

#include "driver.h"

static pthread_mutex_t preparing = PTHREAD_MUTEX_INITIALIZER;

// One that was prepared for a file that couldn't be opened: the linker has room for 16, so it isn't wasted.
static struct {
    void *driver; // handle of its libcuda
    Lmid_t id;
    unsigned objects;
} spare;

static struct link_map *first_of(void *handle)
{
    struct link_map *map = handle;
    while (map->l_prev)
        map = map->l_prev;
    return map;
}

static unsigned count_objects(void *handle)
{
    unsigned count = 0;
    for (const struct link_map *map = first_of(handle); map; map = map->l_next)
        count++;
    return count;
}

// dl_iterate_phdr shows the caller's namespace only; the headers of a library lie where it was loaded.
static bool read_object(const struct link_map *map, struct elf_symbols *symbols)
{
    const ElfW(Ehdr) *header = (const ElfW(Ehdr) *)map->l_addr;
    if (!map->l_addr || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0)
        return false;
    struct dl_phdr_info info = {.dlpi_addr = map->l_addr,
                                .dlpi_name = map->l_name,
                                .dlpi_phdr = (const ElfW(Phdr) *)(map->l_addr + header->e_phoff),
                                .dlpi_phnum = header->e_phnum};
    return elf_read(&info, symbols);
}

// Code in there that opens a further namespace comes to us as well.
static void point_loader(const struct elf_symbols *symbols)
{
    ElfW(Sym) *symbol = elf_find(symbols, "dlmopen");
    if (!symbol || !elf_defines_function(symbol) || !elf_unlock(symbols))
        return;
    size_t total = elf_count(symbols);
    for (size_t i = 0; i < total; i++)
        if (elf_defines_function(&symbols->table[i]) &&
            strcmp(symbols->names + symbols->table[i].st_name, "dlmopen") == 0)
            elf_point(symbols, &symbols->table[i], own_dlmopen());
    elf_lock(symbols);
}

static void point_all(void *handle)
{
    struct elf_symbols symbols;
    for (const struct link_map *map = first_of(handle); map; map = map->l_next) {
        // the dynamic linker is the same object in all namespaces
        if (!read_object(map, &symbols))
            continue;
        driver_point_copy(&symbols);
        point_loader(&symbols);
    }
}

static bool make(void)
{
    const struct next_loader *next = driver_loader();
    if (!next->dlmopen || !next->dlinfo)
        return false;
    driver_load();
    spare.driver = cuda_bound() ? next->dlmopen(LM_ID_NEWLM, "libcuda.so.1", RTLD_LAZY) : NULL;
    if (!spare.driver || next->dlinfo(spare.driver, RTLD_DI_LMID, &spare.id) != 0)
        return false;
    if (nvml_bound())
        next->dlmopen(spare.id, "libnvidia-ml.so.1", RTLD_LAZY);
    point_all(spare.driver);
    spare.objects = count_objects(spare.driver);
    return true;
}

Lmid_t namespaces_prepare(void)
{
    int saved = errno;
    pthread_mutex_lock(&preparing);
    bool ready = (spare.driver && count_objects(spare.driver) == spare.objects) || make();
    Lmid_t id = ready ? spare.id : LM_ID_NEWLM;
    pthread_mutex_unlock(&preparing);
    errno = saved;
    return id;
}

void *own_dlmopen(void)
{
    return (void *)dlmopen;
}

void namespaces_after_fork(void)
{
    pthread_mutex_init(&preparing, NULL);
}
