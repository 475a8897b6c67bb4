// Executable graphs: instantiation, update and launch.
#include "exec.h"
#include "capture.h"
#include "event.h"
#include "module.h"
#include "stream.h"

#include <string.h>

struct exec {
    struct graph *graph; // its own copy
    cuuint64_t flags;
    unsigned id;
    struct op *last; // launches of the same executable graph don't overlap
};

static unsigned next_id = 1;

static struct exec *exec_of(CUgraphExec handle)
{
    return handle_is(handle, HANDLE_EXEC) ? (struct exec *)handle : NULL;
}

struct node *exec_node(CUgraphExec handle, CUgraphNode original)
{
    struct exec *exec = exec_of(handle);
    return exec && original ? graph_find_clone(exec->graph, (struct node *)original) : NULL;
}

#define KNOWN_FLAGS                                                                                                    \
    (CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |                            \
     CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY)

static CUresult instantiate(CUgraphExec *out, CUgraph handle, cuuint64_t flags)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    struct graph *graph = graph_of(handle);
    struct node **sorted;
    if (!out || !graph)
        return leave(CUDA_ERROR_INVALID_VALUE);
    if (flags & ~(cuuint64_t)KNOWN_FLAGS)
        return leave(CUDA_ERROR_NOT_SUPPORTED); // launch from the device
    if (!graph_sort(graph, &sorted))
        return leave(CUDA_ERROR_INVALID_VALUE);
    free(sorted);
    struct exec *exec = calloc(1, sizeof *exec);
    struct graph *copy = exec ? graph_clone(graph) : NULL;
    if (!copy) {
        free(exec);
        return leave(CUDA_ERROR_OUT_OF_MEMORY);
    }
    *exec = (struct exec){.graph = copy, .flags = flags, .id = next_id++};
    handle_add(exec, HANDLE_EXEC);
    *out = (CUgraphExec)exec;
    return leave(CUDA_SUCCESS);
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph graph, unsigned long long flags)
{
    return instantiate(out, graph, flags);
}

CUresult cuGraphInstantiateWithParams(CUgraphExec *out, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *parameters)
{
    if (!parameters)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = instantiate(out, graph, parameters->flags);
    parameters->hErrNode_out = NULL;
    parameters->result_out = result == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
    return result;
}

CUresult cuGraphInstantiate_v2(CUgraphExec *out, CUgraph graph, CUgraphNode *error_node, char *log, size_t size)
{
    if (error_node)
        *error_node = NULL;
    if (log && size)
        log[0] = '\0';
    return instantiate(out, graph, 0);
}

CUresult cuGraphInstantiate(CUgraphExec *out, CUgraph graph, CUgraphNode *error_node, char *log, size_t size)
{
    return cuGraphInstantiate_v2(out, graph, error_node, log, size);
}

CUresult cuGraphExecDestroy(CUgraphExec handle)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    struct exec *exec = exec_of(handle);
    if (!exec)
        return leave(CUDA_ERROR_INVALID_VALUE);
    handle_remove(exec);
    graph_drop(exec->graph);
    op_release(exec->last);
    free(exec);
    return leave(CUDA_SUCCESS);
}

static struct op *start(struct work *work, struct op *const *after, size_t count)
{
    struct op *op = op_new(work);
    if (!op)
        abort();
    for (size_t i = 0; i < count; i++)
        op_after(op, after[i]);
    op_start(op);
    return op;
}

static struct op *launch_nodes(struct graph *graph, struct op *begin, struct context *context);

// One operation for each memory operation, in a chain.
static struct op *launch_memory_ops(const struct work *all, struct op *begin, struct context *context)
{
    struct op *last = op_hold(begin);
    for (unsigned i = 0; i < all->memory_ops.count; i++) {
        struct work one = {.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, .context = context, .memory_ops = {1, NULL}};
        one.memory_ops.list = malloc(sizeof *one.memory_ops.list);
        if (!one.memory_ops.list)
            abort();
        *one.memory_ops.list = all->memory_ops.list[i];
        struct op *op = start(&one, &last, 1);
        op_release(last);
        last = op;
    }
    return last;
}

