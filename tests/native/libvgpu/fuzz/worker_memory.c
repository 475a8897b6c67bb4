// Linear memory, pools, physical memory and arrays.
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "worker.h"

#define MIB (UINT64_C(1) << 20)

static CUresult allocate(struct worker *worker, const struct step *step, struct holding *holding)
{
    (void)worker;
    return cuMemAlloc(&holding->handle, step->bytes);
}

// In one way or another.
static CUresult release(struct worker *worker, const struct step *step, struct holding *holding)
{
    (void)worker;
    return step->random % 8 == 0 ? cuMemFreeAsync(holding->handle, NULL) : cuMemFree(holding->handle);
}

static CUresult allocate_pitch(struct worker *worker, const struct step *step, struct holding *holding)
{
    (void)worker;
    size_t pitch, width = 1 + step->random % 3000;
    return cuMemAllocPitch(&holding->handle, &pitch, width, 1 + step->bytes / 4096, 4);
}

static CUresult allocate_managed(struct worker *worker, const struct step *step, struct holding *holding)
{
    (void)worker;
    return cuMemAllocManaged(&holding->handle, step->bytes, CU_MEM_ATTACH_GLOBAL);
}

static CUresult allocate_async(struct worker *worker, const struct step *step, struct holding *holding)
{
    (void)worker;
    return cuMemAllocAsync(&holding->handle, step->bytes, step->random % 2 ? CU_STREAM_PER_THREAD : NULL);
}

static CUresult release_async(struct worker *worker, const struct step *step, struct holding *holding)
{
    (void)worker;
    if (step->random % 8 == 0)
        return cuMemFree(holding->handle);
    return cuMemFreeAsync(holding->handle, step->random % 2 ? CU_STREAM_PER_THREAD : NULL);
}

// Of the program's own pools, or the device's.
static CUmemoryPool some_pool(struct worker *worker, const struct step *step)
{
    CUmemoryPool pool = (CUmemoryPool)(uintptr_t)worker->holdings[OP_POOL][step->random % 4].handle;
    if (!pool)
        cuDeviceGetDefaultMemPool(&pool, (CUdevice)current_card());
    return pool;
}

static CUresult allocate_from_pool(struct worker *worker, const struct step *step, struct holding *holding)
{
    return cuMemAllocFromPoolAsync(&holding->handle, step->bytes, some_pool(worker, step), NULL);
}

static CUresult make_pool(struct worker *worker, const struct step *step, struct holding *holding)
{
    (void)worker;
    CUmemPoolProps props;
    memset(&props, 0, sizeof props);
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = (int)(step->random / 8 % CARDS)};
    return cuMemPoolCreate((CUmemoryPool *)&holding->handle, &props);
}

static CUresult end_pool(struct worker *worker, const struct step *step, struct holding *holding)
{
    (void)worker, (void)step;
    return cuMemPoolDestroy((CUmemoryPool)(uintptr_t)holding->handle);
}

static CUresult trim_pool(struct worker *worker, const struct step *step, struct holding *holding)
{
    (void)holding;
    return cuMemPoolTrimTo(some_pool(worker, step), step->random % 3 * 32 * MIB);
}

static CUresult set_threshold(struct worker *worker, const struct step *step, struct holding *holding)
{
    (void)holding;
    static const cuuint64_t thresholds[] = {0, 64 * MIB, UINT64_MAX};
    cuuint64_t value = thresholds[step->random / 8 % 3];
    return cuMemPoolSetAttribute(some_pool(worker, step), CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &value);
}

static CUresult set_pool(struct worker *worker, const struct step *step, struct holding *holding)
{
    (void)holding;
    return cuDeviceSetMemPool((CUdevice)current_card(), some_pool(worker, step));
}

// ---- physical memory -------------------------------------------------------------------------------------------------

void block_unused(struct worker *worker, struct block *block)
{
    if (block->handles || block->mappings)
        return;
    // the limiter can't know whether an exported descriptor still lives
    if (block->exported)
        worker->own->beyond[block->card] += block->bytes;
    free(block);
}

static CUresult create(struct worker *worker, const struct step *step, struct holding *holding)
{
    (void)worker;
    CUmemAllocationProp prop;
    memset(&prop, 0, sizeof prop);
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = (int)(step->random % CARDS)};
    if (step->random / 2 % 8 == 0)
        prop.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
    if (step->random / 16 % 2)
        prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    CUmemGenericAllocationHandle handle;
    CUresult result = cuMemCreate(&handle, step->bytes, &prop, 0);
    if (result != CUDA_SUCCESS)
        return result;
    holding->handle = handle;
    holding->block = calloc(1, sizeof *holding->block);
    *holding->block = (struct block){.bytes = prop.location.type == CU_MEM_LOCATION_TYPE_DEVICE ? step->bytes : 0,
                                     .card = (unsigned)(step->random % CARDS),
                                     .handles = 1};
    holding->bytes = step->bytes;
    return result;
}

static CUresult release_handle(struct worker *worker, const struct step *step, struct holding *holding)
{
    (void)step;
    CUresult result = cuMemRelease(holding->handle);
    holding->block->handles--;
    block_unused(worker, holding->block);
    return result;
}

