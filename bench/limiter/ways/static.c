// A program without a dynamic linker: nothing is ever preloaded into it.  Of the same manners as the ways.
#include "plugin.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MIB (1ULL << 20)

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: static NAME LIMIT_MIB CONTEXT_MIB\n");
        return 2;
    }
    unsigned long long bytes = 0;
    const char *call = "";
    int code = plugin_fill("libcuda.so.1", strtoull(argv[2], NULL, 10) * MIB / 2 * 3, 64 * MIB, &bytes, &call);
    printf("granted %llu\n", bytes / MIB);
    if (code)
        printf("refused %d %s\n", code, call);
    puts("hold");
    fflush(stdout);
    char byte;
    return read(STDIN_FILENO, &byte, 1) < 0;
}
