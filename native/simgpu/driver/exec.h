// Executable graphs.
#ifndef SIM_EXEC_H
#define SIM_EXEC_H

#include "graph.h"

// The executable graph's own copy of a node of the graph that it was made of; NULL if there is none.
struct node *exec_node(CUgraphExec handle, CUgraphNode original);

#endif
