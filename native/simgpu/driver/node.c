#include "node.h"
#include "context.h"
#include "event.h"
#include "launch.h"
#include "module.h"
#include "perform.h"

#include <string.h>

static CUresult from_kernel(const CUDA_KERNEL_NODE_PARAMS_v3 *p, struct context *context, struct work *work)
{
    const unsigned grid[3] = {p->gridDimX, p->gridDimY, p->gridDimZ};
    const unsigned block[3] = {p->blockDimX, p->blockDimY, p->blockDimZ};
    CUfunction handle = p->func ? p->func : (CUfunction)p->kern;
    if (p->ctx) {
        context = context_of(p->ctx);
        if (!context)
            return CUDA_ERROR_INVALID_CONTEXT;
    }
    return kernel_prepare(context, handle, grid, block, p->sharedMemBytes, p->kernelParams, p->extra, work);
}

static CUresult from_memory_ops(const CUDA_BATCH_MEM_OP_NODE_PARAMS_v2 *p, struct work *work)
{
    if (p->count == 0 || p->count > 256 || !p->paramArray || p->flags)
        return CUDA_ERROR_INVALID_VALUE;
    size_t bytes = p->count * sizeof *p->paramArray;
    work->memory_ops.count = p->count;
    work->memory_ops.list = malloc(bytes);
    if (!work->memory_ops.list)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(work->memory_ops.list, p->paramArray, bytes);
    return CUDA_SUCCESS;
}

static CUresult from_child(const CUDA_CHILD_GRAPH_NODE_PARAMS *p, struct work *work)
{
    struct graph *child = graph_of(p->graph);
    if (!child)
        return CUDA_ERROR_INVALID_VALUE;
    work->child = graph_clone(child);
    if (!work->child)
        return CUDA_ERROR_OUT_OF_MEMORY;
    work->child->is_child = true;
    return CUDA_SUCCESS;
}

static CUresult from_alloc(CUDA_MEM_ALLOC_NODE_PARAMS_v2 *p, struct work *work)
{
    work->allocate = (CUDA_MEM_ALLOC_NODE_PARAMS_v1){.poolProps = p->poolProps, .bytesize = p->bytesize};
    CUresult result = graph_memory_reserve(&work->allocate);
    if (result == CUDA_SUCCESS)
        p->dptr = work->allocate.dptr;
    return result;
}

CUresult work_from_parameters(CUgraphNodeParams *p, struct context *context, struct work *work)
{
    *work = (struct work){.type = p->type, .context = context};
    switch (p->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return from_kernel(&p->kernel, context, work);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        work->copy = p->memcpy.copyParams;
        return copy_check(&work->copy);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        work->set = (CUDA_MEMSET_NODE_PARAMS_v1){p->memset.dst,         p->memset.pitch, p->memset.value,
                                                 p->memset.elementSize, p->memset.width, p->memset.height};
        return set_check(&work->set);
    case CU_GRAPH_NODE_TYPE_HOST:
        work->host = (struct host_work){.call = p->host.fn, .argument = p->host.userData};
        return p->host.fn ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_GRAPH_NODE_TYPE_GRAPH:
        return from_child(&p->graph, work);
    case CU_GRAPH_NODE_TYPE_EMPTY:
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        work->event = event_of(p->eventWait.event);
        return work->event ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        work->event = event_of(p->eventRecord.event);
        return work->event ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        return from_alloc(&p->alloc, work);
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        work->release.pointer = p->free.dptr;
        return p->free.dptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        return from_memory_ops(&p->memOp, work);
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

static CUDA_KERNEL_NODE_PARAMS_v3 kernel_parameters(const struct work *work)
{
    const struct kernel_work *k = &work->kernel;
    return (CUDA_KERNEL_NODE_PARAMS_v3){
        .func = k->kernel ? NULL : (CUfunction)k->function,
        .kern = k->kernel,
        .gridDimX = k->grid[0],
        .gridDimY = k->grid[1],
        .gridDimZ = k->grid[2],
        .blockDimX = k->block[0],
        .blockDimY = k->block[1],
        .blockDimZ = k->block[2],
        .sharedMemBytes = k->shared,
        .kernelParams = k->parameters,
        .ctx = (CUcontext)work->context,
    };
}

CUresult parameters_from_work(const struct work *work, CUgraphNodeParams *p)
{
    memset(p, 0, sizeof *p);
    p->type = work->type;
    switch (work->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        p->kernel = kernel_parameters(work);
        break;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        p->memcpy.copyParams = work->copy;
        p->memcpy.copyCtx = (CUcontext)work->context;
        break;
    case CU_GRAPH_NODE_TYPE_MEMSET:
        p->memset = (CUDA_MEMSET_NODE_PARAMS_v2){work->set.dst,           work->set.pitch, work->set.value,
                                                 work->set.elementSize,   work->set.width, work->set.height,
                                                 (CUcontext)work->context};
        break;
    case CU_GRAPH_NODE_TYPE_HOST:
        p->host.fn = work->host.call;
        p->host.userData = work->host.argument;
        break;
    case CU_GRAPH_NODE_TYPE_GRAPH:
        p->graph.graph = (CUgraph)work->child;
        break;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        p->eventWait.event = (CUevent)work->event;
        break;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        p->eventRecord.event = (CUevent)work->event;
        break;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        p->alloc.poolProps = work->allocate.poolProps;
        p->alloc.bytesize = work->allocate.bytesize;
        p->alloc.dptr = work->allocate.dptr;
        break;
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        p->free.dptr = work->release.pointer;
        break;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        p->memOp.ctx = (CUcontext)work->context;
        p->memOp.count = work->memory_ops.count;
        p->memOp.paramArray = work->memory_ops.list;
        break;
    default:
        break;
    }
    return CUDA_SUCCESS;
}

CUresult node_set(struct node *node, CUgraphNodeParams *parameters, struct context *context)
{
    if (node->work.type != parameters->type || parameters->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ||
        parameters->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
        return CUDA_ERROR_INVALID_VALUE;
    struct work work;
    CUresult result = work_from_parameters(parameters, node->work.context ? node->work.context : context, &work);
    if (result != CUDA_SUCCESS)
        return result;
    work_drop(&node->work);
    node->work = work;
    return CUDA_SUCCESS;
}
