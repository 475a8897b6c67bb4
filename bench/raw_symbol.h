// The driver's own functions, past every hook, so that both can be timed in one process.
// They are looked up in the library's file: what is loaded may have been pointed elsewhere.
#ifndef RAW_SYMBOL_H
#define RAW_SYMBOL_H

// The address of libcuda's `name`, or NULL.
void *raw_symbol(const char *name);

#endif
