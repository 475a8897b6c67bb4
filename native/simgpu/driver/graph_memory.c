// Memory that belongs to graphs: an address is fixed when an alloc node is made; the card is charged when a graph that
// holds it is launched, and stays charged, for the next launch of any graph, until cuDeviceGraphMemTrim.  As measured.
#include "capture.h"
#include "context.h"
#include "graph.h"
#include "memory.h"

static struct {
    uint64_t used, used_high, reserved, reserved_high; // bytes
} cards[SIM_MAX_CARDS];

static void raise(uint64_t *high, uint64_t value)
{
    if (value > *high)
        *high = value;
}

CUresult graph_memory_reserve(CUDA_MEM_ALLOC_NODE_PARAMS_v1 *parameters)
{
    unsigned card;
    const CUmemPoolProps *props = &parameters->poolProps;
    if (parameters->bytesize == 0 || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
        props->location.type != CU_MEM_LOCATION_TYPE_DEVICE || !device_card(props->location.id, &card) ||
        props->handleTypes != CU_MEM_HANDLE_TYPE_NONE)
        return CUDA_ERROR_INVALID_VALUE;
    uint64_t bytes = round_up(parameters->bytesize, BLOCK_BYTES);
    void *base = bytes < parameters->bytesize ? NULL : region_map(bytes);
    struct allocation *allocation =
        base ? allocation_add((CUdeviceptr)base, parameters->bytesize, ALLOCATION_GRAPH) : NULL;
    if (!allocation) {
        if (base)
            region_unmap(base, bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    allocation->mapped = bytes;
    allocation->card = card;
    allocation->graph.nodes = 1;
    parameters->dptr = allocation->base;
    return CUDA_SUCCESS;
}

static struct allocation *at(CUdeviceptr pointer)
{
    struct allocation *allocation = allocation_starting(pointer);
    return allocation && allocation->kind == ALLOCATION_GRAPH ? allocation : NULL;
}

void graph_memory_hold(CUdeviceptr pointer)
{
    struct allocation *allocation = at(pointer);
    if (allocation)
        allocation->graph.nodes++;
}

// The address ends when no node has it and no program either.
static void unmap_if_unused(struct allocation *allocation)
{
    if (allocation->graph.nodes > 0 || allocation->graph.live)
        return;
    region_unmap((void *)allocation->base, allocation->mapped);
    allocation_remove(allocation);
}

void graph_memory_release(CUdeviceptr pointer)
{
    struct allocation *allocation = at(pointer);
    if (!allocation)
        return;
    allocation->graph.nodes--;
    unmap_if_unused(allocation);
}

static void each_alloc(const struct graph *graph, void (*call)(struct allocation *, uint64_t *), uint64_t *sum)
{
    for (size_t i = 0; i < graph->count; i++) {
        const struct node *node = graph->nodes[i];
        struct allocation *allocation =
            node->work.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ? at(node->work.allocate.dptr) : NULL;
        if (allocation)
            call(allocation, sum);
        if (node->work.type == CU_GRAPH_NODE_TYPE_GRAPH)
            each_alloc(node->work.child, call, sum);
    }
}

static void end_life(struct allocation *allocation)
{
    if (!allocation->graph.live)
        return;
    allocation->graph.live = false;
    cards[allocation->card].used -= allocation->mapped;
}

static void count_live(struct allocation *allocation, uint64_t *count)
{
    *count += allocation->graph.live;
}

static void auto_free(struct allocation *allocation, uint64_t *unused)
{
    (void)unused;
    end_life(allocation);
}

static void add_bytes(struct allocation *allocation, uint64_t bytes[SIM_MAX_CARDS])
{
    bytes[allocation->card] += allocation->mapped;
}

static void begin_life(struct allocation *allocation, uint64_t *unused)
{
    (void)unused;
    allocation->graph.live = true;
    cards[allocation->card].used += allocation->mapped;
    raise(&cards[allocation->card].used_high, cards[allocation->card].used);
}

CUresult graph_memory_launch(const struct graph *graph, bool frees_itself)
{
    uint64_t live = 0, bytes[SIM_MAX_CARDS] = {0};
    if (frees_itself)
        each_alloc(graph, auto_free, NULL);
    each_alloc(graph, count_live, &live);
    if (live > 0)
        return CUDA_ERROR_INVALID_VALUE; // what it allocated before has not been freed
    each_alloc(graph, add_bytes, bytes);
    for (unsigned card = 0; card < SIM_MAX_CARDS; card++) {
        uint64_t wanted = cards[card].used + bytes[card];
        if (wanted <= cards[card].reserved)
            continue;
        // What was taken for another card before a failure stays reserved there, for the next launch or a trim.
        if (!memory_take(card, wanted - cards[card].reserved, SIM_SHOWN))
            return CUDA_ERROR_OUT_OF_MEMORY;
        cards[card].reserved = wanted;
        raise(&cards[card].reserved_high, wanted);
    }
    each_alloc(graph, begin_life, NULL);
    return CUDA_SUCCESS;
}

CUresult graph_memory_free(CUdeviceptr pointer)
{
    struct allocation *allocation = at(pointer);
    if (!allocation || !allocation->graph.live)
        return CUDA_ERROR_INVALID_VALUE;
    end_life(allocation);
    unmap_if_unused(allocation);
    return CUDA_SUCCESS;
}

static void trim(unsigned card)
{
    memory_give(card, cards[card].reserved - cards[card].used, SIM_SHOWN);
    cards[card].reserved = cards[card].used;
}

static void drop(struct allocation *allocation, void *card)
{
    if (allocation->kind != ALLOCATION_GRAPH || allocation->card != *(unsigned *)card)
        return;
    end_life(allocation);
    unmap_if_unused(allocation);
}

void graph_memory_drop(unsigned card)
{
    allocation_each(drop, &card);
    trim(card);
}

CUresult cuDeviceGraphMemTrim(CUdevice device)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    unsigned card;
    if (!device_card(device, &card))
        return leave(CUDA_ERROR_INVALID_DEVICE);
    trim(card);
    return leave(CUDA_SUCCESS);
}

static uint64_t *counter(unsigned card, CUgraphMem_attribute attribute)
{
    switch (attribute) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
        return &cards[card].used;
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
        return &cards[card].used_high;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
        return &cards[card].reserved;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
        return &cards[card].reserved_high;
    default:
        return NULL;
    }
}

CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void *value)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    unsigned card;
    if (!device_card(device, &card))
        return leave(CUDA_ERROR_INVALID_DEVICE);
    const uint64_t *count = counter(card, attribute);
    if (!value || !count)
        return leave(CUDA_ERROR_INVALID_VALUE);
    *(cuuint64_t *)value = *count;
    return leave(CUDA_SUCCESS);
}

CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void *value)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    unsigned card;
    if (!device_card(device, &card))
        return leave(CUDA_ERROR_INVALID_DEVICE);
    if (!value || *(const cuuint64_t *)value != 0)
        return leave(CUDA_ERROR_INVALID_VALUE);
    if (attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH)
        cards[card].used_high = cards[card].used;
    else if (attribute == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
        cards[card].reserved_high = cards[card].reserved;
    else
        return leave(CUDA_ERROR_INVALID_VALUE);
    return leave(CUDA_SUCCESS);
}
