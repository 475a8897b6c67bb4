// cuCtxSetLimit: of all limits only the stack takes memory at the call, for every thread that the card can hold.  The heap is
// taken when the first kernel that uses it is launched, and can't be changed from then on.
#include "context.h"

#define DEFAULT_STACK 1024u

void limits_set_defaults(struct context *context)
{
    for (int i = 0; i < LIMIT_COUNT; i++)
        context->limits[i] = 0;
    context->limits[CU_LIMIT_STACK_SIZE] = DEFAULT_STACK;
    context->limits[CU_LIMIT_PRINTF_FIFO_SIZE] = 1 << 20;
    context->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20;
    context->limits[CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH] = 2;
    context->limits[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048;
    context->limits[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64;
}

static uint64_t stack_overhead(size_t bytes_per_thread)
{
    const struct card_model *model = sim_model();
    uint64_t threads = (uint64_t)model->sm_count * (uint64_t)model->threads_per_sm;
    uint64_t beyond = bytes_per_thread > DEFAULT_STACK ? bytes_per_thread - DEFAULT_STACK : 0;
    return round_up(threads * beyond, 2 * MIB);
}

static CUresult set_stack(struct context *context, size_t value)
{
    if (value > 512 << 10)
        return CUDA_ERROR_INVALID_VALUE;
    uint64_t bytes = stack_overhead(value);
    sim_lock();
    bool fits = bytes <= context->stack_overhead || sim_take(context->card, bytes - context->stack_overhead, SIM_SHOWN);
    if (fits && bytes < context->stack_overhead)
        sim_give(context->card, context->stack_overhead - bytes, SIM_SHOWN);
    sim_unlock();
    if (!fits)
        return CUDA_ERROR_OUT_OF_MEMORY;
    context->stack_overhead = bytes;
    context->limits[CU_LIMIT_STACK_SIZE] = value;
    return CUDA_SUCCESS;
}

bool limits_take_heap(struct context *context)
{
    if (context->heap)
        return true;
    uint64_t bytes = round_up(context->limits[CU_LIMIT_MALLOC_HEAP_SIZE], 2 * MIB);
    sim_lock();
    bool fits = sim_take(context->card, bytes, SIM_SHOWN);
    sim_unlock();
    context->heap = fits ? bytes : 0;
    return fits;
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
    struct context *context;
    CUresult result = enter(&context);
    if (result != CUDA_SUCCESS)
        return result;
    if ((unsigned)limit >= LIMIT_COUNT)
        return leave(CUDA_ERROR_UNSUPPORTED_LIMIT);
    if (limit == CU_LIMIT_STACK_SIZE)
        return leave(set_stack(context, value));
    if (limit == CU_LIMIT_MALLOC_HEAP_SIZE && context->heap)
        return leave(CUDA_ERROR_INVALID_VALUE);
    context->limits[limit] = value;
    return leave(CUDA_SUCCESS);
}

CUresult cuCtxGetLimit(size_t *value, CUlimit limit)
{
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    struct context *context;
    CUresult result = enter(&context);
    if (result != CUDA_SUCCESS)
        return result;
    // An unknown limit is 0, not an error: programs ask for limits that are newer than the driver.
    *value = (unsigned)limit < LIMIT_COUNT ? context->limits[limit] : 0;
    return leave(CUDA_SUCCESS);
}
