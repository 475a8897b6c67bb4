// Graphs: nodes of work with their order, and what becomes of them when they run.
#ifndef SIM_GRAPH_H
#define SIM_GRAPH_H

#include "op.h"

struct stream;

struct node {
    struct graph *graph;
    struct work work;
    struct node **predecessors;
    size_t predecessor_count;
    const struct node *original; // of which this is the clone, NULL: none
    unsigned number;             // within the graph
    size_t index;                // in graph->nodes, while a clone is made
    bool disabled;               // in an executable graph
    // While a graph is being launched:
    struct op *op;
    bool visited;
};

struct graph {
    struct node **nodes; // in the order of their making, which need not be the order of their edges
    size_t count, room;
    unsigned id, next_number;
    bool is_child; // it belongs to a node
    const struct graph *original;
};

struct graph *graph_of(CUgraph handle);
struct node *node_of(CUgraphNode handle);

struct graph *graph_new(void);
// Drops the nodes and their work.
void graph_drop(struct graph *graph);
struct graph *graph_clone(const struct graph *graph);

// Takes over `work`.
CUresult graph_add(struct graph *graph, struct node *const *predecessors, size_t count, struct work *work,
                   struct node **out);
bool node_precedes(const struct node *first, const struct node *second); // by whatever way
void node_remove(struct node *node);
// The nodes so that each comes after its predecessors; false if there is a cycle.  The caller frees *out.
bool graph_sort(const struct graph *graph, struct node ***out);
// The clone's node, also in the graphs of child nodes; NULL if there is none.
struct node *graph_find_clone(struct graph *clone, const struct node *original);

// graph_memory.c
CUresult graph_memory_reserve(CUDA_MEM_ALLOC_NODE_PARAMS_v1 *parameters); // the address, held once
void graph_memory_hold(CUdeviceptr pointer);                              // by one more node
void graph_memory_release(CUdeviceptr pointer);
// Charge what the graph's alloc nodes take, when it's launched.
CUresult graph_memory_launch(const struct graph *graph, bool frees_itself);
CUresult graph_memory_free(CUdeviceptr pointer); // by a node, a stream or cuMemFree
void graph_memory_drop(unsigned card);           // the last context on the card is gone

#endif
