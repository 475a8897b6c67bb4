// The driver's own functions, past every hook, so that both can be timed in one process.
// They are looked up in the library's file: what is loaded may have been pointed elsewhere.
#ifndef RAW_SYMBOL_H
#define RAW_SYMBOL_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>

// The address of libcuda's `name`, or NULL.
void *raw_symbol(const char *name);

// The dynamic symbols of a loaded library, as they stand in its file.
struct raw_symbols {
    ElfW(Addr) base; // where the library is loaded
    const ElfW(Sym) * symbols;
    size_t count;
    const char *names;
};

// False: the file can't be read.
bool raw_symbols(const struct link_map *map, struct raw_symbols *found);

#endif
