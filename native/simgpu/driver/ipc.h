// Memory of another process, by a handle.
#ifndef SIM_IPC_H
#define SIM_IPC_H

#include "memory.h"

void ipc_unmap(struct allocation *allocation);
// The memory is freed: its file goes, and with it the handle's use.
void ipc_close_file(struct allocation *allocation);

#endif
