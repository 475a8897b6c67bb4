// Memory of graphs: allocation nodes take VRAM when the graph is launched, from a pool of the driver's own for each card.
#ifndef GRAPH_H
#define GRAPH_H

void graph_refresh(int card);

// Give back what no graph uses at the moment.
void graph_trim(int card);

void graph_after_fork(void);

#endif
