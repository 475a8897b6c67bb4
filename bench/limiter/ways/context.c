// Contexts: each takes VRAM before anything is allocated.
#include "way.h"

static CUresult create(CUcontext *context)
{
#if CUDA_VERSION >= 13000
    return cuCtxCreate(context, NULL, 0, 0);
#else
    return cuCtxCreate(context, 0, 0);
#endif
}

// The primary context alone: what the runner measures a context by.
static void context_alone(void)
{
    open_card();
}

static void contexts(void)
{
    open_card();
    CUcontext context;
    for (uint64_t held = context_bytes; held < goal; held += context_bytes)
        if (!granted("cuCtxCreate", create(&context), context_bytes))
            return;
}

#if CUDA_VERSION >= 12040
// In a green context, which brings the primary one in by itself.
static void green_context(void)
{
    CUdevResource all;
    CUdevResourceDesc description;
    CUgreenCtx green;
    CUcontext context;
    need("cuInit", cuInit(0));
    need("cuDeviceGetDevResource", cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
    need("cuDevResourceGenerateDesc", cuDevResourceGenerateDesc(&description, &all, 1));
    need("cuGreenCtxCreate", cuGreenCtxCreate(&green, description, 0, CU_GREEN_CTX_DEFAULT_STREAM));
    need("cuCtxFromGreenCtx", cuCtxFromGreenCtx(&context, green));
    need("cuCtxSetCurrent", cuCtxSetCurrent(context));
    fill(goal / 2);
    // what was allocated in it outlives it, or doesn't
    need("cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain(&context, 0));
    need("cuCtxSetCurrent", cuCtxSetCurrent(context));
    need("cuGreenCtxDestroy", cuGreenCtxDestroy(green));
    fill(goal);
}
#else
static void green_context(void)
{
    note("the headers have no green contexts");
}
#endif

static void only_a_context(int index)
{
    (void)index;
    open_card();
    granted("cuDevicePrimaryCtxRetain", CUDA_SUCCESS, context_bytes);
}

static void contexts_of_children(void)
{
    int count = (int)(goal / context_bytes);
    for (int i = 0; i < count; i++)
        start_child(only_a_context, i);
    await_children();
}

const struct way context_ways[] = {
    {"context_alone", context_alone},
    {"contexts", contexts},
    {"green_context", green_context},
    {"contexts_of_children", contexts_of_children},
    {0},
};
