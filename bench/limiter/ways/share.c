// Memory that passes from one process to another: whoever made it dies, whoever got it takes a slice's worth besides.
#include "way.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SHARED (limit / 5 * 3 / PIECE * PIECE)

static int ends[2];
static CUipcMemHandle *ipc;

static void send_descriptor(int descriptor)
{
    char byte = 0, control[CMSG_SPACE(sizeof descriptor)] = {0};
    struct iovec part = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header =
        (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof descriptor), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
    if (sendmsg(ends[1], &message, 0) != 1)
        broken("sendmsg");
}

// -1: nothing was sent.
static int receive_descriptor(void)
{
    int descriptor;
    char byte, control[CMSG_SPACE(sizeof descriptor)];
    struct iovec part = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    if (recvmsg(ends[0], &message, MSG_DONTWAIT) != 1 || !CMSG_FIRSTHDR(&message))
        return -1;
    memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof descriptor);
    return descriptor;
}

static const CUmemAllocationProp for_export = {
    .type = CU_MEM_ALLOCATION_TYPE_PINNED,
    .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
};

// -1: refused.  The handle is left to the caller.
static int export_to_descriptor(uint64_t bytes, CUmemGenericAllocationHandle *handle)
{
    int descriptor = -1;
    if (!granted("cuMemCreate", cuMemCreate(handle, bytes, &for_export, 0), bytes))
        return -1;
    need("cuMemExportToShareableHandle",
         cuMemExportToShareableHandle(&descriptor, *handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    return descriptor;
}

static void export_physical(int index)
{
    (void)index;
    CUmemGenericAllocationHandle handle;
    open_card();
    int descriptor = export_to_descriptor(SHARED, &handle);
    if (descriptor >= 0)
        send_descriptor(descriptor);
}

// The descriptor of a child that has exported its memory; -1: it has none.
static int descriptor_of_child(void)
{
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
        broken("socketpair");
    start_child(export_physical, 0);
    await_children();
    int descriptor = receive_descriptor();
    if (descriptor >= 0)
        open_card();
    return descriptor;
}

static void child_dies(const char *call, CUresult result)
{
    kill_child(0);
    if (!granted(call, result, 0))
        gave_back(SHARED);
}

static void vmm_import(void)
{
    CUmemGenericAllocationHandle handle;
    int descriptor = descriptor_of_child();
    if (descriptor < 0)
        return;
    CUresult result = cuMemImportFromShareableHandle(&handle, (void *)(uintptr_t)descriptor,
                                                     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    close(descriptor);
    child_dies("cuMemImportFromShareableHandle", result);
    fill(goal);
}

static CUresult import_external(int descriptor, uint64_t bytes)
{
    CUexternalMemory memory;
    CUdeviceptr pointer;
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC description = {
        .type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, .handle.fd = descriptor, .size = bytes};
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC all = {.size = bytes};
    CUresult result = cuImportExternalMemory(&memory, &description);
    return result == CUDA_SUCCESS ? cuExternalMemoryGetMappedBuffer(&pointer, memory, &all) : result;
}

static void external_memory(void)
{
    int descriptor = descriptor_of_child();
    if (descriptor < 0)
        return;
    child_dies("cuImportExternalMemory", import_external(descriptor, SHARED));
    fill(goal);
}

// The same within one process: only the external memory is left of it.
static void external_memory_own(void)
{
    CUmemGenericAllocationHandle handle;
    open_card();
    while (wanting()) {
        int descriptor = export_to_descriptor(PIECE, &handle);
        if (descriptor < 0)
            return;
        CUresult result = import_external(descriptor, PIECE);
        need("cuMemRelease", cuMemRelease(handle));
        need("cuImportExternalMemory", result);
    }
}

// Neither handle nor mapping, only a descriptor.
static void vmm_descriptor(void)
{
    CUmemGenericAllocationHandle handle;
    open_card();
    while (wanting()) {
        if (export_to_descriptor(PIECE, &handle) < 0)
            return;
        need("cuMemRelease", cuMemRelease(handle));
    }
}

static void export_pointer(int index)
{
    (void)index;
    CUdeviceptr pointer;
    open_card();
    if (granted("cuMemAlloc", cuMemAlloc(&pointer, SHARED), SHARED))
        need("cuIpcGetMemHandle", cuIpcGetMemHandle(ipc, pointer));
}

static void ipc_open(void)
{
    CUdeviceptr pointer;
    ipc = share_with_children(sizeof *ipc);
    start_child(export_pointer, 0);
    await_children();
    open_card();
    CUresult result = cuIpcOpenMemHandle(&pointer, *ipc, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    bool opened = granted("cuIpcOpenMemHandle", result, 0);
    kill_child(0);
    if (!opened)
        gave_back(SHARED);
    fill(goal);
}

const struct way share_ways[] = {
    {"vmm_import", vmm_import},
    {"vmm_descriptor", vmm_descriptor},
    {"external_memory", external_memory},
    {"external_memory_own", external_memory_own},
    {"ipc_open", ipc_open},
    {0},
};
