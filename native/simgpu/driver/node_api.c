// Nodes by the general structure, and kernel nodes.  The other kinds are in node_kinds.c.
#include "node.h"
#include "context.h"
#include "event.h"
#include "exec.h"

#include <string.h>

CUresult cuGraphAddNode_v3(CUgraphNode *out, CUgraph handle, const CUgraphNode *dependencies,
                           const CUgraphEdgeData *edges, size_t count, CUgraphNodeParams *parameters)
{
    (void)edges;
    struct context *context;
    CUresult result = enter(&context);
    if (result != CUDA_SUCCESS)
        return result;
    struct graph *graph = graph_of(handle);
    if (!out || !graph || !parameters || (count && !dependencies))
        return leave(CUDA_ERROR_INVALID_VALUE);
    struct work work;
    result = work_from_parameters(parameters, context, &work);
    if (result == CUDA_SUCCESS)
        result = graph_add(graph, (struct node *const *)dependencies, count, &work, (struct node **)out);
    return leave(result);
}

CUresult cuGraphAddNode_v2(CUgraphNode *out, CUgraph graph, const CUgraphNode *dependencies,
                           const CUgraphEdgeData *edges, size_t count, CUgraphNodeParams *parameters)
{
    return cuGraphAddNode_v3(out, graph, dependencies, edges, count, parameters);
}

CUresult cuGraphAddNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                        CUgraphNodeParams *parameters)
{
    return cuGraphAddNode_v3(out, graph, dependencies, NULL, count, parameters);
}

CUresult node_api_set(CUgraphNode handle, CUgraphNodeParams *parameters)
{
    struct context *context;
    CUresult result = enter(&context);
    if (result != CUDA_SUCCESS)
        return result;
    struct node *node = node_of(handle);
    if (!node || !parameters)
        return leave(CUDA_ERROR_INVALID_VALUE);
    return leave(node_set(node, parameters, context));
}

CUresult node_api_set_exec(CUgraphExec exec, CUgraphNode handle, CUgraphNodeParams *parameters)
{
    struct context *context;
    CUresult result = enter(&context);
    if (result != CUDA_SUCCESS)
        return result;
    struct node *node = exec_node(exec, handle);
    if (!node || !parameters)
        return leave(CUDA_ERROR_INVALID_VALUE);
    return leave(node_set(node, parameters, context));
}

CUresult node_api_get(CUgraphNode handle, CUgraphNodeType type, CUgraphNodeParams *parameters)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    const struct node *node = node_of(handle);
    if (!node || node->work.type != type)
        return leave(CUDA_ERROR_INVALID_VALUE);
    return leave(parameters_from_work(&node->work, parameters));
}

CUresult cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams *parameters)
{
    return node_api_set(node, parameters);
}

CUresult cuGraphNodeSetParams_v2(CUgraphNode node, CUgraphNodeParams *parameters)
{
    return node_api_set(node, parameters);
}

CUresult cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *parameters)
{
    return node_api_set_exec(exec, node, parameters);
}

CUresult cuGraphNodeGetParams(CUgraphNode handle, CUgraphNodeParams *parameters)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    const struct node *node = node_of(handle);
    if (!node || !parameters)
        return leave(CUDA_ERROR_INVALID_VALUE);
    return leave(parameters_from_work(&node->work, parameters));
}

CUresult cuGraphNodeGetType(CUgraphNode handle, CUgraphNodeType *type)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    const struct node *node = node_of(handle);
    if (!node || !type)
        return leave(CUDA_ERROR_INVALID_VALUE);
    *type = node->work.type;
    return leave(CUDA_SUCCESS);
}

// Kernel nodes.  Version 1 of the structure ends before `kern`.

static CUgraphNodeParams of_kernel(const CUDA_KERNEL_NODE_PARAMS_v1 *p)
{
    CUgraphNodeParams all;
    memset(&all, 0, sizeof all);
    all.type = CU_GRAPH_NODE_TYPE_KERNEL;
    memcpy(&all.kernel, p, sizeof *p);
    return all;
}

static CUgraphNodeParams of_kernel_v2(const CUDA_KERNEL_NODE_PARAMS_v2 *p)
{
    CUgraphNodeParams all;
    memset(&all, 0, sizeof all);
    all.type = CU_GRAPH_NODE_TYPE_KERNEL;
    memcpy(&all.kernel, p, sizeof *p);
    return all;
}

CUresult cuGraphAddKernelNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                              const CUDA_KERNEL_NODE_PARAMS_v1 *p)
{
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams all = of_kernel(p);
    return cuGraphAddNode(out, graph, dependencies, count, &all);
}

CUresult cuGraphAddKernelNode_v2(CUgraphNode *out, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                                 const CUDA_KERNEL_NODE_PARAMS_v2 *p)
{
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams all = of_kernel_v2(p);
    return cuGraphAddNode(out, graph, dependencies, count, &all);
}

CUresult cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1 *p)
{
    CUgraphNodeParams all;
    CUresult result = p ? node_api_get(node, CU_GRAPH_NODE_TYPE_KERNEL, &all) : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        memcpy(p, &all.kernel, sizeof *p);
    return result;
}

CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v2 *p)
{
    CUgraphNodeParams all;
    CUresult result = p ? node_api_get(node, CU_GRAPH_NODE_TYPE_KERNEL, &all) : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        memcpy(p, &all.kernel, sizeof *p);
    return result;
}

CUresult cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *p)
{
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams all = of_kernel(p);
    return node_api_set(node, &all);
}

CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2 *p)
{
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams all = of_kernel_v2(p);
    return node_api_set(node, &all);
}

CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *p)
{
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams all = of_kernel(p);
    return node_api_set_exec(exec, node, &all);
}

CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2 *p)
{
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNodeParams all = of_kernel_v2(p);
    return node_api_set_exec(exec, node, &all);
}
