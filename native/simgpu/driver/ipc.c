// cuIpc*MemHandle.  The memory moves into a memory file when its handle is asked for; another process of the same user,
// in the same PID namespace, opens that file through /proc.  The importer isn't charged, as on a real card.
// Memory of cuMemAlloc above 1 MiB only: smaller pieces share blocks.
#define _GNU_SOURCE
#include "ipc.h"
#include "capture.h"
#include "context.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

struct ticket {
    uint64_t magic;
    uint32_t pid;
    int32_t file;
    uint64_t inode;
    uint64_t size, mapped;
};

#define TICKET_MAGIC UINT64_C(0x494d4148434f5049)

_Static_assert(sizeof(struct ticket) <= sizeof(CUipcMemHandle), "a ticket fits in a handle");

static bool move_into_file(struct allocation *allocation)
{
    int file = (int)syscall(SYS_memfd_create, "hami-sim-ipc", 1u /* MFD_CLOEXEC */);
    if (file < 0)
        return false;
    char *shared = MAP_FAILED;
    if (ftruncate(file, (off_t)allocation->mapped) == 0)
        shared = mmap(NULL, allocation->mapped, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
    if (shared == MAP_FAILED) {
        close(file);
        return false;
    }
    // Touch only what was touched: a page that is all zero stays a hole.
    static const char zeros[4096];
    const char *from = (const char *)allocation->base;
    unsigned char resident;
    for (uint64_t at = 0; at < allocation->mapped; at += sizeof zeros) {
        if (mincore((void *)(from + at), sizeof zeros, &resident) == 0 && !(resident & 1))
            continue;
        if (memcmp(from + at, zeros, sizeof zeros) != 0)
            memcpy(shared + at, from + at, sizeof zeros);
    }
    munmap(shared, allocation->mapped);
    mmap((void *)allocation->base, allocation->mapped, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE,
         file, 0);
    allocation->file = file;
    return true;
}

CUresult cuIpcGetMemHandle(CUipcMemHandle *out, CUdeviceptr pointer)
{
    struct context *context;
    CUresult result = enter(&context);
    if (result != CUDA_SUCCESS)
        return result;
    struct allocation *allocation = allocation_at(pointer);
    if (!out || !allocation)
        return leave(CUDA_ERROR_INVALID_VALUE);
    if (allocation->kind != ALLOCATION_DEVICE)
        return leave(CUDA_ERROR_NOT_SUPPORTED);
    context_drain(context);
    struct stat status;
    if (allocation->file < 0 && !move_into_file(allocation))
        return leave(CUDA_ERROR_OUT_OF_MEMORY);
    if (fstat(allocation->file, &status) != 0)
        return leave(CUDA_ERROR_OPERATING_SYSTEM);
    const struct ticket ticket = {TICKET_MAGIC,  (uint32_t)getpid(), allocation->file,
                                  status.st_ino, allocation->size,   allocation->mapped};
    memset(out, 0, sizeof *out);
    memcpy(out->reserved, &ticket, sizeof ticket);
    return leave(CUDA_SUCCESS);
}

static int open_ticket(const struct ticket *ticket)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%u/fd/%d", ticket->pid, ticket->file);
    int file = open(path, O_RDWR | O_CLOEXEC);
    struct stat status;
    // The number may name another file by now.
    if (file >= 0 &&
        (fstat(file, &status) != 0 || status.st_ino != ticket->inode || status.st_size != (off_t)ticket->mapped)) {
        close(file);
        return -1;
    }
    return file;
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *out, CUipcMemHandle handle, unsigned int flags)
{
    struct context *context;
    CUresult result = enter(&context);
    if (result != CUDA_SUCCESS)
        return result;
    struct ticket ticket;
    memcpy(&ticket, handle.reserved, sizeof ticket);
    if (!out || (flags & ~CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) || ticket.magic != TICKET_MAGIC)
        return leave(CUDA_ERROR_INVALID_VALUE);
    if (ticket.pid == (uint32_t)getpid())
        return leave(CUDA_ERROR_INVALID_CONTEXT); // not within one process
    int file = open_ticket(&ticket);
    if (file < 0)
        return leave(CUDA_ERROR_INVALID_HANDLE);
    void *base = mmap(NULL, ticket.mapped, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
    close(file);
    struct allocation *allocation =
        base == MAP_FAILED ? NULL : allocation_add((CUdeviceptr)base, ticket.size, ALLOCATION_IPC);
    if (!allocation)
        return leave(CUDA_ERROR_MAP_FAILED);
    allocation->mapped = ticket.mapped;
    allocation->context = context;
    allocation->card = context->card;
    *out = allocation->base;
    return leave(CUDA_SUCCESS);
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *out, CUipcMemHandle handle, unsigned int flags)
{
    return cuIpcOpenMemHandle_v2(out, handle, flags);
}

void ipc_unmap(struct allocation *allocation)
{
    region_unmap((void *)allocation->base, allocation->mapped);
    allocation_remove(allocation);
}

void ipc_close_file(struct allocation *allocation)
{
    if (allocation->file >= 0)
        close(allocation->file);
    allocation->file = -1;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr pointer)
{
    struct context *context;
    CUresult result = enter(&context);
    if (result != CUDA_SUCCESS)
        return result;
    struct allocation *allocation = allocation_starting(pointer);
    if (!allocation || allocation->kind != ALLOCATION_IPC)
        return leave(CUDA_ERROR_INVALID_VALUE);
    context_drain(allocation->context);
    ipc_unmap(allocation);
    return leave(CUDA_SUCCESS);
}
