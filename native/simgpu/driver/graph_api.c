// Graphs as the API shows them: making and destroying, nodes and edges.
#include "graph.h"
#include "capture.h"

#include <stdio.h>
#include <string.h>

static CUresult enter_graph(CUgraph handle, struct graph **graph)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    *graph = graph_of(handle);
    return *graph ? CUDA_SUCCESS : leave(CUDA_ERROR_INVALID_VALUE);
}

static CUresult enter_node(CUgraphNode handle, struct node **node)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    *node = node_of(handle);
    return *node ? CUDA_SUCCESS : leave(CUDA_ERROR_INVALID_VALUE);
}

CUresult cuGraphCreate(CUgraph *out, unsigned int flags)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    if (!out || flags)
        return leave(CUDA_ERROR_INVALID_VALUE);
    *out = (CUgraph)graph_new();
    return leave(CUDA_SUCCESS);
}

CUresult cuGraphDestroy(CUgraph handle)
{
    struct graph *graph;
    CUresult result = enter_graph(handle, &graph);
    if (result != CUDA_SUCCESS)
        return result;
    if (graph->is_child)
        return leave(CUDA_ERROR_INVALID_VALUE);
    graph_drop(graph);
    return leave(CUDA_SUCCESS);
}

CUresult cuGraphClone(CUgraph *out, CUgraph handle)
{
    struct graph *graph;
    CUresult result = enter_graph(handle, &graph);
    if (result != CUDA_SUCCESS)
        return result;
    struct graph *clone = out ? graph_clone(graph) : NULL;
    if (!clone)
        return leave(out ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE);
    *out = (CUgraph)clone;
    return leave(CUDA_SUCCESS);
}

CUresult cuGraphNodeFindInClone(CUgraphNode *out, CUgraphNode original, CUgraph handle)
{
    struct graph *graph;
    CUresult result = enter_graph(handle, &graph);
    if (result != CUDA_SUCCESS)
        return result;
    struct node *node = graph_find_clone(graph, (struct node *)original);
    if (!out || !node)
        return leave(CUDA_ERROR_INVALID_VALUE);
    *out = (CUgraphNode)node;
    return leave(CUDA_SUCCESS);
}

CUresult cuGraphDestroyNode(CUgraphNode handle)
{
    struct node *node;
    CUresult result = enter_node(handle, &node);
    if (result != CUDA_SUCCESS)
        return result;
    if (node->graph->is_child)
        return leave(CUDA_ERROR_NOT_PERMITTED);
    node_remove(node);
    return leave(CUDA_SUCCESS);
}

// Up to *room entries into `out`, then zeros; or, without `out`, how many there are.
static void fill(void **out, size_t *room, struct node *const *nodes, size_t count)
{
    if (!out) {
        *room = count;
        return;
    }
    for (size_t i = 0; i < *room; i++)
        out[i] = i < count ? nodes[i] : NULL;
    if (*room > count)
        *room = count;
}

CUresult cuGraphGetNodes(CUgraph handle, CUgraphNode *out, size_t *count)
{
    struct graph *graph;
    CUresult result = enter_graph(handle, &graph);
    if (result != CUDA_SUCCESS)
        return result;
    if (!count)
        return leave(CUDA_ERROR_INVALID_VALUE);
    fill((void **)out, count, graph->nodes, graph->count);
    return leave(CUDA_SUCCESS);
}

CUresult cuGraphGetRootNodes(CUgraph handle, CUgraphNode *out, size_t *count)
{
    struct graph *graph;
    CUresult result = enter_graph(handle, &graph);
    if (result != CUDA_SUCCESS)
        return result;
    struct node **roots = malloc((graph->count + 1) * sizeof *roots);
    if (!count || !roots) {
        free(roots);
        return leave(CUDA_ERROR_INVALID_VALUE);
    }
    size_t found = 0;
    for (size_t i = 0; i < graph->count; i++)
        if (graph->nodes[i]->predecessor_count == 0)
            roots[found++] = graph->nodes[i];
    fill((void **)out, count, roots, found);
    free(roots);
    return leave(CUDA_SUCCESS);
}

static void no_edge_data(CUgraphEdgeData *edges, size_t count)
{
    if (edges)
        memset(edges, 0, count * sizeof *edges);
}

CUresult cuGraphGetEdges_v2(CUgraph handle, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *edges, size_t *count)
{
    struct graph *graph;
    CUresult result = enter_graph(handle, &graph);
    if (result != CUDA_SUCCESS)
        return result;
    if (!count || !from != !to)
        return leave(CUDA_ERROR_INVALID_VALUE);
    size_t found = 0;
    for (size_t i = 0; i < graph->count; i++) {
        const struct node *node = graph->nodes[i];
        for (size_t j = 0; j < node->predecessor_count; j++, found++) {
            if (!from || found >= *count)
                continue;
            from[found] = (CUgraphNode)node->predecessors[j];
            to[found] = (CUgraphNode)node;
        }
    }
    for (size_t i = found; from && i < *count; i++)
        from[i] = to[i] = NULL;
    if (!from || *count > found)
        *count = found;
    if (from)
        no_edge_data(edges, *count);
    return leave(CUDA_SUCCESS);
}

CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *count)
{
    return cuGraphGetEdges_v2(graph, from, to, NULL, count);
}

CUresult cuGraphNodeGetDependencies_v2(CUgraphNode handle, CUgraphNode *out, CUgraphEdgeData *edges, size_t *count)
{
    struct node *node;
    CUresult result = enter_node(handle, &node);
    if (result != CUDA_SUCCESS)
        return result;
    if (!count)
        return leave(CUDA_ERROR_INVALID_VALUE);
    fill((void **)out, count, node->predecessors, node->predecessor_count);
    if (out)
        no_edge_data(edges, *count);
    return leave(CUDA_SUCCESS);
}

CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *out, size_t *count)
{
    return cuGraphNodeGetDependencies_v2(node, out, NULL, count);
}

static bool follows(const struct node *node, const struct node *predecessor)
{
    for (size_t i = 0; i < node->predecessor_count; i++)
        if (node->predecessors[i] == predecessor)
            return true;
    return false;
}

CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode handle, CUgraphNode *out, CUgraphEdgeData *edges, size_t *count)
{
    struct node *node;
    CUresult result = enter_node(handle, &node);
    if (result != CUDA_SUCCESS)
        return result;
    const struct graph *graph = node->graph;
    struct node **dependents = malloc((graph->count + 1) * sizeof *dependents);
    if (!count || !dependents) {
        free(dependents);
        return leave(CUDA_ERROR_INVALID_VALUE);
    }
    size_t found = 0;
    for (size_t i = 0; i < graph->count; i++)
        if (follows(graph->nodes[i], node))
            dependents[found++] = graph->nodes[i];
    fill((void **)out, count, dependents, found);
    free(dependents);
    if (out)
        no_edge_data(edges, *count);
    return leave(CUDA_SUCCESS);
}

CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *out, size_t *count)
{
    return cuGraphNodeGetDependentNodes_v2(node, out, NULL, count);
}

// Both ends live and of this graph.
static bool are_edges(const struct graph *graph, const CUgraphNode *from, const CUgraphNode *to, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct node *a = node_of(from[i]), *b = node_of(to[i]);
        if (!a || !b || a == b || a->graph != graph || b->graph != graph)
            return false;
    }
    return true;
}

CUresult cuGraphAddDependencies_v2(CUgraph handle, const CUgraphNode *from, const CUgraphNode *to,
                                   const CUgraphEdgeData *edges, size_t count)
{
    (void)edges;
    struct graph *graph;
    CUresult result = enter_graph(handle, &graph);
    if (result != CUDA_SUCCESS)
        return result;
    if (count && (!from || !to || !are_edges(graph, from, to, count)))
        return leave(CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < count; i++) {
        struct node *a = node_of(from[i]), *b = node_of(to[i]);
        if (follows(b, a))
            return leave(CUDA_ERROR_INVALID_VALUE);
        b->predecessors = realloc(b->predecessors, (b->predecessor_count + 1) * sizeof *b->predecessors);
        if (!b->predecessors)
            abort();
        b->predecessors[b->predecessor_count++] = a;
    }
    return leave(CUDA_SUCCESS);
}

CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count)
{
    return cuGraphAddDependencies_v2(graph, from, to, NULL, count);
}

CUresult cuGraphRemoveDependencies_v2(CUgraph handle, const CUgraphNode *from, const CUgraphNode *to,
                                      const CUgraphEdgeData *edges, size_t count)
{
    (void)edges;
    struct graph *graph;
    CUresult result = enter_graph(handle, &graph);
    if (result != CUDA_SUCCESS)
        return result;
    if (count && (!from || !to || !are_edges(graph, from, to, count)))
        return leave(CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < count; i++) {
        struct node *a = node_of(from[i]), *b = node_of(to[i]);
        size_t kept = 0;
        for (size_t j = 0; j < b->predecessor_count; j++)
            if (b->predecessors[j] != a)
                b->predecessors[kept++] = b->predecessors[j];
        if (kept == b->predecessor_count)
            return leave(CUDA_ERROR_INVALID_VALUE);
        b->predecessor_count = kept;
    }
    return leave(CUDA_SUCCESS);
}

CUresult cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count)
{
    return cuGraphRemoveDependencies_v2(graph, from, to, NULL, count);
}

CUresult cuGraphGetId(CUgraph handle, unsigned int *id)
{
    struct graph *graph;
    CUresult result = enter_graph(handle, &graph);
    if (result != CUDA_SUCCESS)
        return result;
    if (id)
        *id = graph->id;
    return leave(id ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuGraphNodeGetLocalId(CUgraphNode handle, unsigned int *id)
{
    struct node *node;
    CUresult result = enter_node(handle, &node);
    if (result != CUDA_SUCCESS)
        return result;
    if (id)
        *id = node->number;
    return leave(id ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuGraphNodeGetContainingGraph(CUgraphNode handle, CUgraph *out)
{
    struct node *node;
    CUresult result = enter_node(handle, &node);
    if (result != CUDA_SUCCESS)
        return result;
    if (out)
        *out = (CUgraph)node->graph;
    return leave(out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuGraphDebugDotPrint(CUgraph handle, const char *path, unsigned int flags)
{
    (void)flags;
    struct graph *graph;
    CUresult result = enter_graph(handle, &graph);
    if (result != CUDA_SUCCESS)
        return result;
    FILE *file = path ? fopen(path, "we") : NULL;
    if (!file)
        return leave(CUDA_ERROR_OPERATING_SYSTEM);
    fprintf(file, "digraph graph_%u {\n", graph->id);
    for (size_t i = 0; i < graph->count; i++) {
        const struct node *node = graph->nodes[i];
        fprintf(file, "  n%u [label=\"%u: type %d\"];\n", node->number, node->number, (int)node->work.type);
        for (size_t j = 0; j < node->predecessor_count; j++)
            fprintf(file, "  n%u -> n%u;\n", node->predecessors[j]->number, node->number);
    }
    fprintf(file, "}\n");
    return leave(fclose(file) == 0 ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM);
}