static struct op *launch_node(struct node *node, struct context *context, struct op *begin)
{
    if (!context_of((CUcontext)node->work.context) || node->disabled)
        node->work.context = context;
    context = node->work.context;
    struct work nothing = {.type = CU_GRAPH_NODE_TYPE_EMPTY, .context = context}, work;
    // A node stands behind one operation that stands behind its predecessors.
    struct op *gate = op_new(&nothing);
    if (!gate)
        abort();
    for (size_t i = 0; i < node->predecessor_count; i++)
        op_after(gate, node->predecessors[i]->op);
    if (node->predecessor_count == 0)
        op_after(gate, begin);
    if (node->work.type == CU_GRAPH_NODE_TYPE_WAIT_EVENT && !node->disabled)
        op_after(gate, node->work.event->record);
    op_start(gate);
    struct op *op;
    if (node->disabled)
        return gate;
    switch (node->work.type) {
    case CU_GRAPH_NODE_TYPE_EMPTY:
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        return gate;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        event_set_record(node->work.event, gate);
        return gate;
    case CU_GRAPH_NODE_TYPE_GRAPH:
        op = launch_nodes(node->work.child, gate, context);
        break;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        op = launch_memory_ops(&node->work, gate, context);
        break;
    default:
        if (!work_copy(&work, &node->work))
            abort();
        op = start(&work, &gate, 1);
    }
    op_release(gate);
    return op;
}

// The operation behind all of the graph's.
static struct op *launch_nodes(struct graph *graph, struct op *begin, struct context *context)
{
    struct node **sorted;
    if (!graph_sort(graph, &sorted))
        return op_hold(begin); // a cycle: refused at instantiation
    for (size_t i = 0; i < graph->count; i++)
        sorted[i]->op = launch_node(sorted[i], context, begin);
    struct work nothing = {.type = CU_GRAPH_NODE_TYPE_EMPTY, .context = context};
    struct op *end = op_new(&nothing);
    if (!end)
        abort();
    op_after(end, begin);
    for (size_t i = 0; i < graph->count; i++)
        op_after(end, sorted[i]->op);
    op_start(end);
    for (size_t i = 0; i < graph->count; i++) {
        op_release(sorted[i]->op);
        sorted[i]->op = NULL;
    }
    free(sorted);
    return end;
}

// Functions and events that nodes name may have been destroyed since.
static bool all_live(const struct graph *graph)
{
    for (size_t i = 0; i < graph->count; i++) {
        const struct work *work = &graph->nodes[i]->work;
        bool live = true;
        if (work->type == CU_GRAPH_NODE_TYPE_KERNEL)
            live = handle_is(work->kernel.function, HANDLE_FUNCTION);
        else if (work->type == CU_GRAPH_NODE_TYPE_EVENT_RECORD || work->type == CU_GRAPH_NODE_TYPE_WAIT_EVENT)
            live = handle_is(work->event, HANDLE_EVENT);
        else if (work->type == CU_GRAPH_NODE_TYPE_GRAPH)
            live = all_live(work->child);
        if (!live)
            return false;
    }
    return true;
}

static CUresult capture_launch(struct stream *stream, const struct exec *exec)
{
    struct work work = {.type = CU_GRAPH_NODE_TYPE_GRAPH, .context = stream->context};
    work.child = graph_clone(exec->graph);
    if (!work.child)
        return CUDA_ERROR_OUT_OF_MEMORY;
    work.child->is_child = true;
    return capture_add(stream, &work);
}

