// The charge is CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT of the card, read after whatever may move it.  Before a launch the graph's
// allocation nodes are summed, which is the most it can take: what earlier launches reserved may lie idle or be in use by other
// graphs.  Only a graph that frees its own memory when it is launched again has what it needs once it has run.
// Graphs without such nodes, nearly all, cost one load.
// Owns: the graph charge by card, changed only under `lock`, and the OBJECT_GRAPH records.
#include "graph.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "arithmetic.h"
#include "capture.h"
#include "cards.h"
#include "charge.h"
#include "driver.h"
#include "footprint.h"
#include "member.h"
#include "share.h"
#include "slice.h"

#define STEP (UINT64_C(32) << 20)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t charged[HAMI_MAX_CARDS];
static _Atomic uint32_t trims; // a graph launched before the last trim may have lost its memory
static _Atomic bool any_graph;

static uint64_t attribute(CUdevice device, CUgraphMem_attribute which)
{
    cuuint64_t value = 0;
    CUstreamCaptureMode mode = capture_relax();
    CUresult result = REAL(cuDeviceGetGraphMemAttribute)(device, which, &value);
    capture_restore(mode);
    return result == CUDA_SUCCESS ? value : 0;
}

// With `lock` held.
static void settle(int card)
{
    CUdevice device;
    struct ledger *ledger = member_ledger();
    if (!ledger || !cards_device(card, &device))
        return;
    uint64_t reserved = attribute(device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT);
    if (reserved > charged[card])
        ledger_add(ledger, (unsigned)card, reserved - charged[card]);
    else
        ledger_release(ledger, (unsigned)card, charged[card] - reserved);
    charged[card] = reserved;
}

void graph_refresh(int card)
{
    if (!atomic_load_explicit(&any_graph, memory_order_relaxed))
        return;
    pthread_mutex_lock(&lock);
    settle(card);
    pthread_mutex_unlock(&lock);
}

void graph_trim(int card)
{
    CUdevice device;
    if (!atomic_load_explicit(&any_graph, memory_order_relaxed) || !cards_device(card, &device))
        return;
    CUstreamCaptureMode mode = capture_relax();
    REAL(cuDeviceGraphMemTrim)(device);
    capture_restore(mode);
    atomic_fetch_add(&trims, 1);
    graph_refresh(card);
}

CUresult cuDeviceGraphMemTrim(CUdevice device)
{
    enum driver_mode mode = cuda_enter();
    CUresult result = REAL(cuDeviceGraphMemTrim)(device);
    int card = mode == DRIVER_ACTIVE ? cards_accounted(device) : CARD_NONE;
    if (card >= 0) {
        atomic_fetch_add(&trims, 1);
        graph_refresh(card);
    }
    return result;
}

// ---- what a graph needs ----------------------------------------------------------------------------------------------

struct need {
    int card;
    uint64_t bytes;
};

static void add_node(struct need *need, CUgraphNode node);

static void add_graph(struct need *need, CUgraph graph)
{
    size_t count = 0;
    if (REAL(cuGraphGetNodes)(graph, NULL, &count) != CUDA_SUCCESS || !count)
        return;
    CUgraphNode *nodes = calloc(count, sizeof *nodes);
    if (nodes && REAL(cuGraphGetNodes)(graph, nodes, &count) == CUDA_SUCCESS)
        for (size_t i = 0; i < count; i++)
            add_node(need, nodes[i]);
    free(nodes);
}

static void add_node(struct need *need, CUgraphNode node)
{
    CUgraphNodeType type;
    CUgraph child;
    CUDA_MEM_ALLOC_NODE_PARAMS params;
    if (REAL(cuGraphNodeGetType)(node, &type) != CUDA_SUCCESS)
        return;
    if (type == CU_GRAPH_NODE_TYPE_GRAPH && REAL(cuGraphChildGraphNodeGetGraph)(node, &child) == CUDA_SUCCESS)
        add_graph(need, child);
    if (type != CU_GRAPH_NODE_TYPE_MEM_ALLOC || REAL(cuGraphMemAllocNodeGetParams)(node, &params) != CUDA_SUCCESS)
        return;
    need->card = cards_accounted(params.poolProps.location.id);
    uint64_t bytes = params.bytesize > UINT64_MAX - STEP ? UINT64_MAX : charge_round(params.bytesize);
    need->bytes = need->bytes > UINT64_MAX - bytes ? UINT64_MAX : need->bytes + bytes;
}

