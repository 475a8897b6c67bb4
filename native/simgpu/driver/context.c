// Contexts: primary and created, and each thread's stack of them.
#include "context.h"
#include "array.h"
#include "graph.h"
#include "memory.h"
#include "module.h"
#include "pool.h"
#include "stream.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STACK_DEPTH 256
#define GREEN_BYTES (2 * MIB) // of a green context beside its primary one

static struct context *contexts;
static struct context *primaries[SIM_MAX_CARDS]; // by device; kept for good, live while retained
static unsigned primary_flags[SIM_MAX_CARDS];
static unsigned long long next_id = 1;

static _Thread_local struct context *stack[STACK_DEPTH];
static _Thread_local int depth;

struct context *context_list(void)
{
    return contexts;
}

struct context *context_of(CUcontext handle)
{
    return handle_is(handle, HANDLE_CONTEXT) ? (struct context *)handle : NULL;
}

struct context *context_current(void)
{
    return depth > 0 ? context_of((CUcontext)stack[depth - 1]) : NULL;
}

bool context_current_is_destroyed(void)
{
    return depth > 0 && stack[depth - 1] && !context_current();
}

// A real context is there, in NVML's figure too, long before the call that makes it returns.
static void take_time(void)
{
    const char *ms = getenv("HAMI_SIM_CONTEXT_MS");
    if (ms)
        usleep((useconds_t)atoi(ms) * 1000);
}

static CUresult start(struct context *context, uint64_t bytes)
{
    sim_lock();
    bool fits = sim_take(context->card, bytes, SIM_SHOWN);
    if (fits)
        sim_state()->processes[sim_self()].contexts[context->card]++;
    sim_unlock();
    if (!fits)
        return CUDA_ERROR_OUT_OF_MEMORY;
    take_time();
    context->overhead = bytes;
    context->stack_overhead = context->heap = 0;
    context->id = next_id++;
    limits_set_defaults(context);
    context->next = contexts;
    contexts = context;
    handle_add(context, HANDLE_CONTEXT);
    context->legacy = stream_new(context, CU_STREAM_DEFAULT, 0);
    return CUDA_SUCCESS;
}

static bool is_in_use(unsigned card)
{
    for (const struct context *context = contexts; context; context = context->next)
        if (context->card == card)
            return true;
    return false;
}

static void stop(struct context *context)
{
    context_drain(context);
    modules_drop(context);
    streams_drop(context);
    arrays_drop(context);
    memory_drop(context);
    sim_lock();
    sim_give(context->card, context->overhead + context->stack_overhead + context->heap, SIM_SHOWN);
    sim_state()->processes[sim_self()].contexts[context->card]--;
    sim_unlock();
    struct context **link = &contexts;
    while (*link != context)
        link = &(*link)->next;
    *link = context->next;
    handle_remove(context);
    // Pools and graphs belong to the device: their memory ends with its last context.
    if (is_in_use(context->card)) {
        pools_settle(context->card);
    } else {
        pools_drop(context->card);
        graph_memory_drop(context->card);
    }
    if (depth > 0 && stack[depth - 1] == context)
        depth--;
}

static struct context *make(CUdevice device, unsigned card, unsigned flags)
{
    struct context *context = calloc(1, sizeof *context);
    if (!context)
        return NULL;
    context->device = device;
    context->card = card;
    context->flags = flags;
    context->cache_config = CU_FUNC_CACHE_PREFER_NONE;
    return context;
}

static CUresult push(struct context *context)
{
    if (depth == STACK_DEPTH)
        return CUDA_ERROR_INVALID_VALUE;
    stack[depth++] = context;
    return CUDA_SUCCESS;
}

CUresult context_start_green(CUdevice device, struct context **out)
{
    struct context *primary = primaries[device];
    struct context *context = make(device, primary->card, primary->flags);
    if (!context)
        return CUDA_ERROR_OUT_OF_MEMORY;
    context->api_version = 3020;
    CUresult result = start(context, GREEN_BYTES);
    if (result == CUDA_SUCCESS)
        *out = context;
    else
        free(context);
    return result;
}

void context_stop_green(struct context *context)
{
    struct context *primary = primaries[context->device];
    if (context_of((CUcontext)primary)) // a reset may have ended it before
        memory_hand_over(context, primary);
    stop(context);
    free(context);
}

#define SCHEDULING_FLAGS (CU_CTX_FLAGS_MASK | CU_CTX_SYNC_MEMOPS)

static CUresult create(CUcontext *out, unsigned flags, CUdevice device, unsigned api_version)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    unsigned card;
    if (!out || (flags & ~SCHEDULING_FLAGS))
        return leave(CUDA_ERROR_INVALID_VALUE);
    if (!device_card(device, &card))
        return leave(CUDA_ERROR_INVALID_DEVICE);
    struct context *context = make(device, card, flags);
    if (!context)
        return leave(CUDA_ERROR_OUT_OF_MEMORY);
    context->api_version = api_version;
    result = start(context, sim_model()->context_mib * MIB);
    if (result == CUDA_SUCCESS)
        result = push(context);
    if (result != CUDA_SUCCESS) {
        free(context);
        return leave(result);
    }
    *out = (CUcontext)context;
    return leave(CUDA_SUCCESS);
}

