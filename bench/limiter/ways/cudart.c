// NVIDIA's runtime, linked statically: it looks the driver up for itself.  A program of its own, of the same manners.
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB   (1ULL << 20)
#define PIECE (64 * MIB)

static cudaError_t alloc(const char *name, void **pointer)
{
    if (strcmp(name, "cudart_async") == 0)
        return cudaMallocAsync(pointer, PIECE, 0);
    return cudaMalloc(pointer, PIECE);
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: cudart NAME LIMIT_MIB CONTEXT_MIB\n");
        return 2;
    }
    unsigned long long goal = strtoull(argv[2], NULL, 10) * MIB / 2 * 3, got = 0;
    void *pointer;
    cudaError_t result = cudaSuccess;
    while (got < goal && (result = alloc(argv[1], &pointer)) == cudaSuccess)
        got += PIECE;
    cudaDeviceSynchronize();
    printf("granted %llu\n", got / MIB);
    if (result)
        printf("refused %d %s\n", result, argv[1]);
    puts("hold");
    fflush(stdout);
    char byte;
    return read(STDIN_FILENO, &byte, 1) < 0;
}