CUresult cuGraphLaunch(CUgraphExec handle, CUstream stream_handle)
{
    struct context *context;
    struct stream *stream;
    CUresult result = enter_stream(stream_handle, &context, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    struct exec *exec = exec_of(handle);
    if (!exec)
        return leave(CUDA_ERROR_INVALID_VALUE);
    if (stream->capture)
        return leave(capture_launch(stream, exec));
    result = capture_forbids_stream(stream);
    if (result == CUDA_SUCCESS && !all_live(exec->graph))
        result = CUDA_ERROR_INVALID_HANDLE;
    if (result == CUDA_SUCCESS)
        result = graph_memory_launch(exec->graph, exec->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
    if (result != CUDA_SUCCESS)
        return leave(result);
    struct work nothing = {.type = CU_GRAPH_NODE_TYPE_EMPTY, .context = stream->context};
    struct op *begin = stream_op(stream, &nothing);
    op_after(begin, exec->last);
    op_start(begin);
    struct op *end = launch_nodes(exec->graph, begin, stream->context);
    stream_set_tail(stream, end);
    op_release(exec->last);
    exec->last = end;
    op_release(begin);
    return leave(CUDA_SUCCESS);
}

CUresult cuGraphUpload(CUgraphExec handle, CUstream stream_handle)
{
    struct context *context;
    struct stream *stream;
    CUresult result = enter_stream(stream_handle, &context, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    return leave(exec_of(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

static size_t index_of(const struct graph *graph, const struct node *node)
{
    for (size_t i = 0; i < graph->count; i++)
        if (graph->nodes[i] == node)
            return i;
    return SIZE_MAX;
}

static CUgraphExecUpdateResult compare(const struct graph *now, const struct graph *then, struct node **different)
{
    if (now->count != then->count)
        return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    for (size_t i = 0; i < now->count; i++) {
        const struct node *a = now->nodes[i], *b = then->nodes[i];
        *different = then->nodes[i];
        if (a->work.type != b->work.type)
            return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
        if (a->predecessor_count != b->predecessor_count)
            return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
        for (size_t j = 0; j < a->predecessor_count; j++)
            if (index_of(now, a->predecessors[j]) != index_of(then, b->predecessors[j]))
                return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
        if (a->work.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || a->work.type == CU_GRAPH_NODE_TYPE_MEM_FREE)
            return CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
    }
    *different = NULL;
    return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

CUresult cuGraphExecUpdate_v2(CUgraphExec handle, CUgraph graph_handle, CUgraphExecUpdateResultInfo *info)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    struct exec *exec = exec_of(handle);
    struct graph *graph = graph_of(graph_handle);
    if (!exec || !graph || !info)
        return leave(CUDA_ERROR_INVALID_VALUE);
    struct node *different = NULL;
    *info = (CUgraphExecUpdateResultInfo){.result = compare(exec->graph, graph, &different),
                                          .errorNode = (CUgraphNode)different};
    if (info->result != CU_GRAPH_EXEC_UPDATE_SUCCESS)
        return leave(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    struct graph *copy = graph_clone(graph);
    if (!copy)
        return leave(CUDA_ERROR_OUT_OF_MEMORY);
    // The nodes are still addressed by those of the graph that was instantiated.
    for (size_t i = 0; i < copy->count; i++) {
        copy->nodes[i]->original = exec->graph->nodes[i]->original;
        copy->nodes[i]->disabled = exec->graph->nodes[i]->disabled;
    }
    graph_drop(exec->graph);
    exec->graph = copy;
    return leave(CUDA_SUCCESS);
}

CUresult cuGraphExecUpdate(CUgraphExec handle, CUgraph graph, CUgraphNode *error_node, CUgraphExecUpdateResult *out)
{
    CUgraphExecUpdateResultInfo info = {0};
    CUresult result = cuGraphExecUpdate_v2(handle, graph, &info);
    if (error_node)
        *error_node = info.errorNode;
    if (out)
        *out = info.result;
    return result;
}

CUresult cuGraphNodeSetEnabled(CUgraphExec handle, CUgraphNode original, unsigned int enabled)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    struct node *node = exec_node(handle, original);
    if (!node || node->work.type > CU_GRAPH_NODE_TYPE_MEMSET)
        return leave(CUDA_ERROR_INVALID_VALUE); // only kernels, copies and fills can be switched off
    node->disabled = !enabled;
    return leave(CUDA_SUCCESS);
}

CUresult cuGraphNodeGetEnabled(CUgraphExec handle, CUgraphNode original, unsigned int *enabled)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    const struct node *node = exec_node(handle, original);
    if (!node || !enabled)
        return leave(CUDA_ERROR_INVALID_VALUE);
    *enabled = !node->disabled;
    return leave(CUDA_SUCCESS);
}

CUresult cuGraphExecGetFlags(CUgraphExec handle, cuuint64_t *flags)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    const struct exec *exec = exec_of(handle);
    if (!exec || !flags)
        return leave(CUDA_ERROR_INVALID_VALUE);
    *flags = exec->flags;
    return leave(CUDA_SUCCESS);
}

CUresult cuGraphExecGetId(CUgraphExec handle, unsigned int *id)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    const struct exec *exec = exec_of(handle);
    if (!exec || !id)
        return leave(CUDA_ERROR_INVALID_VALUE);
    *id = exec->id;
    return leave(CUDA_SUCCESS);
}
