#include "perform.h"
#include "array.h"
#include "graph.h"
#include "memory.h"
#include "pool.h"

#include <stdatomic.h>
#include <string.h>

static bool in_device(CUdeviceptr pointer, size_t bytes)
{
    const struct allocation *allocation = allocation_at(pointer);
    return allocation && bytes <= allocation->base + allocation->size - pointer;
}

// One side of a copy: where its first byte lies and how rows and slices follow.
struct side {
    char *base;
    size_t pitch, slice;
};

static size_t span(size_t width, size_t height, size_t depth, size_t pitch, size_t slice)
{
    return width + (height - 1) * pitch + (depth - 1) * slice;
}

static bool resolve(CUmemorytype type, const void *host, CUdeviceptr device, CUarray array, size_t x, size_t y,
                    size_t z, size_t pitch, size_t rows, const CUDA_MEMCPY3D *copy, struct side *side)
{
    if (type == CU_MEMORYTYPE_ARRAY) {
        const struct array *a = array_of(array);
        if (!a || x + copy->WidthInBytes > a->row_bytes || y + copy->Height > a->rows || z + copy->Depth > a->slices)
            return false;
        *side = (struct side){a->base + z * a->rows * a->row_bytes + y * a->row_bytes + x, a->row_bytes,
                              a->rows * a->row_bytes};
        return true;
    }
    if (pitch == 0)
        pitch = copy->WidthInBytes + x;
    if (rows == 0)
        rows = copy->Height + y;
    if (copy->Height > 1 && pitch < copy->WidthInBytes)
        return false;
    size_t offset = z * rows * pitch + y * pitch + x;
    *side = (struct side){(type == CU_MEMORYTYPE_HOST ? (char *)host : (char *)device) + offset, pitch, rows * pitch};
    if (type == CU_MEMORYTYPE_HOST)
        return host != NULL;
    return in_device((CUdeviceptr)side->base, span(copy->WidthInBytes, copy->Height, copy->Depth, pitch, rows * pitch));
}

static bool resolve_both(const CUDA_MEMCPY3D *c, struct side *from, struct side *to)
{
    return resolve(c->srcMemoryType, c->srcHost, c->srcDevice, c->srcArray, c->srcXInBytes, c->srcY, c->srcZ,
                   c->srcPitch, c->srcHeight, c, from) &&
           resolve(c->dstMemoryType, c->dstHost, c->dstDevice, c->dstArray, c->dstXInBytes, c->dstY, c->dstZ,
                   c->dstPitch, c->dstHeight, c, to);
}

CUresult copy_check(CUDA_MEMCPY3D *copy)
{
    if (copy->srcMemoryType == CU_MEMORYTYPE_UNIFIED) {
        copy->srcHost = (const void *)copy->srcDevice;
        copy->srcMemoryType = allocation_at(copy->srcDevice) ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
    }
    if (copy->dstMemoryType == CU_MEMORYTYPE_UNIFIED) {
        copy->dstHost = (void *)copy->dstDevice;
        copy->dstMemoryType = allocation_at(copy->dstDevice) ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
    }
    bool known = copy->srcMemoryType >= CU_MEMORYTYPE_HOST && copy->srcMemoryType <= CU_MEMORYTYPE_ARRAY &&
                 copy->dstMemoryType >= CU_MEMORYTYPE_HOST && copy->dstMemoryType <= CU_MEMORYTYPE_ARRAY;
    if (!known)
        return CUDA_ERROR_INVALID_VALUE;
    struct side from, to;
    if (copy->WidthInBytes == 0 || copy->Height == 0 || copy->Depth == 0)
        return CUDA_SUCCESS;
    return resolve_both(copy, &from, &to) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static void perform_copy(const CUDA_MEMCPY3D *copy)
{
    struct side from, to;
    if (copy->WidthInBytes == 0 || copy->Height == 0 || copy->Depth == 0 || !resolve_both(copy, &from, &to))
        return;
    for (size_t z = 0; z < copy->Depth; z++)
        for (size_t y = 0; y < copy->Height; y++)
            memmove(to.base + z * to.slice + y * to.pitch, from.base + z * from.slice + y * from.pitch,
                    copy->WidthInBytes);
}

CUresult set_check(const CUDA_MEMSET_NODE_PARAMS_v1 *set)
{
    size_t width = set->width * set->elementSize;
    if (set->elementSize != 1 && set->elementSize != 2 && set->elementSize != 4)
        return CUDA_ERROR_INVALID_VALUE;
    if (set->width == 0 || set->height == 0)
        return CUDA_SUCCESS;
    if (set->dst % set->elementSize || (set->height > 1 && set->pitch < width))
        return CUDA_ERROR_INVALID_VALUE;
    return in_device(set->dst, span(width, set->height, 1, set->pitch, 0)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static void perform_set(const CUDA_MEMSET_NODE_PARAMS_v1 *set)
{
    for (size_t y = 0; y < set->height; y++) {
        char *row = (char *)set->dst + y * set->pitch;
        if (set->elementSize == 1) {
            memset(row, (int)set->value, set->width);
            continue;
        }
        for (size_t x = 0; x < set->width; x++) {
            if (set->elementSize == 2)
                ((uint16_t *)row)[x] = (uint16_t)set->value;
            else
                ((uint32_t *)row)[x] = set->value;
        }
    }
}

// Another process may look at these words: one store, after all that was performed before.
static void perform_memory_op(const CUstreamBatchMemOpParams *op)
{
    if (op->operation == CU_STREAM_MEM_OP_WRITE_VALUE_32)
        atomic_store((_Atomic uint32_t *)op->writeValue.address, op->writeValue.value);
    else if (op->operation == CU_STREAM_MEM_OP_WRITE_VALUE_64)
        atomic_store((_Atomic uint64_t *)op->writeValue.address, op->writeValue.value64);
}

static bool compares(uint64_t seen, uint64_t wanted, unsigned flags, bool wide)
{
    switch (flags & 3) {
    case CU_STREAM_WAIT_VALUE_GEQ: // cyclic
        return wide ? (int64_t)(seen - wanted) >= 0 : (int32_t)((uint32_t)seen - (uint32_t)wanted) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
        return seen == wanted;
    case CU_STREAM_WAIT_VALUE_AND:
        return (seen & wanted) != 0;
    default:
        return wide ? ~(seen | wanted) != 0 : (uint32_t)~(seen | wanted) != 0;
    }
}

bool memory_op_waits(const CUstreamBatchMemOpParams *op)
{
    return op->operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 || op->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
}

bool memory_op_can_go(const CUstreamBatchMemOpParams *op)
{
    if (op->operation == CU_STREAM_MEM_OP_WAIT_VALUE_32)
        return compares(atomic_load((_Atomic uint32_t *)op->waitValue.address), op->waitValue.value,
                        op->waitValue.flags, false);
    if (op->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64)
        return compares(atomic_load((_Atomic uint64_t *)op->waitValue.address), op->waitValue.value64,
                        op->waitValue.flags, true);
    return true;
}

void perform(const struct work *work, uint64_t *time)
{
    switch (work->type) {
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        perform_copy(&work->copy);
        break;
    case CU_GRAPH_NODE_TYPE_MEMSET:
        perform_set(&work->set);
        break;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: {
        uint64_t now = sim_now();
        perform_memory_op(work->memory_ops.list);
        if (memory_op_waits(work->memory_ops.list))
            *time = now > *time ? now : *time;
        break;
    }
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        if (work->release.number)
            pool_returned(work->release.number);
        else
            graph_memory_free(work->release.pointer);
        break;
    default:
        break;
    }
}
