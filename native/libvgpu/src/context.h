// Contexts of this process.
#ifndef CONTEXT_H
#define CONTEXT_H

void context_after_fork(void);

#endif
