#include "raw_symbol.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

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

bool raw_symbols(const struct link_map *map, struct raw_symbols *found)
{
    const char *file = map_file(map->l_name);
    if (!file)
        return false;
    const ElfW(Ehdr) *header = (const void *)file;
    const ElfW(Shdr) *sections = (const void *)(file + header->e_shoff);
    for (unsigned i = 0; i < header->e_shnum; i++) {
        if (sections[i].sh_type != SHT_DYNSYM)
            continue;
        found->symbols = (const void *)(file + sections[i].sh_offset);
        found->count = sections[i].sh_size / sizeof *found->symbols;
        found->names = file + sections[sections[i].sh_link].sh_offset;
        found->base = map->l_addr;
        return true;
    }
    return false;
}

void *raw_symbol(const char *name)
{
    static struct raw_symbols driver;
    struct link_map *map;
    if (!driver.symbols) {
        void *library = dlopen("libcuda.so.1", RTLD_NOW);
        if (!library || dlinfo(library, RTLD_DI_LINKMAP, &map) || !raw_symbols(map, &driver))
            return NULL;
    }
    for (size_t i = 0; i < driver.count; i++) {
        const ElfW(Sym) *symbol = &driver.symbols[i];
        if (symbol->st_shndx != SHN_UNDEF && strcmp(driver.names + symbol->st_name, name) == 0)
            return (void *)(driver.base + symbol->st_value);
    }
    return NULL;
}
