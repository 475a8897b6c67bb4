// cuMemAlloc and its kin: device and managed memory, and what is free.
#include "memory.h"
#include "capture.h"
#include "context.h"
#include "graph.h"
#include "ipc.h"
#include "op.h"
#include "pool.h"

#define PITCH 512u

bool memory_take(unsigned card, uint64_t bytes, enum sim_memory kind)
{
    sim_lock();
    bool fits = sim_take(card, bytes, kind);
    sim_unlock();
    if (fits || !pools_give_up(card))
        return fits;
    sim_lock();
    fits = sim_take(card, bytes, kind);
    sim_unlock();
    return fits;
}

void memory_give(unsigned card, uint64_t bytes, enum sim_memory kind)
{
    sim_lock();
    sim_give(card, bytes, kind);
    sim_unlock();
}

static CUresult map_whole(struct context *context, size_t size, enum allocation_kind kind, struct allocation **out)
{
    enum sim_memory shown = kind == ALLOCATION_MANAGED ? SIM_HIDDEN : SIM_SHOWN;
    uint64_t bytes = round_up(size, BLOCK_BYTES);
    if (bytes < size || !memory_take(context->card, bytes, shown))
        return CUDA_ERROR_OUT_OF_MEMORY;
    void *base = region_map(bytes);
    struct allocation *allocation = base ? allocation_add((CUdeviceptr)base, size, kind) : NULL;
    if (!allocation) {
        if (base)
            region_unmap(base, bytes);
        memory_give(context->card, bytes, shown);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    allocation->mapped = bytes;
    allocation->context = context;
    allocation->card = context->card;
    *out = allocation;
    return CUDA_SUCCESS;
}

CUresult memory_allocate(struct context *context, size_t size, CUdeviceptr *out)
{
    struct allocation *allocation = NULL;
    if (size == 0)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = size <= SMALL_MAX ? small_allocate(context, size, &allocation)
                                        : map_whole(context, size, ALLOCATION_DEVICE, &allocation);
    if (result == CUDA_SUCCESS)
        *out = allocation->base;
    return result;
}

void memory_free(struct allocation *allocation)
{
    ipc_close_file(allocation);
    if (allocation->kind == ALLOCATION_SMALL) {
        small_free(allocation);
        return;
    }
    region_unmap((void *)allocation->base, allocation->mapped);
    memory_give(allocation->card, allocation->mapped, allocation->kind == ALLOCATION_MANAGED ? SIM_HIDDEN : SIM_SHOWN);
    allocation_remove(allocation);
}

static void drop(struct allocation *allocation, void *context)
{
    if (allocation->context != context)
        return;
    switch (allocation->kind) {
    case ALLOCATION_SMALL:
    case ALLOCATION_DEVICE:
    case ALLOCATION_MANAGED:
        memory_free(allocation);
        break;
    case ALLOCATION_IPC:
        ipc_unmap(allocation);
        break;
    case ALLOCATION_HOST:
        region_unmap((void *)allocation->base, allocation->mapped);
        allocation_remove(allocation);
        break;
    default:
        allocation_remove(allocation);
    }
}

void memory_drop(struct context *context)
{
    allocation_each(drop, context);
}

struct hand_over {
    struct context *from, *to;
};

static void hand_over(struct allocation *allocation, void *argument)
{
    const struct hand_over *contexts = argument;
    if (allocation->context == contexts->from)
        allocation->context = contexts->to;
}

void memory_hand_over(struct context *from, struct context *to)
{
    struct hand_over contexts = {from, to};
    allocation_each(hand_over, &contexts);
    small_hand_over(from, to);
}

CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t size)
{
    struct context *context;
    CUresult result = enter(&context);
    if (result != CUDA_SUCCESS)
        return result;
    if (!out)
        return leave(CUDA_ERROR_INVALID_VALUE);
    result = capture_forbids();
    return leave(result == CUDA_SUCCESS ? memory_allocate(context, size, out) : result);
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *out, size_t *pitch, size_t width, size_t height, unsigned int element)
{
    struct context *context;
    CUresult result = enter(&context);
    if (result != CUDA_SUCCESS)
        return result;
    size_t bytes;
    if (!out || !pitch || width == 0 || height == 0 || (element != 4 && element != 8 && element != 16))
        return leave(CUDA_ERROR_INVALID_VALUE);
    if (width > SIZE_MAX - PITCH || __builtin_mul_overflow(round_up(width, PITCH), height, &bytes))
        return leave(CUDA_ERROR_INVALID_VALUE);
    result = capture_forbids();
    if (result == CUDA_SUCCESS)
        result = memory_allocate(context, bytes, out);
    if (result == CUDA_SUCCESS)
        *pitch = round_up(width, PITCH);
    return leave(result);
}

