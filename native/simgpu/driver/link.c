// cuLink*: what was added last is what comes out, as there is nothing to compile.
#include "context.h"

#include <stdio.h>
#include <string.h>

struct linker {
    char *image;
    size_t size;
};

static struct linker *linker_of(CUlinkState handle)
{
    return handle_is(handle, HANDLE_LINK) ? (struct linker *)handle : NULL;
}

CUresult cuLinkCreate_v2(unsigned int count, CUjit_option *options, void **values, CUlinkState *out)
{
    (void)count, (void)options, (void)values;
    struct context *context;
    CUresult result = enter(&context);
    if (result != CUDA_SUCCESS)
        return result;
    struct linker *linker = out ? calloc(1, sizeof *linker) : NULL;
    if (!linker)
        return leave(CUDA_ERROR_INVALID_VALUE);
    handle_add(linker, HANDLE_LINK);
    *out = (CUlinkState)linker;
    return leave(CUDA_SUCCESS);
}

CUresult cuLinkCreate(unsigned int count, CUjit_option *options, void **values, CUlinkState *out)
{
    return cuLinkCreate_v2(count, options, values, out);
}

static CUresult keep(struct linker *linker, const void *data, size_t size)
{
    char *image = malloc(size + 1);
    if (!image)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(image, data, size);
    image[size] = '\0';
    free(linker->image);
    linker->image = image;
    linker->size = size + 1;
    return CUDA_SUCCESS;
}

CUresult cuLinkAddData_v2(CUlinkState handle, CUjitInputType type, void *data, size_t size, const char *name,
                          unsigned int count, CUjit_option *options, void **values)
{
    (void)type, (void)name, (void)count, (void)options, (void)values;
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    struct linker *linker = linker_of(handle);
    if (!linker)
        return leave(CUDA_ERROR_INVALID_HANDLE);
    return leave(data && size ? keep(linker, data, size) : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuLinkAddData(CUlinkState handle, CUjitInputType type, void *data, size_t size, const char *name,
                       unsigned int count, CUjit_option *options, void **values)
{
    return cuLinkAddData_v2(handle, type, data, size, name, count, options, values);
}

CUresult cuLinkAddFile_v2(CUlinkState handle, CUjitInputType type, const char *path, unsigned int count,
                          CUjit_option *options, void **values)
{
    FILE *file = path ? fopen(path, "re") : NULL;
    if (!file)
        return CUDA_ERROR_FILE_NOT_FOUND;
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    long size = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    char *data = size > 0 ? malloc((size_t)size) : NULL;
    rewind(file);
    if (data && fread(data, 1, (size_t)size, file) == (size_t)size)
        result = cuLinkAddData_v2(handle, type, data, (size_t)size, path, count, options, values);
    free(data);
    fclose(file);
    return result;
}

CUresult cuLinkAddFile(CUlinkState handle, CUjitInputType type, const char *path, unsigned int count,
                       CUjit_option *options, void **values)
{
    return cuLinkAddFile_v2(handle, type, path, count, options, values);
}

CUresult cuLinkComplete(CUlinkState handle, void **image, size_t *size)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    const struct linker *linker = linker_of(handle);
    if (!linker || !linker->image || !image)
        return leave(CUDA_ERROR_INVALID_VALUE);
    *image = linker->image;
    if (size)
        *size = linker->size;
    return leave(CUDA_SUCCESS);
}

CUresult cuLinkDestroy(CUlinkState handle)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    struct linker *linker = linker_of(handle);
    if (!linker)
        return leave(CUDA_ERROR_INVALID_HANDLE);
    handle_remove(linker);
    free(linker->image);
    free(linker);
    return leave(CUDA_SUCCESS);
}
