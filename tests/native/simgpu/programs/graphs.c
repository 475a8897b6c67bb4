#include "check.h"

static CUDA_KERNEL_NODE_PARAMS_v2 kernel(CUfunction function, void **parameters)
{
    return (CUDA_KERNEL_NODE_PARAMS_v2){.func = function,
                                        .gridDimX = 1,
                                        .gridDimY = 1,
                                        .gridDimZ = 1,
                                        .blockDimX = 1,
                                        .blockDimY = 1,
                                        .blockDimZ = 1,
                                        .kernelParams = parameters};
}

static CUgraphNode add_spin(CUgraph graph, CUgraphNode *after, CUfunction function, uint64_t ns)
{
    void *parameters[] = {&ns};
    CUDA_KERNEL_NODE_PARAMS_v2 p = kernel(function, parameters);
    CUgraphNode node;
    OK(cuGraphAddKernelNode_v2(&node, graph, after, after ? 1 : 0, &p));
    return node;
}

static CUgraphExec make(CUgraph graph)
{
    CUgraphExec exec;
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    return exec;
}

static void launch(CUgraphExec exec)
{
    OK(cuGraphLaunch(exec, CU_STREAM_PER_THREAD));
    OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
}

static int order, seen[4];

static void CUDA_CB note(void *slot)
{
    seen[(intptr_t)slot] = ++order;
}

static CUgraphNode add_note(CUgraph graph, const CUgraphNode *after, size_t count, intptr_t slot)
{
    const CUDA_HOST_NODE_PARAMS_v1 p = {note, (void *)slot};
    CUgraphNode node;
    OK(cuGraphAddHostNode(&node, graph, after, count, &p));
    return node;
}

CASE(nodes_run_after_their_predecessors)
{
    start();
    CUgraph graph;
    OK(cuGraphCreate(&graph, 0));
    // made in the opposite order of their running
    CUgraphNode last = add_note(graph, NULL, 0, 2), middle = add_note(graph, NULL, 0, 1);
    CUgraphNode first = add_note(graph, NULL, 0, 0);
    OK(cuGraphAddDependencies(graph, &middle, &last, 1));
    OK(cuGraphAddDependencies(graph, &first, &middle, 1));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuGraphAddDependencies(graph, &first, &middle, 1));
    launch(make(graph));
    GIVES(1, seen[0]);
    GIVES(2, seen[1]);
    GIVES(3, seen[2]);
}

CASE(a_cycle_is_refused)
{
    start();
    CUgraph graph;
    CUgraphExec exec;
    OK(cuGraphCreate(&graph, 0));
    CUgraphNode a = add_note(graph, NULL, 0, 0), b = add_note(graph, &a, 1, 1);
    OK(cuGraphAddDependencies(graph, &b, &a, 1));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cuGraphRemoveDependencies(graph, &b, &a, 1));
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
}

CASE(edges_and_roots_can_be_read)
{
    start();
    CUgraph graph;
    CUgraphNode nodes[4], from[4], to[4];
    size_t count = 4;
    OK(cuGraphCreate(&graph, 0));
    CUgraphNode a = add_note(graph, NULL, 0, 0), b = add_note(graph, &a, 1, 1), c = add_note(graph, &a, 1, 2);
    OK(cuGraphGetNodes(graph, nodes, &count));
    GIVES(3, count);
    TRUE(nodes[0] == a && nodes[2] == c && nodes[3] == NULL);
    OK(cuGraphGetRootNodes(graph, nodes, &count));
    GIVES(1, count);
    count = 4;
    OK(cuGraphGetEdges_v2(graph, from, to, NULL, &count));
    GIVES(2, count);
    TRUE(from[0] == a && to[0] == b && to[1] == c);
    OK(cuGraphNodeGetDependentNodes(a, NULL, &count));
    GIVES(2, count);
    OK(cuGraphNodeGetDependencies(b, nodes, &count));
    TRUE(nodes[0] == a);
    OK(cuGraphDestroyNode(a));
    OK(cuGraphGetRootNodes(graph, NULL, &count));
    GIVES(2, count);
    GIVES(CUDA_ERROR_INVALID_VALUE, cuGraphDestroyNode(a));
    OK(cuGraphDestroy(graph));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuGraphDestroy(graph));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuGraphDestroyNode(b));
}