// ---- instantiate -------------------------------------------------------------------------------------------------------

static bool may_instantiate(void)
{
    return cuda_enter() != DRIVER_REFUSE;
}

static bool frees_itself(CUgraphExec exec)
{
    cuuint64_t flags = 0;
    return CUDA_HAS(cuGraphExecGetFlags) && REAL(cuGraphExecGetFlags)(exec, &flags) == CUDA_SUCCESS &&
           (flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
}

// Code and static data of the graph's kernels come in here, so the figure is read; a graph that doesn't fit is destroyed again.
static CUresult instantiated(CUresult result, CUgraphExec *exec, CUgraph graph, const struct measure *measure,
                             const char *call)
{
    if (result != CUDA_SUCCESS || cuda_enter() != DRIVER_ACTIVE)
        return result;
    struct need need = {.card = CARD_NONE};
    add_graph(&need, graph);
    if (need.bytes && need.card != CARD_NONE) {
        objects_put(&(struct object){.key = (uint64_t)(uintptr_t)*exec,
                                     .kind = OBJECT_GRAPH,
                                     .flags = frees_itself(*exec) ? OBJECT_FREES_ITSELF : 0,
                                     .card = -1,
                                     .bytes = need.bytes,
                                     .value = (uint64_t)(uint32_t)(need.card + 4)});
        atomic_store(&any_graph, true);
    }
    footprint_after(measure);
    if (measure->card < 0 || !charge_over_limit(measure->card))
        return result;
    struct object object;
    objects_take(OBJECT_GRAPH, (uint64_t)(uintptr_t)*exec, &object);
    REAL(cuGraphExecDestroy)(*exec);
    footprint_refresh(measure->card);
    return charge_undone(measure->card, 0, call);
}

#define INSTANTIATE(call_driver)                                                                                       \
    if (!may_instantiate())                                                                                            \
        return CUDA_ERROR_NOT_PERMITTED;                                                                               \
    struct measure measure;                                                                                            \
    footprint_before(&measure, cuda_enter() == DRIVER_ACTIVE ? cards_current() : CARD_NONE);                           \
    return instantiated(call_driver, phGraphExec, hGraph, &measure, __func__)

CUresult cuGraphInstantiate(CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode, char *logBuffer,
                            size_t bufferSize)
{
    INSTANTIATE(REAL(cuGraphInstantiate)(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize));
}

CUresult cuGraphInstantiate_v2(CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode, char *logBuffer,
                               size_t bufferSize)
{
    INSTANTIATE(REAL(cuGraphInstantiate_v2)(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize));
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *phGraphExec, CUgraph hGraph, unsigned long long flags)
{
    INSTANTIATE(REAL(cuGraphInstantiateWithFlags)(phGraphExec, hGraph, flags));
}

CUresult cuGraphInstantiateWithParams(CUgraphExec *phGraphExec, CUgraph hGraph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
    INSTANTIATE(REAL(cuGraphInstantiateWithParams)(phGraphExec, hGraph, instantiateParams));
}

CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec *phGraphExec, CUgraph hGraph,
                                           CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
    INSTANTIATE(REAL(cuGraphInstantiateWithParams_ptsz)(phGraphExec, hGraph, instantiateParams));
}

CUresult cuGraphExecDestroy(CUgraphExec hGraphExec)
{
    struct object object;
    bool known = cuda_enter() == DRIVER_ACTIVE && objects_take(OBJECT_GRAPH, (uint64_t)(uintptr_t)hGraphExec, &object);
    CUresult result = REAL(cuGraphExecDestroy)(hGraphExec);
    if (known && result != CUDA_SUCCESS)
        objects_put(&object);
    return result;
}

static CUresult updated(CUresult result, CUgraphExec exec, CUgraph graph)
{
    struct object object;
    if (result == CUDA_SUCCESS && cuda_enter() == DRIVER_ACTIVE &&
        objects_find(OBJECT_GRAPH, (uint64_t)(uintptr_t)exec, &object)) {
        struct need need = {.card = CARD_NONE};
        add_graph(&need, graph);
        object.bytes = need.bytes;
        objects_put(&object);
    }
    return result;
}

CUresult cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphNode *hErrorNode_out,
                           CUgraphExecUpdateResult *updateResult_out)
{
    cuda_enter();
    return updated(REAL(cuGraphExecUpdate)(hGraphExec, hGraph, hErrorNode_out, updateResult_out), hGraphExec, hGraph);
}