CUresult cuCtxCreate(CUcontext *out, unsigned int flags, CUdevice device)
{
    return create(out, flags, device, 3010);
}

CUresult cuCtxCreate_v2(CUcontext *out, unsigned int flags, CUdevice device)
{
    return create(out, flags, device, 3020);
}

CUresult cuCtxCreate_v3(CUcontext *out, CUexecAffinityParam *affinity, int count, unsigned int flags, CUdevice device)
{
    if (affinity || count)
        return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    return create(out, flags, device, 3020);
}

CUresult cuCtxCreate_v4(CUcontext *out, CUctxCreateParams *parameters, unsigned int flags, CUdevice device)
{
    if (parameters && (parameters->execAffinityParams || parameters->numExecAffinityParams))
        return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    if (parameters && parameters->cigParams)
        return CUDA_ERROR_NOT_SUPPORTED;
    return create(out, flags, device, 3020);
}

CUresult cuCtxDestroy_v2(CUcontext handle)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    struct context *context = context_of(handle);
    if (!context || context->primary)
        return leave(CUDA_ERROR_INVALID_CONTEXT);
    stop(context);
    free(context);
    return leave(CUDA_SUCCESS);
}

CUresult cuCtxDestroy(CUcontext handle)
{
    return cuCtxDestroy_v2(handle);
}

CUresult cuCtxDetach(CUcontext handle)
{
    return cuCtxDestroy_v2(handle);
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice device)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    unsigned card;
    if (!out)
        return leave(CUDA_ERROR_INVALID_VALUE);
    if (!device_card(device, &card))
        return leave(CUDA_ERROR_INVALID_DEVICE);
    struct context *context = primaries[device];
    if (!context) {
        context = primaries[device] = make(device, card, 0);
        if (!context)
            return leave(CUDA_ERROR_OUT_OF_MEMORY);
        context->primary = true;
        context->api_version = 3020;
    }
    if (!context_of((CUcontext)context)) {
        context->flags = primary_flags[device];
        result = start(context, sim_model()->context_mib * MIB);
        if (result != CUDA_SUCCESS)
            return leave(result);
    }
    context->retains++;
    *out = (CUcontext)context;
    return leave(CUDA_SUCCESS);
}

static CUresult end_primary(CUdevice device, bool reset)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    unsigned card;
    if (!device_card(device, &card))
        return leave(CUDA_ERROR_INVALID_DEVICE);
    struct context *context = primaries[device];
    bool live = context && context_of((CUcontext)context);
    if (!reset && (!live || context->retains == 0))
        return leave(CUDA_ERROR_INVALID_CONTEXT);
    if (!reset)
        context->retains--;
    if (live && (reset || context->retains == 0)) {
        stop(context);
        context->retains = 0;
    }
    return leave(CUDA_SUCCESS);
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    return end_primary(device, false);
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
    return end_primary(device, false);
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    return end_primary(device, true);
}

CUresult cuDevicePrimaryCtxReset(CUdevice device)
{
    return end_primary(device, true);
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    unsigned card;
    if (!device_card(device, &card))
        return leave(CUDA_ERROR_INVALID_DEVICE);
    if (flags & ~SCHEDULING_FLAGS)
        return leave(CUDA_ERROR_INVALID_VALUE);
    primary_flags[device] = flags;
    if (primaries[device])
        primaries[device]->flags = flags;
    return leave(CUDA_SUCCESS);
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned int flags)
{
    return cuDevicePrimaryCtxSetFlags_v2(device, flags);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    unsigned card;
    if (!flags || !active)
        return leave(CUDA_ERROR_INVALID_VALUE);
    if (!device_card(device, &card))
        return leave(CUDA_ERROR_INVALID_DEVICE);
    *flags = primary_flags[device];
    *active = primaries[device] && context_of((CUcontext)primaries[device]);
    return leave(CUDA_SUCCESS);
}

CUresult cuCtxPushCurrent_v2(CUcontext handle)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    struct context *context = context_of(handle);
    return leave(context ? push(context) : CUDA_ERROR_INVALID_CONTEXT);
}

CUresult cuCtxPushCurrent(CUcontext handle)
{
    return cuCtxPushCurrent_v2(handle);
}

CUresult cuCtxPopCurrent_v2(CUcontext *out)
{
    CUresult result = check_init();
    if (result != CUDA_SUCCESS)
        return result;
    if (depth == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    depth--;
    if (out)
        *out = (CUcontext)stack[depth];
    return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext *out)
{
    return cuCtxPopCurrent_v2(out);
}

CUresult cuCtxSetCurrent(CUcontext handle)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    if (!handle) {
        depth -= depth > 0;
        return leave(CUDA_SUCCESS);
    }
    struct context *context = context_of(handle);
    if (!context)
        return leave(CUDA_ERROR_INVALID_CONTEXT);
    depth -= depth > 0;
    return leave(push(context));
}

CUresult cuCtxGetCurrent(CUcontext *out)
{
    CUresult result = check_init();
    if (result != CUDA_SUCCESS)
        return result;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = depth > 0 ? (CUcontext)stack[depth - 1] : NULL;
    return CUDA_SUCCESS;
}

CUresult cuCtxAttach(CUcontext *out, unsigned int flags)
{
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    return cuCtxGetCurrent(out);
}
