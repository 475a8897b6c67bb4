// Launching kernels.  A kernel named sim_spin takes as much of the card's time as its parameter says, in ns; any other
// takes a nominal 5 us.  None touches memory.
#include "launch.h"
#include "module.h"
#include "stream.h"

#include <string.h>

// The parameters may come as one buffer instead of as pointers.
static CUresult parameters_in_buffer(const struct function *function, void **extra, void **pointers)
{
    char *buffer = NULL;
    size_t size = 0;
    for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
        if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[1];
        else if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE)
            size = *(size_t *)extra[1];
        else
            return CUDA_ERROR_INVALID_VALUE;
    }
    for (unsigned i = 0; i < function->kernel.parameter_count; i++) {
        size_t offset = 0, bytes = 0;
        image_parameter(&function->kernel, i, &offset, &bytes);
        if (!buffer || offset + bytes > size)
            return CUDA_ERROR_INVALID_VALUE;
        pointers[i] = buffer + offset;
    }
    return CUDA_SUCCESS;
}

static bool is_dimension(const unsigned value[3])
{
    return value[0] > 0 && value[1] > 0 && value[2] > 0;
}

CUresult kernel_prepare(struct context *context, CUfunction handle, const unsigned grid[3], const unsigned block[3],
                        unsigned shared, void **parameters, void **extra, struct work *work)
{
    struct kernel_work kernel = {.shared = shared};
    CUresult result = function_of(handle, context, &kernel.function);
    if (result != CUDA_SUCCESS)
        return result;
    if (handle_is(handle, HANDLE_KERNEL))
        kernel.kernel = (CUkernel)handle;
    if (!is_dimension(grid) || !is_dimension(block) || (parameters && extra) || grid[1] > 65535 || grid[2] > 65535 ||
        (uint64_t)block[0] * block[1] * block[2] > 1024)
        return CUDA_ERROR_INVALID_VALUE;
    void *pointers[MAX_PARAMETERS];
    if (extra) {
        result = parameters_in_buffer(kernel.function, extra, pointers);
        if (result != CUDA_SUCCESS)
            return result;
        parameters = pointers;
    }
    if (kernel.function->kernel.parameter_count > 0 && !parameters)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(kernel.grid, grid, sizeof kernel.grid);
    memcpy(kernel.block, block, sizeof kernel.block);
    if (!kernel_keep_parameters(&kernel, parameters))
        return CUDA_ERROR_OUT_OF_MEMORY;
    *work = (struct work){.type = CU_GRAPH_NODE_TYPE_KERNEL, .context = context, .kernel = kernel};
    return CUDA_SUCCESS;
}

static CUresult launch(CUfunction function, const unsigned grid[3], const unsigned block[3], unsigned shared,
                       CUstream handle, void **parameters, void **extra)
{
    struct context *context;
    struct stream *stream;
    CUresult result = enter_stream(handle, &context, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    struct work work;
    result = kernel_prepare(stream->context, function, grid, block, shared, parameters, extra, &work);
    if (result == CUDA_SUCCESS && work.kernel.function->module->image.uses_heap && !limits_take_heap(stream->context))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    if (result == CUDA_SUCCESS && !stream->capture)
        context_make_room(stream->context);
    if (result == CUDA_SUCCESS)
        result = stream_submit(stream, &work);
    return leave(result);
}

CUresult cuLaunchKernel(CUfunction function, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
                        unsigned int by, unsigned int bz, unsigned int shared, CUstream stream, void **parameters,
                        void **extra)
{
    const unsigned grid[3] = {gx, gy, gz}, block[3] = {bx, by, bz};
    return launch(function, grid, block, shared, stream, parameters, extra);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra)
{
    if (!config || (config->numAttrs && !config->attrs))
        return CUDA_ERROR_INVALID_VALUE;
    const unsigned grid[3] = {config->gridDimX, config->gridDimY, config->gridDimZ};
    const unsigned block[3] = {config->blockDimX, config->blockDimY, config->blockDimZ};
    return launch(function, grid, block, config->sharedMemBytes, config->hStream, parameters, extra);
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned int gx, unsigned int gy, unsigned int gz,
                                   unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
                                   CUstream stream, void **parameters)
{
    const unsigned grid[3] = {gx, gy, gz}, block[3] = {bx, by, bz};
    return launch(function, grid, block, shared, stream, parameters, NULL);
}
