// cuGraphAdd*Node, and getting and setting the parameters of each kind: thin shapes around CUgraphNodeParams.
#include "node.h"

// Copies.

static CUgraphNodeParams of_copy(const CUDA_MEMCPY3D *p)
{
    return (CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_MEMCPY, .memcpy = {.copyParams = *p}};
}

CUresult cuGraphAddMemcpyNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                              const CUDA_MEMCPY3D *p, CUcontext context)
{
    (void)context;
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams all = of_copy(p);
    return cuGraphAddNode(out, graph, dependencies, count, &all);
}

CUresult cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D *p)
{
    CUgraphNodeParams all;
    CUresult result = p ? node_api_get(node, CU_GRAPH_NODE_TYPE_MEMCPY, &all) : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *p = all.memcpy.copyParams;
    return result;
}

CUresult cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D *p)
{
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams all = of_copy(p);
    return node_api_set(node, &all);
}

CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *p, CUcontext context)
{
    (void)context;
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams all = of_copy(p);
    return node_api_set_exec(exec, node, &all);
}

// Fills.

static CUgraphNodeParams of_set(const CUDA_MEMSET_NODE_PARAMS_v1 *p)
{
    return (CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_MEMSET,
                               .memset = {p->dst, p->pitch, p->value, p->elementSize, p->width, p->height, NULL}};
}

CUresult cuGraphAddMemsetNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                              const CUDA_MEMSET_NODE_PARAMS_v1 *p, CUcontext context)
{
    (void)context;
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams all = of_set(p);
    return cuGraphAddNode(out, graph, dependencies, count, &all);
}

CUresult cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS_v1 *p)
{
    CUgraphNodeParams all;
    CUresult result = p ? node_api_get(node, CU_GRAPH_NODE_TYPE_MEMSET, &all) : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *p = (CUDA_MEMSET_NODE_PARAMS_v1){all.memset.dst,         all.memset.pitch, all.memset.value,
                                          all.memset.elementSize, all.memset.width, all.memset.height};
    return result;
}

CUresult cuGraphMemsetNodeSetParams(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS_v1 *p)
{
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams all = of_set(p);
    return node_api_set(node, &all);
}

CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS_v1 *p,
                                        CUcontext context)
{
    (void)context;
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams all = of_set(p);
    return node_api_set_exec(exec, node, &all);
}

// Host functions.

static CUgraphNodeParams of_host(const CUDA_HOST_NODE_PARAMS_v1 *p)
{
    return (CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_HOST, .host = {.fn = p->fn, .userData = p->userData}};
}

CUresult cuGraphAddHostNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                            const CUDA_HOST_NODE_PARAMS_v1 *p)
{
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams all = of_host(p);
    return cuGraphAddNode(out, graph, dependencies, count, &all);
}

CUresult cuGraphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS_v1 *p)
{
    CUgraphNodeParams all;
    CUresult result = p ? node_api_get(node, CU_GRAPH_NODE_TYPE_HOST, &all) : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *p = (CUDA_HOST_NODE_PARAMS_v1){all.host.fn, all.host.userData};
    return result;
}

CUresult cuGraphHostNodeSetParams(CUgraphNode node, const CUDA_HOST_NODE_PARAMS_v1 *p)
{
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams all = of_host(p);
    return node_api_set(node, &all);
}

CUresult cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_HOST_NODE_PARAMS_v1 *p)
{
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams all = of_host(p);
    return node_api_set_exec(exec, node, &all);
}

// Child graphs and empty nodes.

CUresult cuGraphAddChildGraphNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                                  CUgraph child)
{
    CUgraphNodeParams all = {.type = CU_GRAPH_NODE_TYPE_GRAPH, .graph = {.graph = child}};
    return cuGraphAddNode(out, graph, dependencies, count, &all);
}

CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *out)
{
    CUgraphNodeParams all;
    CUresult result = out ? node_api_get(node, CU_GRAPH_NODE_TYPE_GRAPH, &all) : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *out = all.graph.graph;
    return result;
}

CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraph child)
{
    CUgraphNodeParams all = {.type = CU_GRAPH_NODE_TYPE_GRAPH, .graph = {.graph = child}};
    return node_api_set_exec(exec, node, &all);
}

CUresult cuGraphAddEmptyNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *dependencies, size_t count)
{
    CUgraphNodeParams all = {.type = CU_GRAPH_NODE_TYPE_EMPTY};
    return cuGraphAddNode(out, graph, dependencies, count, &all);
}

// Events.

CUresult cuGraphAddEventRecordNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                                   CUevent event)
{
    CUgraphNodeParams all = {.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD, .eventRecord = {.event = event}};
    return cuGraphAddNode(out, graph, dependencies, count, &all);
}

CUresult cuGraphAddEventWaitNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                                 CUevent event)
{
    CUgraphNodeParams all = {.type = CU_GRAPH_NODE_TYPE_WAIT_EVENT, .eventWait = {.event = event}};
    return cuGraphAddNode(out, graph, dependencies, count, &all);
}

CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode node, CUevent *out)
{
    CUgraphNodeParams all;
    CUresult result = out ? node_api_get(node, CU_GRAPH_NODE_TYPE_EVENT_RECORD, &all) : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *out = all.eventRecord.event;
    return result;
}

CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode node, CUevent *out)
{
    CUgraphNodeParams all;
    CUresult result = out ? node_api_get(node, CU_GRAPH_NODE_TYPE_WAIT_EVENT, &all) : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *out = all.eventWait.event;
    return result;
}

CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode node, CUevent event)
{
    CUgraphNodeParams all = {.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD, .eventRecord = {.event = event}};
    return node_api_set(node, &all);
}

CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode node, CUevent event)
{
    CUgraphNodeParams all = {.type = CU_GRAPH_NODE_TYPE_WAIT_EVENT, .eventWait = {.event = event}};
    return node_api_set(node, &all);
}

CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event)
{
    CUgraphNodeParams all = {.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD, .eventRecord = {.event = event}};
    return node_api_set_exec(exec, node, &all);
}

CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event)
{
    CUgraphNodeParams all = {.type = CU_GRAPH_NODE_TYPE_WAIT_EVENT, .eventWait = {.event = event}};
    return node_api_set_exec(exec, node, &all);
}

// Memory.

CUresult cuGraphAddMemAllocNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                                CUDA_MEM_ALLOC_NODE_PARAMS_v1 *p)
{
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams all = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC,
                             .alloc = {.poolProps = p->poolProps, .bytesize = p->bytesize}};
    CUresult result = cuGraphAddNode(out, graph, dependencies, count, &all);
    if (result == CUDA_SUCCESS)
        p->dptr = all.alloc.dptr;
    return result;
}

CUresult cuGraphMemAllocNodeGetParams(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS_v1 *p)
{
    CUgraphNodeParams all;
    CUresult result = p ? node_api_get(node, CU_GRAPH_NODE_TYPE_MEM_ALLOC, &all) : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *p = (CUDA_MEM_ALLOC_NODE_PARAMS_v1){
            .poolProps = all.alloc.poolProps, .bytesize = all.alloc.bytesize, .dptr = all.alloc.dptr};
    return result;
}

CUresult cuGraphAddMemFreeNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                               CUdeviceptr pointer)
{
    CUgraphNodeParams all = {.type = CU_GRAPH_NODE_TYPE_MEM_FREE, .free = {.dptr = pointer}};
    return cuGraphAddNode(out, graph, dependencies, count, &all);
}

CUresult cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr *out)
{
    CUgraphNodeParams all;
    CUresult result = out ? node_api_get(node, CU_GRAPH_NODE_TYPE_MEM_FREE, &all) : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *out = all.free.dptr;
    return result;
}

CUresult cuGraphAddBatchMemOpNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                                  const CUDA_BATCH_MEM_OP_NODE_PARAMS_v1 *p)
{
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams all = {.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
                             .memOp = {p->ctx, p->count, p->paramArray, p->flags}};
    return cuGraphAddNode(out, graph, dependencies, count, &all);
}
