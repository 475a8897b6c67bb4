// A program that is linked with libcuda: allocates argv[1] MiB at a time until it is refused, be it a context already, and
// prints how often it was granted and what refused it.
#include <cuda.h>

#include "check.h"

int main(int argc, char **argv)
{
    CUdevice device;
    CUcontext context = NULL;
    CUdeviceptr pointer;
    CHECK(argc == 2);
    CUresult result = cuInit(0);
    if (result == CUDA_SUCCESS) {
        CHECK(cuDeviceGet(&device, 0) == CUDA_SUCCESS);
        result = cuDevicePrimaryCtxRetain(&context, device);
    }
    CHECK(result != CUDA_SUCCESS || cuCtxSetCurrent(context) == CUDA_SUCCESS);
    int count = 0;
    while (result == CUDA_SUCCESS && (result = cuMemAlloc(&pointer, (size_t)atoi(argv[1]) << 20)) == CUDA_SUCCESS)
        count++;
    printf("%d %d\n", count, result);
    return 0;
}
