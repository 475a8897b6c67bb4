// What a function says of itself, and its parameters.
#include "module.h"

#include <string.h>

bool function_spins(const struct function *function)
{
    return strcmp(function->kernel.name, "sim_spin") == 0;
}

static uint32_t alignment_of(uint32_t size)
{
    uint32_t alignment = size & (~size + 1); // the largest power of two in it
    return alignment > 16 ? 16 : alignment;
}

static size_t offset_of(const struct image_kernel *kernel, size_t index)
{
    size_t offset = 0;
    for (size_t i = 0; i <= index; i++) {
        offset = round_up(offset, alignment_of(kernel->sizes[i]));
        if (i < index)
            offset += kernel->sizes[i];
    }
    return offset;
}

CUresult image_parameter(const struct image_kernel *kernel, size_t index, size_t *offset, size_t *size)
{
    if (!offset || !kernel || index >= kernel->parameter_count)
        return CUDA_ERROR_INVALID_VALUE;
    *offset = offset_of(kernel, index);
    if (size)
        *size = kernel->sizes[index];
    return CUDA_SUCCESS;
}

bool kernel_keep_parameters(struct kernel_work *kernel, void *const *parameters)
{
    const struct image_kernel *image = &kernel->function->kernel;
    kernel->parameters = NULL;
    unsigned count = image->parameter_count;
    if (count == 0)
        return true;
    size_t head = round_up(count * sizeof(void *), 16);
    kernel->parameter_count = count;
    kernel->block_bytes = head + offset_of(image, count - 1) + image->sizes[count - 1];
    char *block = malloc(kernel->block_bytes);
    if (!block)
        return false;
    kernel->parameters = (void **)block;
    for (unsigned i = 0; i < count; i++) {
        kernel->parameters[i] = block + head + offset_of(image, i);
        memcpy(kernel->parameters[i], parameters[i], image->sizes[i]);
    }
    return true;
}

static CUresult enter_function(CUfunction handle, struct function **function)
{
    struct context *context;
    CUresult result = enter(&context);
    if (result != CUDA_SUCCESS)
        return result;
    result = function_of(handle, context, function);
    return result == CUDA_SUCCESS ? result : leave(result);
}

CUresult function_attribute(CUfunction_attribute attribute, int *value)
{
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = 1024;
        break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
        *value = 16;
        break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
        *value = sim_model()->major * 10 + sim_model()->minor;
        break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *value = 49152;
        break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        *value = -1;
        break;
    default:
        if (attribute < 0 || attribute >= CU_FUNC_ATTRIBUTE_MAX)
            return CUDA_ERROR_INVALID_VALUE;
        *value = 0;
    }
    return CUDA_SUCCESS;
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction handle)
{
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    struct function *function;
    CUresult result = enter_function(handle, &function);
    if (result != CUDA_SUCCESS)
        return result;
    result = function_attribute(attribute, value);
    if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES && function->max_shared)
        *value = function->max_shared;
    return leave(result);
}

CUresult cuFuncSetAttribute(CUfunction handle, CUfunction_attribute attribute, int value)
{
    struct function *function;
    CUresult result = enter_function(handle, &function);
    if (result != CUDA_SUCCESS)
        return result;
    if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
        if (value < 0 || value > sim_model()->shared_optin)
            return leave(CUDA_ERROR_INVALID_VALUE);
        function->max_shared = value;
    }
    return leave(CUDA_SUCCESS);
}

CUresult cuFuncSetCacheConfig(CUfunction handle, CUfunc_cache config)
{
    struct function *function;
    CUresult result = enter_function(handle, &function);
    if (result != CUDA_SUCCESS)
        return result;
    function->cache = config;
    return leave(CUDA_SUCCESS);
}

CUresult cuFuncSetSharedMemConfig(CUfunction handle, CUsharedconfig config)
{
    (void)config;
    struct function *function;
    CUresult result = enter_function(handle, &function);
    return result == CUDA_SUCCESS ? leave(result) : result;
}

CUresult cuFuncGetModule(CUmodule *module, CUfunction handle)
{
    if (!module)
        return CUDA_ERROR_INVALID_VALUE;
    struct function *function;
    CUresult result = enter_function(handle, &function);
    if (result != CUDA_SUCCESS)
        return result;
    *module = (CUmodule)function->module;
    return leave(CUDA_SUCCESS);
}

CUresult cuFuncGetName(const char **name, CUfunction handle)
{
    if (!name)
        return CUDA_ERROR_INVALID_VALUE;
    struct function *function;
    CUresult result = enter_function(handle, &function);
    if (result != CUDA_SUCCESS)
        return result;
    *name = function->kernel.name;
    return leave(CUDA_SUCCESS);
}

CUresult cuFuncGetParamInfo(CUfunction handle, size_t index, size_t *offset, size_t *size)
{
    struct function *function;
    CUresult result = enter_function(handle, &function);
    if (result != CUDA_SUCCESS)
        return result;
    return leave(image_parameter(&function->kernel, index, offset, size));
}

CUresult cuFuncGetParamCount(CUfunction handle, size_t *count)
{
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    struct function *function;
    CUresult result = enter_function(handle, &function);
    if (result != CUDA_SUCCESS)
        return result;
    *count = function->kernel.parameter_count;
    return leave(CUDA_SUCCESS);
}

CUresult cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction handle)
{
    if (!state)
        return CUDA_ERROR_INVALID_VALUE;
    struct function *function;
    CUresult result = enter_function(handle, &function);
    if (result != CUDA_SUCCESS)
        return result;
    *state = CU_FUNCTION_LOADING_STATE_LOADED;
    return leave(CUDA_SUCCESS);
}

CUresult cuFuncLoad(CUfunction handle)
{
    struct function *function;
    CUresult result = enter_function(handle, &function);
    return result == CUDA_SUCCESS ? leave(result) : result;
}
