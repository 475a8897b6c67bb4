// A node's parameters, as the API gives them and as work.
#ifndef SIM_NODE_H
#define SIM_NODE_H

#include "graph.h"

// Check the parameters and make them work.  An alloc node's address is written back to them.
CUresult work_from_parameters(CUgraphNodeParams *parameters, struct context *context, struct work *work);
CUresult parameters_from_work(const struct work *work, CUgraphNodeParams *parameters);
// Replace a node's work, of the same type.
CUresult node_set(struct node *node, CUgraphNodeParams *parameters, struct context *context);

// node_api.c: the whole call, for a node, for an executable graph's node, and for reading one of that type.
CUresult node_api_set(CUgraphNode handle, CUgraphNodeParams *parameters);
CUresult node_api_set_exec(CUgraphExec exec, CUgraphNode handle, CUgraphNodeParams *parameters);
CUresult node_api_get(CUgraphNode handle, CUgraphNodeType type, CUgraphNodeParams *parameters);

#endif
