// Other namespaces of the dynamic linker (dlmopen): each has its own libc and its own copy of libcuda, and nothing preloaded.
// A namespace is entered only through us: the driver's libraries are opened in it first, and pointed at the wrappers and the
// driver of the base namespace, so that the process still has one driver and one place in the ledger.
#ifndef NAMESPACES_H
#define NAMESPACES_H

#include <dlfcn.h>

// A new namespace that holds nothing but the driver's libraries; LM_ID_NEWLM: there is no driver, or no room for a namespace.
Lmid_t namespaces_prepare(void);

// dlmopen as the process sees it.
void *own_dlmopen(void);

void namespaces_after_fork(void);

#endif
