// Captures work under a core share and counts what became of it: nothing but the program's own nodes may be in the graph.
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        CUresult result = (call);                                                                                      \
        if (result != CUDA_SUCCESS) {                                                                                  \
            fprintf(stderr, "%s answered %d\n", #call, (int)result);                                                   \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

#define LAUNCHES 400

int main(void)
{
    CUcontext context;
    CUmodule module;
    CUfunction kernel;
    CUstream stream;
    CUgraph graph;
    CUgraphExec exec;
    CUdeviceptr memory;
    unsigned long long ns = 100000;
    void *parameters[] = {&ns};
    size_t nodes = 0;
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuModuleLoadData(&module, "//hamisim kernels=sim_spin(8)\n"));
    CHECK(cuModuleGetFunction(&kernel, module, "sim_spin"));
    CHECK(cuMemAlloc(&memory, 4096));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    // some are under way already
    for (int i = 0; i < 20; i++)
        CHECK(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    for (int i = 0; i < LAUNCHES; i++)
        CHECK(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
    CHECK(cuMemsetD8Async(memory, 0, 4096, stream));
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphGetNodes(graph, NULL, &nodes));
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (int i = 0; i < 3; i++)
        CHECK(cuGraphLaunch(exec, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuStreamDestroy(stream));
    printf("%zu of %d\n", nodes, LAUNCHES + 1);
    return 0;
}
