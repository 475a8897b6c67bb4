#include "array.h"
#include "capture.h"
#include "context.h"
#include "memory.h"

#define REQUIREMENT_UNIT 65536u

static struct array *arrays;
static struct mipmap *mipmaps;

struct array *array_of(CUarray handle)
{
    return handle_is(handle, HANDLE_ARRAY) ? (struct array *)handle : NULL;
}

struct mipmap *mipmap_of(CUmipmappedArray handle)
{
    return handle_is(handle, HANDLE_MIPMAP) ? (struct mipmap *)handle : NULL;
}

// Bytes of one channel; 0: a format that isn't simulated.
static size_t channel_bytes(CUarray_format format)
{
    switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
        return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
        return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
        return 4;
    default:
        return 0;
    }
}

static CUresult describe(const CUDA_ARRAY3D_DESCRIPTOR *d, struct array *array)
{
    size_t element = channel_bytes(d->Format) * d->NumChannels;
    bool channels = d->NumChannels == 1 || d->NumChannels == 2 || d->NumChannels == 4;
    if (element == 0 || !channels || d->Width == 0 || d->Width > 131072 || d->Height > 131072 || d->Depth > 16384)
        return CUDA_ERROR_INVALID_VALUE;
    array->description = *d;
    array->row_bytes = d->Width * element;
    array->rows = d->Height ? d->Height : 1;
    array->slices = d->Depth ? d->Depth : 1;
    return CUDA_SUCCESS;
}

static uint64_t bytes_of(const struct array *array)
{
    return (uint64_t)array->row_bytes * array->rows * array->slices;
}

// Address space, and room on the card unless it's to be mapped later.
static CUresult map(const struct context *context, uint64_t bytes, unsigned flags, char **base, uint64_t *mapped,
                    uint64_t *charged)
{
    uint64_t charge = flags & ARRAY_UNBACKED ? 0 : round_up(bytes, BLOCK_BYTES);
    if (charge && !memory_take(context->card, charge, SIM_SHOWN))
        return CUDA_ERROR_OUT_OF_MEMORY;
    *mapped = round_up(bytes, BLOCK_BYTES);
    *base = region_map(*mapped);
    if (!*base) {
        memory_give(context->card, charge, SIM_SHOWN);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *charged = charge;
    return CUDA_SUCCESS;
}

static void drop_array(struct array *array)
{
    struct array **link = &arrays;
    while (*link != array)
        link = &(*link)->next;
    *link = array->next;
    if (!array->mipmap) {
        region_unmap(array->base, array->mapped);
        memory_give(array->context->card, array->charged, SIM_SHOWN);
    }
    handle_remove(array);
    free(array);
}

static void drop_mipmap(struct mipmap *mipmap)
{
    struct mipmap **link = &mipmaps;
    while (*link != mipmap)
        link = &(*link)->next;
    *link = mipmap->next;
    for (unsigned i = 0; i < mipmap->level_count; i++)
        drop_array(mipmap->levels[i]);
    region_unmap(mipmap->base, mipmap->mapped);
    memory_give(mipmap->context->card, mipmap->charged, SIM_SHOWN);
    handle_remove(mipmap);
    free(mipmap);
}

void arrays_drop(struct context *context)
{
    for (struct mipmap *mipmap = mipmaps, *next; mipmap; mipmap = next) {
        next = mipmap->next;
        if (mipmap->context == context)
            drop_mipmap(mipmap);
    }
    for (struct array *array = arrays, *next; array; array = next) {
        next = array->next;
        if (array->context == context)
            drop_array(array);
    }
}

static struct array *keep(struct context *context, const struct array *array)
{
    struct array *kept = malloc(sizeof *kept);
    if (!kept)
        abort();
    *kept = *array;
    kept->context = context;
    kept->next = arrays;
    arrays = kept;
    handle_add(kept, HANDLE_ARRAY);
    return kept;
}

CUresult cuArray3DCreate_v2(CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR *description)
{
    struct context *context;
    CUresult result = enter(&context);
    if (result != CUDA_SUCCESS)
        return result;
    struct array array = {0};
    if (!out || !description)
        return leave(CUDA_ERROR_INVALID_VALUE);
    result = capture_forbids();
    if (result == CUDA_SUCCESS)
        result = describe(description, &array);
    if (result == CUDA_SUCCESS)
        result = map(context, bytes_of(&array), description->Flags, &array.base, &array.mapped, &array.charged);
    if (result == CUDA_SUCCESS)
        *out = (CUarray)keep(context, &array);
    return leave(result);
}

CUresult cuArrayCreate_v2(CUarray *out, const CUDA_ARRAY_DESCRIPTOR *d)
{
    if (!d)
        return CUDA_ERROR_INVALID_VALUE;
    const CUDA_ARRAY3D_DESCRIPTOR description = {d->Width, d->Height, 0, d->Format, d->NumChannels, 0};
    return cuArray3DCreate_v2(out, &description);
}

CUresult cuArrayDestroy(CUarray handle)
{
    struct context *context;
    CUresult result = enter(&context);
    if (result != CUDA_SUCCESS)
        return result;
    struct array *array = array_of(handle);
    if (!array || array->mipmap)
        return leave(CUDA_ERROR_INVALID_HANDLE);
    context_drain(array->context);
    drop_array(array);
    return leave(CUDA_SUCCESS);
}

CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *out, CUarray handle)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    const struct array *array = array_of(handle);
    if (!out || !array)
        return leave(out ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE);
    *out = array->description;
    return leave(CUDA_SUCCESS);
}

CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *out, CUarray handle)
{
    CUDA_ARRAY3D_DESCRIPTOR d;
    CUresult result = out ? cuArray3DGetDescriptor_v2(&d, handle) : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *out = (CUDA_ARRAY_DESCRIPTOR){d.Width, d.Height, d.Format, d.NumChannels};
    return result;
}

static CUresult requirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *out, uint64_t bytes, unsigned flags, CUdevice device)
{
    unsigned card;
    if (!device_card(device, &card))
        return CUDA_ERROR_INVALID_DEVICE;
    if (!(flags & ARRAY_UNBACKED))
        return CUDA_ERROR_INVALID_VALUE; // as measured
    *out = (CUDA_ARRAY_MEMORY_REQUIREMENTS){.size = round_up(bytes, REQUIREMENT_UNIT), .alignment = REQUIREMENT_UNIT};
    return CUDA_SUCCESS;
}

CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *out, CUarray handle, CUdevice device)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    const struct array *array = array_of(handle);
    if (!out || !array)
        return leave(CUDA_ERROR_INVALID_VALUE);
    return leave(requirements(out, bytes_of(array), array->description.Flags, device));
}

static size_t halved(size_t value, unsigned level)
{
    size_t half = value >> level;
    return value == 0 ? 0 : half ? half : 1;
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray *out, const CUDA_ARRAY3D_DESCRIPTOR *description, unsigned int levels)
{
    struct context *context;
    CUresult result = enter(&context);
    if (result != CUDA_SUCCESS)
        return result;
    if (!out || !description || levels == 0)
        return leave(CUDA_ERROR_INVALID_VALUE);
    result = capture_forbids();
    struct array arrays_of_level[ARRAY_LEVELS] = {0};
    uint64_t bytes = 0;
    levels = levels > ARRAY_LEVELS ? ARRAY_LEVELS : levels;
    for (unsigned i = 0; i < levels && result == CUDA_SUCCESS; i++) {
        CUDA_ARRAY3D_DESCRIPTOR d = *description;
        d.Width = halved(d.Width, i);
        d.Height = halved(d.Height, i);
        if (!(d.Flags & CUDA_ARRAY3D_LAYERED))
            d.Depth = halved(d.Depth, i);
        result = describe(&d, &arrays_of_level[i]);
        bytes += bytes_of(&arrays_of_level[i]);
    }
    struct mipmap *mipmap = calloc(1, sizeof *mipmap);
    if (!mipmap)
        abort();
    if (result == CUDA_SUCCESS)
        result = map(context, bytes, description->Flags, &mipmap->base, &mipmap->mapped, &mipmap->charged);
    if (result != CUDA_SUCCESS) {
        free(mipmap);
        return leave(result);
    }
    mipmap->context = context;
    mipmap->description = *description;
    mipmap->level_count = levels;
    char *at = mipmap->base;
    for (unsigned i = 0; i < levels; i++) {
        arrays_of_level[i].base = at;
        arrays_of_level[i].mipmap = mipmap;
        at += bytes_of(&arrays_of_level[i]);
        mipmap->levels[i] = keep(context, &arrays_of_level[i]);
    }
    mipmap->next = mipmaps;
    mipmaps = mipmap;
    handle_add(mipmap, HANDLE_MIPMAP);
    *out = (CUmipmappedArray)mipmap;
    return leave(CUDA_SUCCESS);
}

CUresult cuMipmappedArrayGetLevel(CUarray *out, CUmipmappedArray handle, unsigned int level)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    const struct mipmap *mipmap = mipmap_of(handle);
    if (!mipmap)
        return leave(CUDA_ERROR_INVALID_HANDLE);
    if (!out || level >= mipmap->level_count)
        return leave(CUDA_ERROR_INVALID_VALUE);
    *out = (CUarray)mipmap->levels[level];
    return leave(CUDA_SUCCESS);
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray handle)
{
    struct context *context;
    CUresult result = enter(&context);
    if (result != CUDA_SUCCESS)
        return result;
    struct mipmap *mipmap = mipmap_of(handle);
    if (!mipmap)
        return leave(CUDA_ERROR_INVALID_HANDLE);
    context_drain(mipmap->context);
    drop_mipmap(mipmap);
    return leave(CUDA_SUCCESS);
}

CUresult cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *out, CUmipmappedArray handle,
                                               CUdevice device)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    const struct mipmap *mipmap = mipmap_of(handle);
    if (!out || !mipmap)
        return leave(CUDA_ERROR_INVALID_VALUE);
    return leave(requirements(out, mipmap->mapped, mipmap->description.Flags, device));
}
