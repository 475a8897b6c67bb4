// Memory pools: what the driver reserves for them is charged, not what the program has cut out of it.
#ifndef POOL_H
#define POOL_H

// Read every pool of a card again: pools shrink by themselves when the program synchronises.
void pool_refresh(int card);

// Give back what the pools of a card only cache, as the driver does when memory runs out.
void pool_trim(int card);

void pool_after_fork(void);

#endif