CUresult cuGraphExecUpdate_v2(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphExecUpdateResultInfo *resultInfo)
{
    cuda_enter();
    return updated(REAL(cuGraphExecUpdate_v2)(hGraphExec, hGraph, resultInfo), hGraphExec, hGraph);
}

// ---- launch ------------------------------------------------------------------------------------------------------------

// In `value`: the card in the low half, in the high half 1 + the count of trims at its last launch.
static bool has_its_memory(const struct object *object)
{
    return (object->flags & OBJECT_FREES_ITSELF) && object->value >> 32 == (uint64_t)atomic_load(&trims) + 1;
}

// What the launch may take beyond what the card has reserved for graphs already.
static uint64_t growth(int card, uint64_t bytes)
{
    CUdevice device;
    if (!cards_device(card, &device))
        return bytes;
    uint64_t reserved = attribute(device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT);
    uint64_t used = attribute(device, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT);
    return less(bytes, less(reserved, used));
}

typedef CUresult (*start)(CUgraphExec, CUstream);

// Room that was made by a trim came out of what lay idle, and that has to be taken anew.
static CUresult reserve_growth(struct charge *charge, int card, uint64_t bytes, const char *call)
{
    uint32_t before = atomic_load(&trims);
    CUresult refused = charge_card(charge, card, growth(card, bytes), call);
    if (refused != CUDA_SUCCESS || atomic_load(&trims) == before)
        return refused;
    charge_finish(charge, CUDA_ERROR_UNKNOWN);
    return charge_card(charge, card, growth(card, bytes), call);
}

static CUresult start_with_memory(start real, CUgraphExec exec, CUstream stream, struct object *object,
                                  const char *call)
{
    int card = (int)(uint32_t)object->value - 4;
    struct charge charge;
    CUresult refused = reserve_growth(&charge, card, object->bytes, call);
    if (refused != CUDA_SUCCESS)
        return refused;
    charge_mark_estimate(&charge);
    CUresult result = real(exec, stream);
    if (result == CUDA_SUCCESS) {
        object->value = (uint32_t)object->value | ((uint64_t)atomic_load(&trims) + 1) << 32;
        objects_put(object);
    }
    graph_refresh(card);
    charge_finish(&charge, CUDA_ERROR_UNKNOWN); // the card's graph charge holds it now
    return result;
}

static CUresult start_graph(start real, CUgraphExec exec, CUstream stream, bool per_thread, const char *call)
{
    struct object object;
    if (!atomic_load_explicit(&any_graph, memory_order_relaxed) ||
        !objects_find(OBJECT_GRAPH, (uint64_t)(uintptr_t)exec, &object) || has_its_memory(&object) ||
        capture_active(stream, per_thread))
        return real(exec, stream);
    return start_with_memory(real, exec, stream, &object, call);
}

// A graph's cost is learned as a whole, like a kernel's.
static CUresult launch_graph(start real, CUgraphExec exec, CUstream stream, bool per_thread, const char *call)
{
    cuda_enter();
    struct share_ticket ticket = share_enter(exec, 0, stream, per_thread);
    CUresult result = start_graph(real, exec, stream, per_thread, call);
    share_leave(&ticket);
    return result;
}

CUresult cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream)
{
    return launch_graph(REAL(cuGraphLaunch), hGraphExec, hStream, false, __func__);
}

CUresult cuGraphLaunch_ptsz(CUgraphExec hGraphExec, CUstream hStream)
{
    return launch_graph(REAL(cuGraphLaunch_ptsz), hGraphExec, hStream, true, __func__);
}

CUresult cuGraphUpload(CUgraphExec hGraphExec, CUstream hStream)
{
    cuda_enter();
    return start_graph(REAL(cuGraphUpload), hGraphExec, hStream, false, __func__);
}

CUresult cuGraphUpload_ptsz(CUgraphExec hGraphExec, CUstream hStream)
{
    cuda_enter();
    return start_graph(REAL(cuGraphUpload_ptsz), hGraphExec, hStream, true, __func__);
}

void graph_after_fork(void)
{
    pthread_mutex_init(&lock, NULL);
    for (int card = 0; card < HAMI_MAX_CARDS; card++)
        charged[card] = 0;
    atomic_store(&any_graph, false);
}