CUresult cuMemAllocManaged(CUdeviceptr *out, size_t size, unsigned int flags)
{
    struct context *context;
    CUresult result = enter(&context);
    if (result != CUDA_SUCCESS)
        return result;
    if (!out || size == 0 || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
        return leave(CUDA_ERROR_INVALID_VALUE);
    result = capture_forbids();
    struct allocation *allocation = NULL;
    if (result == CUDA_SUCCESS)
        result = map_whole(context, size, ALLOCATION_MANAGED, &allocation);
    if (result != CUDA_SUCCESS)
        return leave(result);
    allocation->flags = flags;
    *out = allocation->base;
    return leave(CUDA_SUCCESS);
}

CUresult cuMemFree_v2(CUdeviceptr pointer)
{
    struct context *context;
    CUresult result = enter(&context);
    if (result != CUDA_SUCCESS)
        return result;
    if (!pointer)
        return leave(CUDA_SUCCESS);
    struct allocation *allocation = allocation_starting(pointer);
    if (!allocation)
        return leave(CUDA_ERROR_INVALID_VALUE);
    result = capture_forbids();
    if (result != CUDA_SUCCESS)
        return leave(result);
    struct context *owner = allocation->context ? allocation->context : context;
    context_drain(owner); // as cuMemFree does: work that uses the memory ends first
    if (allocation_starting(pointer) != allocation)
        return leave(CUDA_ERROR_INVALID_VALUE);
    switch (allocation->kind) {
    case ALLOCATION_SMALL:
    case ALLOCATION_DEVICE:
    case ALLOCATION_MANAGED:
        memory_free(allocation);
        break;
    case ALLOCATION_POOL:
        pool_free_now(allocation);
        pools_settle(owner->card);
        break;
    case ALLOCATION_GRAPH:
        return leave(graph_memory_free(pointer));
    default:
        return leave(CUDA_ERROR_INVALID_VALUE);
    }
    return leave(CUDA_SUCCESS);
}

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
    struct context *context;
    CUresult result = enter(&context);
    if (result != CUDA_SUCCESS)
        return result;
    size_t all = sim_model()->vram_mib * MIB;
    sim_lock();
    sim_reap();
    size_t used = sim_state()->cards[context->card].used;
    sim_unlock();
    if (free_bytes)
        *free_bytes = all - used;
    if (total)
        *total = all;
    return leave(CUDA_SUCCESS);
}

static unsigned clamp(size_t bytes)
{
    return bytes > UINT32_MAX ? UINT32_MAX : (unsigned)bytes;
}

CUresult cuMemGetInfo(unsigned int *free_bytes, unsigned int *total)
{
    size_t free64, total64;
    CUresult result = cuMemGetInfo_v2(&free64, &total64);
    if (result != CUDA_SUCCESS)
        return result;
    if (free_bytes)
        *free_bytes = clamp(free64);
    if (total)
        *total = clamp(total64);
    return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr pointer)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    const struct allocation *allocation = allocation_at(pointer);
    if (!allocation || !allocation_is_device(allocation))
        return leave(CUDA_ERROR_NOT_FOUND);
    if (base)
        *base = allocation->base;
    if (size)
        *size = allocation->size;
    return leave(CUDA_SUCCESS);
}
