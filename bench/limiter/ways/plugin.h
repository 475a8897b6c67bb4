// A program's part that looks the driver up for itself: linked into nothing of ours.
#ifndef PLUGIN_H
#define PLUGIN_H

// Allocate pieces until `goal` bytes are granted or one is refused.
// Returns the CUresult of the last call, named in *call; *bytes is what was granted.
typedef int plugin_call(const char *driver, unsigned long long goal, unsigned long long piece,
                        unsigned long long *bytes, const char **call);
plugin_call plugin_fill;

#endif
