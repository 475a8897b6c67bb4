#include "work.h"
#include "graph.h"
#include "module.h"

#include <string.h>

// The function may be gone by now: only the block is looked at.
static bool copy_parameters(struct kernel_work *to, const struct kernel_work *from)
{
    if (!from->parameters)
        return true;
    to->parameters = malloc(from->block_bytes);
    if (!to->parameters)
        return false;
    memcpy(to->parameters, from->parameters, from->block_bytes);
    for (unsigned i = 0; i < from->parameter_count; i++)
        to->parameters[i] = (char *)to->parameters + ((char *)from->parameters[i] - (char *)from->parameters);
    return true;
}

bool work_copy(struct work *to, const struct work *from)
{
    *to = *from;
    switch (from->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        to->kernel.parameters = NULL;
        return copy_parameters(&to->kernel, &from->kernel);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: {
        size_t bytes = from->memory_ops.count * sizeof *from->memory_ops.list;
        to->memory_ops.list = malloc(bytes);
        if (to->memory_ops.list)
            memcpy(to->memory_ops.list, from->memory_ops.list, bytes);
        return to->memory_ops.list;
    }
    case CU_GRAPH_NODE_TYPE_GRAPH:
        to->child = graph_clone(from->child);
        if (to->child)
            to->child->is_child = true;
        return to->child;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        graph_memory_hold(to->allocate.dptr);
        return true;
    default:
        return true;
    }
}

void work_drop(struct work *work)
{
    switch (work->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        free(work->kernel.parameters);
        work->kernel.parameters = NULL;
        break;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        free(work->memory_ops.list);
        work->memory_ops.list = NULL;
        break;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        graph_memory_release(work->allocate.dptr);
        break;
    case CU_GRAPH_NODE_TYPE_GRAPH:
        if (work->child)
            graph_drop(work->child);
        work->child = NULL;
        break;
    default:
        break;
    }
}

#define NOMINAL_NS UINT64_C(5000)

uint64_t kernel_cost(const struct kernel_work *kernel)
{
    if (!function_spins(kernel->function) || !kernel->parameters)
        return NOMINAL_NS;
    uint64_t cost;
    memcpy(&cost, kernel->parameters[0], sizeof cost);
    return cost > 0 ? cost : 1;
}