static CUresult map(struct worker *worker, const struct step *step, struct holding *holding)
{
    const struct holding *physical = &worker->holdings[OP_PHYSICAL][step->random % SLOTS];
    if (!physical->handle)
        return CUDA_SUCCESS;
    CUdeviceptr address;
    CUresult result = cuMemAddressReserve(&address, physical->bytes, 0, 0, 0);
    if (result != CUDA_SUCCESS)
        return result;
    result = cuMemMap(address, physical->bytes, 0, physical->handle, 0);
    if (result != CUDA_SUCCESS) {
        cuMemAddressFree(address, physical->bytes);
        return result;
    }
    *holding = (struct holding){.handle = address, .bytes = physical->bytes, .block = physical->block};
    holding->block->mappings++;
    return result;
}

static CUresult unmap(struct worker *worker, const struct step *step, struct holding *holding)
{
    (void)step;
    CUresult result = cuMemUnmap(holding->handle, holding->bytes);
    cuMemAddressFree(holding->handle, holding->bytes);
    holding->block->mappings--;
    block_unused(worker, holding->block);
    return result;
}

static CUresult export(struct worker *worker, const struct step *step, struct holding *holding)
{
    (void)holding;
    struct holding *physical = &worker->holdings[OP_PHYSICAL][step->slot];
    int fd;
    if (!physical->handle)
        return CUDA_SUCCESS;
    CUresult result = cuMemExportToShareableHandle(&fd, physical->handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    if (result != CUDA_SUCCESS)
        return result;
    physical->block->exported = true;
    CUmemGenericAllocationHandle imported;
    result = cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    close(fd);
    return result == CUDA_SUCCESS ? cuMemRelease(imported) : result;
}

// A handle by its address, given back at once.
static CUresult retain(struct worker *worker, const struct step *step, struct holding *holding)
{
    (void)holding;
    const struct holding *mapping = &worker->holdings[OP_MAPPING][step->slot];
    CUmemGenericAllocationHandle handle;
    if (!mapping->handle)
        return CUDA_SUCCESS;
    CUresult result = cuMemRetainAllocationHandle(&handle, (void *)mapping->handle);
    return result == CUDA_SUCCESS ? cuMemRelease(handle) : result;
}

// ---- arrays ----------------------------------------------------------------------------------------------------------

static CUDA_ARRAY3D_DESCRIPTOR shape(const struct step *step)
{
    return (CUDA_ARRAY3D_DESCRIPTOR){.Width = 1 + step->random % 1000,
                                     .Height = 1 + step->random / 1024 % 1000,
                                     .Depth = step->random >> 60 ? 0 : 4,
                                     .Format = step->random / 32 % 2 ? CU_AD_FORMAT_FLOAT : CU_AD_FORMAT_UNSIGNED_INT8,
                                     .NumChannels = 1u << (step->random >> 40) % 3};
}

static CUresult make_array(struct worker *worker, const struct step *step, struct holding *holding)
{
    (void)worker;
    CUDA_ARRAY3D_DESCRIPTOR descriptor = shape(step);
    return cuArray3DCreate((CUarray *)&holding->handle, &descriptor);
}

static CUresult end_array(struct worker *worker, const struct step *step, struct holding *holding)
{
    (void)worker, (void)step;
    return cuArrayDestroy((CUarray)(uintptr_t)holding->handle);
}

static CUresult make_mipmap(struct worker *worker, const struct step *step, struct holding *holding)
{
    (void)worker;
    CUDA_ARRAY3D_DESCRIPTOR descriptor = shape(step);
    descriptor.Depth = 0;
    return cuMipmappedArrayCreate((CUmipmappedArray *)&holding->handle, &descriptor, 1 + step->random / 64 % 5);
}

static CUresult end_mipmap(struct worker *worker, const struct step *step, struct holding *holding)
{
    (void)worker, (void)step;
    return cuMipmappedArrayDestroy((CUmipmappedArray)(uintptr_t)holding->handle);
}

const struct operation_calls memory_calls[OPERATION_COUNT] = {
    [OP_SMALL] = {allocate, release},
    [OP_BIG] = {allocate, release},
    [OP_PITCH] = {allocate_pitch, release},
    [OP_MANAGED] = {allocate_managed, release},
    [OP_ASYNC] = {allocate_async, release_async},
    [OP_FROM_POOL] = {allocate_from_pool, release_async},
    [OP_POOL] = {make_pool, end_pool},
    [OP_PHYSICAL] = {create, release_handle},
    [OP_MAPPING] = {map, unmap},
    [OP_ARRAY] = {make_array, end_array},
    [OP_MIPMAP] = {make_mipmap, end_mipmap},
    [OP_POOL_TRIM] = {trim_pool, NULL},
    [OP_POOL_THRESHOLD] = {set_threshold, NULL},
    [OP_SET_POOL] = {set_pool, NULL},
    [OP_EXPORT] = {export, NULL},
    [OP_RETAIN] = {retain, NULL},
};
