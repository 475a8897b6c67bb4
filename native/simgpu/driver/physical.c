#define _GNU_SOURCE
#include "context.h"
#include "multicast.h"
#include "physical.h"

#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int common_file = -1;
static uint64_t common_end;

static int new_file(uint64_t bytes)
{
    int file = (int)syscall(SYS_memfd_create, "hami-sim", 1u /* MFD_CLOEXEC */);
    if (file >= 0 && ftruncate(file, (off_t)bytes) != 0) {
        close(file);
        return -1;
    }
    return file;
}

static bool give_file(struct physical *physical)
{
    if (physical->own_file) {
        physical->file = new_file(physical->bytes);
        return physical->file >= 0;
    }
    if (common_file < 0)
        common_file = new_file(INT64_MAX / 4);
    physical->file = common_file;
    physical->offset = common_end; // never used again: the file is as long as one can be, and empty
    common_end += physical->bytes;
    return common_file >= 0;
}

struct physical *physical_of(CUmemGenericAllocationHandle handle)
{
    return handle_is((void *)(uintptr_t)handle, HANDLE_PHYSICAL) ? (struct physical *)(uintptr_t)handle : NULL;
}

void physical_drop_if_unused(struct physical *physical)
{
    if (physical->handles > 0 || physical->mappings > 0)
        return;
    if (physical->own_file)
        close(physical->file);
    else
        fallocate(physical->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)physical->offset,
                  (off_t)physical->bytes);
    if (physical->on_card && !physical->imported)
        memory_give(physical->card, physical->bytes, SIM_SHOWN);
    handle_remove(physical);
    free(physical);
}

void physical_release(struct physical *physical)
{
    physical->handles--;
    physical_drop_if_unused(physical);
}

bool physical_location(const CUmemLocation *location, unsigned *card, bool *on_card)
{
    switch (location->type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
        *on_card = true;
        return device_card(location->id, card);
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
        *on_card = false;
        *card = 0;
        return true;
    default:
        return false;
    }
}

CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *props,
                                       CUmemAllocationGranularity_flags option)
{
    (void)option;
    CUresult result = check_init();
    if (result != CUDA_SUCCESS)
        return result;
    unsigned card;
    bool on_card;
    if (!granularity || !props)
        return CUDA_ERROR_INVALID_VALUE;
    if (!physical_location(&props->location, &card, &on_card))
        return CUDA_ERROR_INVALID_DEVICE;
    *granularity = PHYSICAL_GRANULARITY;
    return CUDA_SUCCESS;
}

static CUresult create(CUmemGenericAllocationHandle *out, uint64_t bytes, const CUmemAllocationProp *props)
{
    struct physical *physical = calloc(1, sizeof *physical);
    if (!physical)
        return CUDA_ERROR_OUT_OF_MEMORY;
    physical->props = *props;
    physical->bytes = bytes;
    physical->handles = 1;
    physical->own_file = props->requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    physical_location(&props->location, &physical->card, &physical->on_card);
    if (physical->on_card && !memory_take(physical->card, bytes, SIM_SHOWN)) {
        free(physical);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (!give_file(physical)) {
        if (physical->on_card)
            memory_give(physical->card, bytes, SIM_SHOWN);
        free(physical);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    handle_add(physical, HANDLE_PHYSICAL);
    *out = (CUmemGenericAllocationHandle)(uintptr_t)physical;
    return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *out, size_t size, const CUmemAllocationProp *props,
                     unsigned long long flags)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    unsigned card;
    bool on_card;
    if (!out || !props || flags || size == 0 || size % PHYSICAL_GRANULARITY || size > (size_t)INT64_MAX / 8 ||
        props->type != CU_MEM_ALLOCATION_TYPE_PINNED)
        return leave(CUDA_ERROR_INVALID_VALUE);
    if (!physical_location(&props->location, &card, &on_card))
        return leave(CUDA_ERROR_INVALID_DEVICE);
    if (props->requestedHandleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return leave(CUDA_ERROR_NOT_SUPPORTED);
    return leave(create(out, size, props));
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    struct multicast *multicast = multicast_of(handle);
    if (multicast) {
        multicast_drop(multicast);
        return leave(CUDA_SUCCESS);
    }
    struct physical *physical = physical_of(handle);
    if (!physical || physical->handles == 0)
        return leave(CUDA_ERROR_INVALID_VALUE);
    physical_release(physical);
    return leave(CUDA_SUCCESS);
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *props, CUmemGenericAllocationHandle handle)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    const struct physical *physical = physical_of(handle);
    if (!props || !physical)
        return leave(CUDA_ERROR_INVALID_VALUE);
    *props = physical->props;
    return leave(CUDA_SUCCESS);
}

CUresult cuMemExportToShareableHandle(void *out, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
                                      unsigned long long flags)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    const struct physical *physical = physical_of(handle);
    if (!out || !physical || flags)
        return leave(CUDA_ERROR_INVALID_VALUE);
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || !physical->own_file)
        return leave(CUDA_ERROR_INVALID_VALUE);
    int file = fcntl(physical->file, F_DUPFD_CLOEXEC, 3);
    if (file < 0)
        return leave(CUDA_ERROR_OPERATING_SYSTEM);
    *(int *)out = file;
    return leave(CUDA_SUCCESS);
}

struct physical *physical_import(int descriptor)
{
    int file = fcntl(descriptor, F_DUPFD_CLOEXEC, 3);
    struct stat status;
    bool is_one = file >= 0 && fstat(file, &status) == 0 && status.st_size > 0 &&
                  status.st_size % (off_t)PHYSICAL_GRANULARITY == 0;
    struct physical *physical = is_one ? calloc(1, sizeof *physical) : NULL;
    if (!physical) {
        if (file >= 0)
            close(file);
        return NULL;
    }
    struct context *context = context_current();
    *physical = (struct physical){.card = context ? context->card : 0,
                                  .on_card = true,
                                  .imported = true,
                                  .handles = 1,
                                  .bytes = (uint64_t)status.st_size,
                                  .file = file,
                                  .own_file = true};
    physical->props.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    physical->props.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    physical->props.location =
        (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = context ? context->device : 0};
    handle_add(physical, HANDLE_PHYSICAL);
    return physical;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *out, void *os_handle,
                                        CUmemAllocationHandleType type)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    if (!out || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return leave(CUDA_ERROR_INVALID_VALUE);
    struct physical *physical = physical_import((int)(intptr_t)os_handle);
    if (!physical)
        return leave(CUDA_ERROR_INVALID_VALUE);
    *out = (CUmemGenericAllocationHandle)(uintptr_t)physical;
    return leave(CUDA_SUCCESS);
}
