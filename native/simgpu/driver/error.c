// Names and descriptions of CUresult.  The names are generated from cuda.h; most descriptions are the name in words.
#include "driver.h"
#include "error_names.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const struct {
    CUresult result;
    const char *text;
} descriptions[] = {
    {CUDA_SUCCESS, "no error"},
    {CUDA_ERROR_INVALID_VALUE, "invalid argument"},
    {CUDA_ERROR_NOT_INITIALIZED, "initialization error"},
    {CUDA_ERROR_DEINITIALIZED, "driver shutting down"},
    {CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"},
    {CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"},
    {CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid"},
    {CUDA_ERROR_INVALID_CONTEXT, "invalid device context"},
    {CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"},
    {CUDA_ERROR_NOT_FOUND, "named symbol not found"},
    {CUDA_ERROR_NOT_READY, "device not ready"},
    {CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed"},
    {CUDA_ERROR_NOT_SUPPORTED, "operation not supported"},
    {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "operation not permitted when stream is capturing"},
    {CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "operation failed due to a previous error during capture"},
};

CUresult cuGetErrorName(CUresult error, const char **name)
{
    if (!name)
        return CUDA_ERROR_INVALID_VALUE;
    *name = NULL;
    for (unsigned i = 0; i < error_name_count; i++)
        if (error_names[i].result == (int)error)
            *name = error_names[i].name;
    return *name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char **text)
{
    static _Thread_local char words[128];
    const char *name;
    if (!text)
        return CUDA_ERROR_INVALID_VALUE;
    *text = NULL;
    CUresult result = cuGetErrorName(error, &name);
    if (result != CUDA_SUCCESS)
        return result;
    for (unsigned i = 0; i < sizeof descriptions / sizeof descriptions[0]; i++)
        if (descriptions[i].result == error)
            *text = descriptions[i].text;
    if (*text)
        return CUDA_SUCCESS;
    snprintf(words, sizeof words, "%s", strncmp(name, "CUDA_ERROR_", 11) == 0 ? name + 11 : name);
    for (char *c = words; *c; c++)
        *c = *c == '_' ? ' ' : (char)tolower((unsigned char)*c);
    *text = words;
    return CUDA_SUCCESS;
}
