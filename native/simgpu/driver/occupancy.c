// Occupancy: by threads and blocks a multiprocessor only; a simulated kernel uses no registers to speak of.
#include "module.h"

static int active_blocks(int block_size, size_t shared)
{
    const struct card_model *model = sim_model();
    int by_threads = model->threads_per_sm / (int)round_up((uint64_t)block_size, 32);
    int blocks = by_threads < model->blocks_per_sm ? by_threads : model->blocks_per_sm;
    if (shared > 0 && model->shared_per_sm / (int)(shared + 1024) < blocks)
        blocks = model->shared_per_sm / (int)(shared + 1024);
    return blocks;
}

static CUresult enter_function(CUfunction handle)
{
    struct context *context;
    struct function *function;
    CUresult result = enter(&context);
    if (result != CUDA_SUCCESS)
        return result;
    return leave(function_of(handle, context, &function));
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CUfunction handle, int block_size,
                                                              size_t shared, unsigned int flags)
{
    (void)flags;
    if (!blocks || block_size <= 0 || block_size > 1024 || shared > (size_t)INT32_MAX / 2)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = enter_function(handle);
    if (result == CUDA_SUCCESS)
        *blocks = active_blocks(block_size, shared);
    return result;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction handle, int block_size, size_t shared)
{
    return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, handle, block_size, shared, 0);
}

CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block, CUfunction handle,
                                                   CUoccupancyB2DSize shared_of_block, size_t shared, int limit,
                                                   unsigned int flags)
{
    (void)flags;
    if (!grid || !block || limit < 0)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = enter_function(handle);
    if (result != CUDA_SUCCESS)
        return result;
    *block = limit > 0 && limit < 1024 ? limit : 1024;
    if (shared_of_block)
        shared = shared_of_block(*block);
    *grid = sim_model()->sm_count * active_blocks(*block, shared);
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialBlockSize(int *grid, int *block, CUfunction handle, CUoccupancyB2DSize shared_of_block,
                                          size_t shared, int limit)
{
    return cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, handle, shared_of_block, shared, limit, 0);
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, CUfunction handle, int blocks, int block_size)
{
    if (!bytes || blocks <= 0 || block_size <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = enter_function(handle);
    if (result != CUDA_SUCCESS)
        return result;
    size_t share = (size_t)(sim_model()->shared_per_sm / blocks);
    *bytes = share > 1024 ? share - 1024 : 0;
    return CUDA_SUCCESS;
}