CASE(copies_and_fills)
{
    start();
    CUgraph graph;
    CUgraphNode set, copy;
    CUdeviceptr pointer;
    unsigned out[4] = {0};
    OK(cuMemAlloc_v2(&pointer, 16));
    OK(cuGraphCreate(&graph, 0));
    CUDA_MEMSET_NODE_PARAMS_v1 fill = {.dst = pointer, .value = 5, .elementSize = 4, .width = 4, .height = 1};
    CUDA_MEMCPY3D move = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = pointer,
                          .dstMemoryType = CU_MEMORYTYPE_HOST,
                          .dstHost = out,
                          .WidthInBytes = 16,
                          .Height = 1,
                          .Depth = 1};
    OK(cuGraphAddMemsetNode(&set, graph, NULL, 0, &fill, NULL));
    OK(cuGraphAddMemcpyNode(&copy, graph, &set, 1, &move, NULL));
    CUgraphExec exec = make(graph);
    launch(exec);
    GIVES(5, out[3]);
    fill.value = 6;
    OK(cuGraphExecMemsetNodeSetParams(exec, set, &fill, NULL));
    launch(exec);
    GIVES(6, out[3]);
    OK(cuGraphMemsetNodeGetParams(set, &fill));
    GIVES(5, fill.value);
    CUDA_MEMCPY3D read;
    OK(cuGraphMemcpyNodeGetParams(copy, &read));
    TRUE(read.dstHost == out);
    move.WidthInBytes = 17;
    GIVES(CUDA_ERROR_INVALID_VALUE, cuGraphMemcpyNodeSetParams(copy, &move));
}

CASE(kernel_nodes_keep_and_change_their_parameters)
{
    start();
    CUgraph graph;
    CUfunction function = spinner();
    OK(cuGraphCreate(&graph, 0));
    CUgraphNode node = add_spin(graph, NULL, function, 1000);
    CUgraphExec exec = make(graph);
    launch(exec);
    GIVES(1000, hamisim_busy_for(0, 0));
    uint64_t ns = 5000;
    void *parameters[] = {&ns};
    CUDA_KERNEL_NODE_PARAMS_v2 p = kernel(function, parameters), read;
    OK(cuGraphExecKernelNodeSetParams_v2(exec, node, &p));
    launch(exec);
    GIVES(6000, hamisim_busy_for(0, 0));
    OK(cuGraphKernelNodeGetParams_v2(node, &read));
    GIVES(1000, *(uint64_t *)read.kernelParams[0]);
    OK(cuGraphKernelNodeSetParams_v2(node, &p));
    CUgraphExecUpdateResultInfo info;
    OK(cuGraphExecUpdate_v2(exec, graph, &info));
    launch(exec);
    GIVES(11000, hamisim_busy_for(0, 0));
    OK(cuGraphNodeSetEnabled(exec, node, 0));
    launch(exec);
    GIVES(11000, hamisim_busy_for(0, 0));
    unsigned enabled;
    OK(cuGraphNodeGetEnabled(exec, node, &enabled));
    GIVES(0, enabled);
}

CASE(an_update_of_another_shape_fails)
{
    start();
    CUgraph graph, other;
    CUfunction function = spinner();
    CUgraphExecUpdateResultInfo info;
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphCreate(&other, 0));
    add_spin(graph, NULL, function, 1);
    CUgraphExec exec = make(graph);
    GIVES(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, cuGraphExecUpdate_v2(exec, other, &info));
    GIVES(CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, info.result);
    add_note(other, NULL, 0, 0);
    GIVES(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, cuGraphExecUpdate_v2(exec, other, &info));
    GIVES(CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, info.result);
}

CASE(clones_and_children)
{
    start();
    CUgraph inner, outer, clone;
    CUfunction function = spinner();
    CUgraphNode child, found, first;
    OK(cuGraphCreate(&inner, 0));
    OK(cuGraphCreate(&outer, 0));
    first = add_spin(inner, NULL, function, 1000);
    add_spin(inner, &first, function, 1000);
    OK(cuGraphAddChildGraphNode(&child, outer, NULL, 0, inner));
    add_spin(outer, &child, function, 1000);
    OK(cuGraphClone(&clone, outer));
    OK(cuGraphNodeFindInClone(&found, child, clone));
    OK(cuGraphDestroy(inner));
    OK(cuGraphDestroy(outer));
    launch(make(clone));
    GIVES(3000, hamisim_busy_for(0, 0));
    OK(cuGraphChildGraphNodeGetGraph(found, &inner));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuGraphDestroy(inner)); // the node's
}

CASE(events_in_a_graph)
{
    start();
    CUgraph graph;
    CUevent event;
    CUgraphNode record, wait;
    OK(cuEventCreate(&event, 0));
    OK(cuGraphCreate(&graph, 0));
    CUgraphNode before = add_spin(graph, NULL, spinner(), 1000);
    OK(cuGraphAddEventRecordNode(&record, graph, &before, 1, event));
    OK(cuGraphAddEventWaitNode(&wait, graph, &record, 1, event));
    add_note(graph, &wait, 1, 0);
    CUgraphExec exec = make(graph);
    launch(exec);
    GIVES(1, seen[0]);
    OK(cuEventQuery(event));
    OK(cuEventDestroy_v2(event));
    GIVES(CUDA_ERROR_INVALID_HANDLE, cuGraphLaunch(exec, NULL));
}

static uint64_t attribute(CUgraphMem_attribute which)
{
    cuuint64_t value;
    OK(cuDeviceGetGraphMemAttribute(0, which, &value));
    return value / MIB;
}

static CUgraphNode add_alloc(CUgraph graph, size_t bytes, CUdeviceptr *pointer)
{
    CUDA_MEM_ALLOC_NODE_PARAMS_v1 p = {.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                                     .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}},
                                       .bytesize = bytes};
    CUgraphNode node;
    OK(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &p));
    *pointer = p.dptr;
    return node;
}

