#include "graph.h"

#include <string.h>

static unsigned next_id = 1;

struct graph *graph_of(CUgraph handle)
{
    return handle_is(handle, HANDLE_GRAPH) ? (struct graph *)handle : NULL;
}

struct node *node_of(CUgraphNode handle)
{
    return handle_is(handle, HANDLE_NODE) ? (struct node *)handle : NULL;
}

struct graph *graph_new(void)
{
    struct graph *graph = calloc(1, sizeof *graph);
    if (!graph)
        abort();
    graph->id = next_id++;
    handle_add(graph, HANDLE_GRAPH);
    return graph;
}

static void free_node(struct node *node)
{
    handle_remove(node);
    work_drop(&node->work);
    free(node->predecessors);
    free(node);
}

void graph_drop(struct graph *graph)
{
    for (size_t i = 0; i < graph->count; i++)
        free_node(graph->nodes[i]);
    handle_remove(graph);
    free(graph->nodes);
    free(graph);
}

CUresult graph_add(struct graph *graph, struct node *const *predecessors, size_t count, struct work *work,
                   struct node **out)
{
    for (size_t i = 0; i < count; i++) {
        if (!predecessors || !node_of((CUgraphNode)predecessors[i]) || predecessors[i]->graph != graph) {
            work_drop(work);
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
    if (graph->count == graph->room) {
        graph->room = graph->room ? graph->room * 2 : 16;
        graph->nodes = realloc(graph->nodes, graph->room * sizeof *graph->nodes);
    }
    struct node *node = calloc(1, sizeof *node);
    struct node **list = malloc((count + 1) * sizeof *list);
    if (!graph->nodes || !node || !list)
        abort();
    if (count)
        memcpy(list, predecessors, count * sizeof *list);
    *node = (struct node){.graph = graph,
                          .work = *work,
                          .predecessors = list,
                          .predecessor_count = count,
                          .number = graph->next_number++};
    graph->nodes[graph->count++] = node;
    handle_add(node, HANDLE_NODE);
    if (out)
        *out = node;
    return CUDA_SUCCESS;
}

void node_remove(struct node *node)
{
    struct graph *graph = node->graph;
    size_t kept = 0;
    for (size_t i = 0; i < graph->count; i++) {
        struct node *other = graph->nodes[i];
        if (other == node)
            continue;
        graph->nodes[kept++] = other;
        size_t left = 0;
        for (size_t j = 0; j < other->predecessor_count; j++)
            if (other->predecessors[j] != node)
                other->predecessors[left++] = other->predecessors[j];
        other->predecessor_count = left;
    }
    graph->count = kept;
    free_node(node);
}

static void visit(struct node *node, struct node **sorted, size_t *count)
{
    // Deep chains are common (a captured loop), so no recursion along the first predecessor.
    struct node **stack = malloc((node->graph->count + 1) * sizeof *stack);
    if (!stack)
        abort();
    size_t depth = 0;
    stack[depth++] = node;
    node->visited = true;
    while (depth > 0) {
        struct node *top = stack[depth - 1], *next = NULL;
        for (size_t i = 0; i < top->predecessor_count && !next; i++)
            if (!top->predecessors[i]->visited)
                next = top->predecessors[i];
        if (next) {
            next->visited = true;
            stack[depth++] = next;
        } else {
            sorted[(*count)++] = top;
            depth--;
        }
    }
    free(stack);
}

bool graph_sort(const struct graph *graph, struct node ***out)
{
    struct node **sorted = malloc((graph->count + 1) * sizeof *sorted);
    if (!sorted)
        abort();
    size_t count = 0;
    for (size_t i = 0; i < graph->count; i++)
        graph->nodes[i]->visited = false;
    for (size_t i = 0; i < graph->count; i++)
        if (!graph->nodes[i]->visited)
            visit(graph->nodes[i], sorted, &count);
    // With a cycle some node stands before one of its predecessors.
    for (size_t i = 0; i < graph->count; i++)
        graph->nodes[i]->visited = false;
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < sorted[i]->predecessor_count; j++) {
            if (!sorted[i]->predecessors[j]->visited) {
                free(sorted);
                return false;
            }
        }
        sorted[i]->visited = true;
    }
    *out = sorted;
    return true;
}

bool node_precedes(const struct node *first, const struct node *second)
{
    struct node **sorted;
    if (!graph_sort(second->graph, &sorted))
        return false;
    // In sorted order, mark all that lead to `second`, from behind.
    size_t count = second->graph->count;
    bool found = false;
    for (size_t i = 0; i < count; i++)
        sorted[i]->visited = sorted[i] == second;
    for (size_t i = count; i-- > 0 && !found;) {
        if (!sorted[i]->visited)
            continue;
        for (size_t j = 0; j < sorted[i]->predecessor_count; j++) {
            sorted[i]->predecessors[j]->visited = true;
            found |= sorted[i]->predecessors[j] == first;
        }
    }
    free(sorted);
    return found;
}

struct graph *graph_clone(const struct graph *graph)
{
    struct graph *clone = graph_new();
    clone->original = graph;
    for (size_t i = 0; i < graph->count; i++) {
        struct work work;
        struct node *node;
        if (!work_copy(&work, &graph->nodes[i]->work) || graph_add(clone, NULL, 0, &work, &node) != CUDA_SUCCESS) {
            graph_drop(clone);
            return NULL;
        }
        node->original = graph->nodes[i];
        node->number = graph->nodes[i]->number;
        graph->nodes[i]->index = i;
    }
    for (size_t i = 0; i < graph->count; i++) {
        const struct node *from = graph->nodes[i];
        struct node *to = clone->nodes[i];
        to->predecessors = realloc(to->predecessors, (from->predecessor_count + 1) * sizeof(struct node *));
        if (!to->predecessors)
            abort();
        for (size_t j = 0; j < from->predecessor_count; j++)
            to->predecessors[to->predecessor_count++] = clone->nodes[from->predecessors[j]->index];
    }
    return clone;
}

struct node *graph_find_clone(struct graph *clone, const struct node *original)
{
    for (size_t i = 0; i < clone->count; i++) {
        struct node *node = clone->nodes[i];
        if (node->original == original)
            return node;
        if (node->work.type == CU_GRAPH_NODE_TYPE_GRAPH) {
            struct node *inner = graph_find_clone(node->work.child, original);
            if (inner)
                return inner;
        }
    }
    return NULL;
}
