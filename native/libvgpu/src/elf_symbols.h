// The dynamic symbol table of a loaded object: find a name in it, and point a name elsewhere.
// Knows ELF only; what is pointed where is driver.c's business.
#ifndef ELF_SYMBOLS_H
#define ELF_SYMBOLS_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct elf_symbols {
    ElfW(Addr) base;
    const char *path; // as the dynamic linker knows it
    ElfW(Sym) * table;
    const char *names;
    const uint32_t *gnu_hash; // either may be NULL, not both
    const uint32_t *sysv_hash;
    int protection; // PROT_* of the pages that hold the table
};

// Read an object's tables as dl_iterate_phdr shows it.  False: it has none (the vDSO's kernel-made one counts as none).
bool elf_read(const struct dl_phdr_info *info, struct elf_symbols *out);

// A defined symbol of exactly that name; NULL: none.
ElfW(Sym) * elf_find(const struct elf_symbols *symbols, const char *name);

// Entries in the table.
size_t elf_count(const struct elf_symbols *symbols);

static inline void *elf_address(const struct elf_symbols *symbols, const ElfW(Sym) * symbol)
{
    return (void *)(symbols->base + symbol->st_value);
}

static inline bool elf_defines_function(const ElfW(Sym) * symbol)
{
    return symbol->st_shndx != SHN_UNDEF && symbol->st_value && (symbol->st_info & 0xf) == STT_FUNC;
}

// Between these two the table may be written.  False: the system doesn't allow it.
bool elf_unlock(const struct elf_symbols *symbols);
void elf_lock(const struct elf_symbols *symbols);

// Every lookup of this symbol from now on finds `target`.  A reader at the same moment sees the old or the new, never half.
void elf_point(const struct elf_symbols *symbols, ElfW(Sym) * symbol, const void *target);

#endif
