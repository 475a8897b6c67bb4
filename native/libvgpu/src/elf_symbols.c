#include "elf_symbols.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

// The linker relocates these pointers in place on most machines, and leaves them relative on some.
static ElfW(Addr) absolute(ElfW(Addr) base, ElfW(Addr) pointer)
{
    return pointer < base ? base + pointer : pointer;
}

static int protection_of(const struct dl_phdr_info *info, ElfW(Addr) address)
{
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        ElfW(Addr) start = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_LOAD && address >= start && address < start + segment->p_memsz)
            return (segment->p_flags & PF_R ? PROT_READ : 0) | (segment->p_flags & PF_W ? PROT_WRITE : 0) |
                   (segment->p_flags & PF_X ? PROT_EXEC : 0);
    }
    return 0;
}

bool elf_read(const struct dl_phdr_info *info, struct elf_symbols *out)
{
    const ElfW(Dyn) *dynamic = NULL;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            dynamic = (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    if (!dynamic)
        return false;
    memset(out, 0, sizeof *out);
    out->base = info->dlpi_addr;
    out->path = info->dlpi_name ? info->dlpi_name : "";
    if (strncmp(out->path, "linux-vdso", 10) == 0)
        return false;
    for (const ElfW(Dyn) *entry = dynamic; entry->d_tag != DT_NULL; entry++) {
        ElfW(Addr) value = absolute(out->base, entry->d_un.d_ptr);
        if (entry->d_tag == DT_SYMTAB)
            out->table = (ElfW(Sym) *)value;
        else if (entry->d_tag == DT_STRTAB)
            out->names = (const char *)value;
        else if (entry->d_tag == DT_GNU_HASH)
            out->gnu_hash = (const uint32_t *)value;
        else if (entry->d_tag == DT_HASH)
            out->sysv_hash = (const uint32_t *)value;
    }
    if (!out->table || !out->names || (!out->gnu_hash && !out->sysv_hash))
        return false;
    out->protection = protection_of(info, (ElfW(Addr))out->table);
    return out->protection != 0;
}

static ElfW(Sym) * match(const struct elf_symbols *symbols, uint32_t index, const char *name)
{
    ElfW(Sym) *symbol = &symbols->table[index];
    bool same = symbol->st_shndx != SHN_UNDEF && strcmp(symbols->names + symbol->st_name, name) == 0;
    return same ? symbol : NULL;
}

// DT_GNU_HASH: header of 4 words, Bloom filter of machine words, buckets, then one chain word per hashed symbol.
struct gnu_table {
    uint32_t bucket_count, first, bloom_words;
    const uint32_t *buckets, *chains;
};

static struct gnu_table gnu_table(const uint32_t *words)
{
    struct gnu_table table = {.bucket_count = words[0], .first = words[1], .bloom_words = words[2]};
    table.buckets = words + 4 + table.bloom_words * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
    table.chains = table.buckets + table.bucket_count;
    return table;
}

static ElfW(Sym) * find_by_gnu_hash(const struct elf_symbols *symbols, const char *name)
{
    struct gnu_table table = gnu_table(symbols->gnu_hash);
    uint32_t hash = 5381;
    for (const unsigned char *c = (const unsigned char *)name; *c; c++)
        hash = hash * 33 + *c;
    uint32_t index = table.bucket_count ? table.buckets[hash % table.bucket_count] : 0;
    if (index < table.first)
        return NULL;
    for (;; index++) {
        uint32_t link = table.chains[index - table.first];
        if ((link | 1) == (hash | 1)) {
            ElfW(Sym) *symbol = match(symbols, index, name);
            if (symbol)
                return symbol;
        }
        if (link & 1)
            return NULL;
    }
}

static ElfW(Sym) * find_by_sysv_hash(const struct elf_symbols *symbols, const char *name)
{
    const uint32_t *words = symbols->sysv_hash;
    uint32_t bucket_count = words[0];
    uint32_t hash = 0;
    for (const unsigned char *c = (const unsigned char *)name; *c; c++) {
        hash = (hash << 4) + *c;
        hash ^= (hash >> 24) & 0xf0;
        hash &= 0x0fffffff;
    }
    const uint32_t *chains = words + 2 + bucket_count;
    for (uint32_t index = bucket_count ? words[2 + hash % bucket_count] : 0; index; index = chains[index]) {
        ElfW(Sym) *symbol = match(symbols, index, name);
        if (symbol)
            return symbol;
    }
    return NULL;
}

ElfW(Sym) * elf_find(const struct elf_symbols *symbols, const char *name)
{
    return symbols->gnu_hash ? find_by_gnu_hash(symbols, name) : find_by_sysv_hash(symbols, name);
}

size_t elf_count(const struct elf_symbols *symbols)
{
    if (symbols->sysv_hash)
        return symbols->sysv_hash[1];
    struct gnu_table table = gnu_table(symbols->gnu_hash);
    uint32_t last = 0;
    for (uint32_t i = 0; i < table.bucket_count; i++)
        if (table.buckets[i] > last)
            last = table.buckets[i];
    if (last < table.first)
        return table.first;
    while (!(table.chains[last - table.first] & 1))
        last++;
    return (size_t)last + 1;
}

static int protect(const struct elf_symbols *symbols, int protection)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t start = (uintptr_t)symbols->table & ~(page - 1);
    uintptr_t end = (uintptr_t)(symbols->table + elf_count(symbols));
    return mprotect((void *)start, end - start, protection);
}

bool elf_unlock(const struct elf_symbols *symbols)
{
    return (symbols->protection & PROT_WRITE) || protect(symbols, symbols->protection | PROT_WRITE) == 0;
}

void elf_lock(const struct elf_symbols *symbols)
{
    if (!(symbols->protection & PROT_WRITE))
        protect(symbols, symbols->protection);
}

void elf_point(const struct elf_symbols *symbols, ElfW(Sym) * symbol, const void *target)
{
    __atomic_store_n(&symbol->st_value, (ElfW(Addr))target - symbols->base, __ATOMIC_RELEASE);
}