CASE(a_graphs_memory_is_charged_at_its_launch)
{
    start();
    CUgraph graph;
    CUdeviceptr pointer;
    OK(cuGraphCreate(&graph, 0));
    add_alloc(graph, 256 * MIB, &pointer);
    GIVES(104, held());
    CUgraphExec exec = make(graph);
    GIVES(104, held());
    launch(exec);
    GIVES(104 + 256, held());
    GIVES(256, attribute(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT));
    GIVES(256, attribute(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT));
    OK(cuMemsetD8_v2(pointer, 1, 256 * MIB));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuGraphLaunch(exec, NULL)); // it's still there
    OK(cuMemFreeAsync(pointer, NULL));
    OK(cuCtxSynchronize());
    GIVES(0, attribute(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT));
    GIVES(104 + 256, held()); // kept for the next launch
    launch(exec);
    GIVES(104 + 256, held());
    OK(cuMemFree_v2(pointer));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(pointer));
    OK(cuGraphExecDestroy(exec));
    GIVES(104 + 256, held());
    OK(cuDeviceGraphMemTrim(0));
    GIVES(104, held());
    GIVES(256, attribute(CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH));
}

CASE(graphs_share_their_memory)
{
    start();
    CUgraph a, b;
    CUdeviceptr first, second;
    CUgraphNode node;
    OK(cuGraphCreate(&a, 0));
    OK(cuGraphCreate(&b, 0));
    CUgraphNode alloc = add_alloc(a, 256 * MIB, &first);
    OK(cuGraphAddMemFreeNode(&node, a, &alloc, 1, first));
    alloc = add_alloc(b, 300 * MIB, &second);
    OK(cuGraphAddMemFreeNode(&node, b, &alloc, 1, second));
    CUgraphExec exec_a = make(a), exec_b = make(b);
    launch(exec_a);
    launch(exec_a);
    GIVES(104 + 256, held());
    launch(exec_b);
    GIVES(104 + 300, held());
}

CASE(memory_can_free_itself_at_the_next_launch)
{
    start();
    CUgraph graph;
    CUgraphExec exec;
    CUdeviceptr pointer;
    OK(cuGraphCreate(&graph, 0));
    add_alloc(graph, 64 * MIB, &pointer);
    OK(cuGraphInstantiateWithFlags(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
    launch(exec);
    launch(exec);
    GIVES(104 + 64, held());
}

CASE(a_full_card_refuses_a_launch)
{
    start();
    CUgraph graph;
    CUdeviceptr pointer, most;
    OK(cuMemAlloc_v2(&most, 15100 * MIB));
    OK(cuGraphCreate(&graph, 0));
    add_alloc(graph, 256 * MIB, &pointer);
    CUgraphExec exec = make(graph);
    GIVES(CUDA_ERROR_OUT_OF_MEMORY, cuGraphLaunch(exec, NULL));
    GIVES(104 + 15100, held());
    OK(cuMemFree_v2(most));
    launch(exec);
    GIVES(104 + 256, held());
}

CASE(nodes_by_the_general_structure)
{
    start();
    CUgraph graph;
    CUgraphNode node;
    CUgraphNodeType type;
    static uint32_t page[1024];
    OK(cuMemHostRegister_v2(page, sizeof page, 0));
    OK(cuGraphCreate(&graph, 0));
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_HOST, .host = {.fn = note, .userData = (void *)1}};
    OK(cuGraphAddNode(&node, graph, NULL, 0, &p));
    OK(cuGraphAddNode_v2(&node, graph, &node, NULL, 1, &p));
    CUstreamBatchMemOpParams operations[2];
    memset(operations, 0, sizeof operations);
    for (int i = 0; i < 2; i++) {
        operations[i].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
        operations[i].writeValue.address = (CUdeviceptr)&page[i];
        operations[i].writeValue.value = 4;
    }
    CUgraphNodeParams batch = {.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
                               .memOp = {.count = 2, .paramArray = operations}};
    OK(cuGraphAddNode_v3(&node, graph, &node, NULL, 1, &batch));
    OK(cuGraphNodeGetType(node, &type));
    GIVES(CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, type);
    launch(make(graph));
    GIVES(2, order);
    GIVES(4, page[1]);
    CUgraphNodeParams none = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};
    GIVES(CUDA_ERROR_NOT_SUPPORTED, cuGraphAddNode(&node, graph, NULL, 0, &none));
}

CASE(a_long_chain)
{
    start();
    CUgraph graph;
    CUfunction function = spinner();
    OK(cuGraphCreate(&graph, 0));
    CUgraphNode node = add_spin(graph, NULL, function, 100);
    for (int i = 1; i < 3000; i++)
        node = add_spin(graph, &node, function, 100);
    CUgraphExec exec = make(graph);
    launch(exec);
    launch(exec);
    GIVES(600000, hamisim_busy_for(0, 0));
}
