#include "raw_symbol.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static struct {
    ElfW(Addr) base; // where the library is loaded
    const ElfW(Sym) * symbols;
    size_t count;
    const char *names;
} driver;

static const char *map_file(const char *path)
{
    struct stat status;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || fstat(file, &status))
        return NULL;
    void *bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    close(file);
    return bytes == MAP_FAILED ? NULL : bytes;
}

static bool read_driver(void)
{
    struct link_map *map;
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    const char *file = library && !dlinfo(library, RTLD_DI_LINKMAP, &map) ? map_file(map->l_name) : NULL;
    if (!file)
        return false;
    const ElfW(Ehdr) *header = (const void *)file;
    const ElfW(Shdr) *sections = (const void *)(file + header->e_shoff);
    for (unsigned i = 0; i < header->e_shnum; i++) {
        if (sections[i].sh_type != SHT_DYNSYM)
            continue;
        driver.symbols = (const void *)(file + sections[i].sh_offset);
        driver.count = sections[i].sh_size / sizeof *driver.symbols;
        driver.names = file + sections[sections[i].sh_link].sh_offset;
        driver.base = map->l_addr;
    }
    return driver.symbols != NULL;
}

void *raw_symbol(const char *name)
{
    if (!driver.symbols && !read_driver())
        return NULL;
    for (size_t i = 0; i < driver.count; i++) {
        const ElfW(Sym) *symbol = &driver.symbols[i];
        if (symbol->st_shndx != SHN_UNDEF && strcmp(driver.names + symbol->st_name, name) == 0)
            return (void *)(driver.base + symbol->st_value);
    }
    return NULL;
}
