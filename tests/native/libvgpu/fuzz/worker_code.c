// Modules, libraries, graphs and limits.
#include <stdio.h>
#include <string.h>

#include "worker.h"

#define MIB (UINT64_C(1) << 20)

const char *module_image(uint64_t bytes, const char *words)
{
    static _Thread_local char image[128];
    snprintf(image, sizeof image, "//hamisim static=%llu %skernels=work\n", (unsigned long long)(bytes / MIB), words);
    return image;
}

static CUresult load_module(struct worker *worker, const struct step *step, struct holding *holding)
{
    (void)worker;
    return cuModuleLoadData((CUmodule *)&holding->handle, module_image(step->bytes, ""));
}

static CUresult unload_module(struct worker *worker, const struct step *step, struct holding *holding)
{
    (void)worker, (void)step;
    return cuModuleUnload((CUmodule)(uintptr_t)holding->handle);
}

static CUresult load_library(struct worker *worker, const struct step *step, struct holding *holding)
{
    (void)worker;
    CUresult result =
        cuLibraryLoadData((CUlibrary *)&holding->handle, module_image(step->bytes, ""), NULL, NULL, 0, NULL, NULL, 0);
    return result == CUDA_SUCCESS
               ? cuLibraryGetKernel((CUkernel *)&holding->second, (CUlibrary)(uintptr_t)holding->handle, "work")
               : result;
}

static CUresult unload_library(struct worker *worker, const struct step *step, struct holding *holding)
{
    (void)worker, (void)step;
    return cuLibraryUnload((CUlibrary)(uintptr_t)holding->handle);
}

// A library's kernel in whatever context is current: the first time there brings it in.
static CUresult launch(struct worker *worker, const struct step *step, struct holding *holding)
{
    (void)holding;
    const struct holding *library = &worker->holdings[OP_LIBRARY][step->slot];
    CUfunction function = (CUfunction)(uintptr_t)library->second;
    if (!library->handle)
        return CUDA_SUCCESS;
    if (step->random % 3 == 0) {
        CUresult result = cuKernelGetFunction(&function, (CUkernel)(uintptr_t)library->second);
        if (result != CUDA_SUCCESS)
            return result;
    }
    return cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
}

// ---- graphs: `second` is the address that the graph allocates --------------------------------------------------------

static CUresult make_graph(struct worker *worker, const struct step *step, struct holding *holding)
{
    (void)worker;
    CUgraph graph;
    CUgraphNode node;
    CUDA_MEM_ALLOC_NODE_PARAMS params;
    memset(&params, 0, sizeof params);
    params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params.poolProps.location = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = (int)current_card()};
    params.bytesize = step->bytes;
    CUresult result = cuGraphCreate(&graph, 0);
    if (result != CUDA_SUCCESS)
        return result;
    result = cuGraphAddMemAllocNode(&node, graph, NULL, 0, &params);
    if (result == CUDA_SUCCESS)
        result = cuGraphInstantiate((CUgraphExec *)&holding->handle, graph, 0);
    holding->second = result == CUDA_SUCCESS ? params.dptr : 0;
    cuGraphDestroy(graph);
    return result;
}

static CUresult end_graph(struct worker *worker, const struct step *step, struct holding *holding)
{
    (void)worker, (void)step;
    // what it allocated lives on, and nobody else knows its address
    cuMemFreeAsync(holding->second, NULL);
    return cuGraphExecDestroy((CUgraphExec)(uintptr_t)holding->handle);
}

static CUresult launch_graph(struct worker *worker, const struct step *step, struct holding *holding)
{
    (void)holding;
    CUgraphExec graph = (CUgraphExec)(uintptr_t)worker->holdings[OP_GRAPH][step->slot].handle;
    if (!graph)
        return CUDA_SUCCESS;
    return step->random % 8 == 0 ? cuGraphUpload(graph, NULL) : cuGraphLaunch(graph, NULL);
}

static CUresult free_of_graph(struct worker *worker, const struct step *step, struct holding *holding)
{
    (void)holding;
    CUdeviceptr address = worker->holdings[OP_GRAPH][step->slot].second;
    if (!address)
        return CUDA_SUCCESS;
    return step->random % 2 ? cuMemFree(address) : cuMemFreeAsync(address, NULL);
}

static CUresult trim_graphs(struct worker *worker, const struct step *step, struct holding *holding)
{
    (void)worker, (void)step, (void)holding;
    return cuDeviceGraphMemTrim((CUdevice)current_card());
}

// ---- limits ----------------------------------------------------------------------------------------------------------

static CUresult set_stack(struct worker *worker, const struct step *step, struct holding *holding)
{
    (void)worker, (void)holding;
    static const size_t stacks[] = {1024, 1536, 4096, 16384};
    return cuCtxSetLimit(CU_LIMIT_STACK_SIZE, stacks[step->random % 4]);
}

// A promise that is not kept for long: what stands open would have to be told apart from static data of the same size.
static CUresult use_heap(struct worker *worker, const struct step *step, struct holding *holding)
{
    (void)worker, (void)holding;
    CUmodule module;
    CUfunction function;
    CUresult result = cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, (16 + step->random % 64) * MIB);
    if (result != CUDA_SUCCESS)
        return result;
    result = cuModuleLoadData(&module, module_image(0, "heap "));
    if (result == CUDA_SUCCESS) {
        result = cuModuleGetFunction(&function, module, "work");
        if (result == CUDA_SUCCESS)
            result = cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
        cuModuleUnload(module);
    }
    if (result != CUDA_SUCCESS)
        cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 8 * MIB);
    return result;
}

const struct operation_calls code_calls[OPERATION_COUNT] = {
    [OP_MODULE] = {load_module, unload_module},
    [OP_LIBRARY] = {load_library, unload_library},
    [OP_LAUNCH] = {launch, NULL},
    [OP_GRAPH] = {make_graph, end_graph},
    [OP_GRAPH_LAUNCH] = {launch_graph, NULL},
    [OP_GRAPH_FREE] = {free_of_graph, NULL},
    [OP_GRAPH_TRIM] = {trim_graphs, NULL},
    [OP_STACK] = {set_stack, NULL},
    [OP_HEAP] = {use_heap, NULL},
};
