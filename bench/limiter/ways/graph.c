// Graphs that allocate: the memory is taken at the launch and stays with the device's graph pool.
#include "way.h"

#define NODE        (256 * MIB)
#define MOST_GRAPHS 64

static CUstream stream;

static void open_stream(void)
{
    open_card();
    need("cuStreamCreate", cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
}

// What is granted is known at the launch.
static bool launched(CUgraph graph, uint64_t bytes)
{
    CUgraphExec executable;
    CUresult result = cuGraphInstantiateWithFlags(&executable, graph, 0);
    if (!granted("cuGraphInstantiateWithFlags", result, 0))
        return false;
    result = cuGraphLaunch(executable, stream);
    if (!granted("cuGraphLaunch", result, 0))
        return false;
    return granted("cuStreamSynchronize", cuStreamSynchronize(stream), bytes);
}

static void graph_node(void)
{
    open_stream();
    bool more = true;
    while (more && wanting()) {
        CUgraph graph;
        CUgraphNode node;
        CUDA_MEM_ALLOC_NODE_PARAMS params = {
            .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                          .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}},
            .bytesize = NODE,
        };
        need("cuGraphCreate", cuGraphCreate(&graph, 0));
        if (!granted("cuGraphAddMemAllocNode", cuGraphAddMemAllocNode(&node, graph, NULL, 0, &params), 0))
            return;
        more = launched(graph, NODE);
    }
}

struct graph_with_memory {
    CUgraphExec executable;
    CUdeviceptr pointer;
};

static bool make_graph(struct graph_with_memory *made)
{
    CUgraph graph;
    CUgraphNode node;
    CUDA_MEM_ALLOC_NODE_PARAMS params = {
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}},
        .bytesize = NODE,
    };
    need("cuGraphCreate", cuGraphCreate(&graph, 0));
    need("cuGraphAddMemAllocNode", cuGraphAddMemAllocNode(&node, graph, NULL, 0, &params));
    made->pointer = params.dptr;
    return granted("cuGraphInstantiateWithFlags", cuGraphInstantiateWithFlags(&made->executable, graph, 0), 0);
}

// Each has run before, in memory that the others used too, and now they want it at once.
static void graph_again(void)
{
    struct graph_with_memory graphs[MOST_GRAPHS];
    int count = (int)(goal / NODE) < MOST_GRAPHS ? (int)(goal / NODE) : MOST_GRAPHS;
    open_stream();
    for (int i = 0; i < count; i++) {
        if (!make_graph(&graphs[i]))
            return;
        need("cuGraphLaunch", cuGraphLaunch(graphs[i].executable, stream));
        need("cuMemFreeAsync", cuMemFreeAsync(graphs[i].pointer, stream));
        need("cuStreamSynchronize", cuStreamSynchronize(stream));
    }
    for (int i = 0; i < count; i++)
        if (!granted("cuGraphLaunch", cuGraphLaunch(graphs[i].executable, stream), 0) ||
            !granted("cuStreamSynchronize", cuStreamSynchronize(stream), NODE))
            return;
}

static void graph_capture(void)
{
    open_stream();
    bool more = true;
    while (more && wanting()) {
        CUgraph graph;
        CUdeviceptr pointer;
        need("cuStreamBeginCapture", cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
        CUresult result = cuMemAllocAsync(&pointer, NODE, stream);
        need("cuStreamEndCapture", cuStreamEndCapture(stream, &graph));
        more = granted("cuMemAllocAsync", result, 0) && launched(graph, NODE);
    }
}

const struct way graph_ways[] = {
    {"graph_node", graph_node},
    {"graph_again", graph_again},
    {"graph_capture", graph_capture},
    {0},
};
