// What the simulated card is called, and how many MiB are taken on it by all processes.
#include <cuda.h>
#include <stdio.h>

#include "hamisim.h"

int main(void)
{
    CUuuid uuid;
    if (cuInit(0) != CUDA_SUCCESS || cuDeviceGetUuid(&uuid, 0) != CUDA_SUCCESS)
        return 1;
    printf("GPU-");
    for (int i = 0; i < 16; i++)
        printf("%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", (unsigned char)uuid.bytes[i]);
    printf("\n%llu\n", (unsigned long long)(hamisim_used(0) >> 20));
    return 0;
}
