#include "check.h"

#include <pthread.h>

static size_t count_nodes(CUgraph graph)
{
    size_t count = 0;
    OK(cuGraphGetNodes(graph, NULL, &count));
    return count;
}

static size_t count_edges(CUgraph graph)
{
    size_t count = 0;
    OK(cuGraphGetEdges(graph, NULL, NULL, &count));
    return count;
}

static int calls;

static void CUDA_CB call(void *unused)
{
    (void)unused;
    calls++;
}

static CUstream new_stream(void)
{
    CUstream stream;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
}

static void run(CUgraph graph, CUstream stream)
{
    CUgraphExec exec;
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuGraphExecDestroy(exec));
}

CASE(captured_work_runs_when_its_graph_does)
{
    start();
    CUfunction function = spinner();
    CUstream stream = new_stream();
    CUgraph graph;
    CUdeviceptr pointer;
    unsigned value = 0;
    CUstreamCaptureStatus status;
    OK(cuMemAlloc_v2(&pointer, 4));
    OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuStreamIsCapturing(stream, &status));
    GIVES(CU_STREAM_CAPTURE_STATUS_ACTIVE, status);
    spin(function, stream, 1000000);
    OK(cuMemsetD32Async(pointer, 11, 1, stream));
    OK(cuMemcpyDtoHAsync_v2(&value, pointer, 4, stream));
    OK(cuLaunchHostFunc(stream, call, NULL));
    OK(cuStreamEndCapture(stream, &graph));
    GIVES(4, count_nodes(graph));
    GIVES(3, count_edges(graph));
    OK(cuCtxSynchronize());
    GIVES(0, value);
    GIVES(0, hamisim_busy_for(0, 0));
    run(graph, stream);
    GIVES(11, value);
    GIVES(1, calls);
    GIVES(1000000, hamisim_busy_for(0, 0));
    run(graph, stream);
    GIVES(2, calls);
    OK(cuGraphDestroy(graph));
}

CASE(a_kernels_parameters_are_copied)
{
    start();
    CUfunction function = spinner();
    CUstream stream = new_stream();
    CUgraph graph;
    OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    for (uint64_t i = 1; i <= 3; i++)
        spin(function, stream, i * 1000);
    OK(cuStreamEndCapture(stream, &graph));
    run(graph, stream);
    GIVES(6000, hamisim_busy_for(0, 0));
}

CASE(a_capture_forks_and_joins_by_events)
{
    start();
    CUfunction function = spinner();
    CUstream a = new_stream(), b = new_stream();
    CUevent fork_event, join_event;
    CUgraph graph;
    CUstreamCaptureStatus status;
    OK(cuEventCreate(&fork_event, CU_EVENT_DISABLE_TIMING));
    OK(cuEventCreate(&join_event, CU_EVENT_DISABLE_TIMING));
    OK(cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_GLOBAL));
    spin(function, a, 1000);
    OK(cuEventRecord(fork_event, a));
    GIVES(CUDA_ERROR_CAPTURED_EVENT, cuEventQuery(fork_event));
    OK(cuStreamWaitEvent(b, fork_event, 0));
    OK(cuStreamIsCapturing(b, &status));
    GIVES(CU_STREAM_CAPTURE_STATUS_ACTIVE, status);
    spin(function, a, 1000);
    spin(function, b, 1000);
    OK(cuEventRecord(join_event, b));
    OK(cuStreamWaitEvent(a, join_event, 0));
    spin(function, a, 1000);
    OK(cuStreamEndCapture(a, &graph));
    OK(cuStreamIsCapturing(b, &status));
    GIVES(CU_STREAM_CAPTURE_STATUS_NONE, status);
    GIVES(4, count_nodes(graph));
    GIVES(4, count_edges(graph));
    run(graph, b);
    GIVES(4000, hamisim_busy_for(0, 0));
}

CASE(an_unjoined_stream_voids_the_capture)
{
    start();
    CUfunction function = spinner();
    CUstream a = new_stream(), b = new_stream();
    CUevent event;
    CUgraph graph;
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    OK(cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuEventRecord(event, a));
    OK(cuStreamWaitEvent(b, event, 0));
    spin(function, b, 1000);
    GIVES(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, cuStreamEndCapture(b, &graph));
    GIVES(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, cuStreamEndCapture(a, &graph));
    TRUE(graph == NULL);
    GIVES(CUDA_ERROR_ILLEGAL_STATE, cuStreamEndCapture(a, &graph));
}

CASE(what_a_capture_forbids)
{
    start();
    CUstream stream = new_stream();
    CUgraph graph;
    CUdeviceptr pointer;
    static char page[4096];
    CUstreamCaptureStatus status;
    OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    GIVES(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuMemAlloc_v2(&pointer, 100));
    OK(cuStreamIsCapturing(stream, &status));
    GIVES(CU_STREAM_CAPTURE_STATUS_INVALIDATED, status);
    GIVES(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuLaunchHostFunc(stream, call, NULL));
    GIVES(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(stream, &graph));
    OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    GIVES(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuMemHostRegister_v2(page, sizeof page, 0));
    GIVES(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(stream, &graph));
    OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    GIVES(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamSynchronize(stream));
    GIVES(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(stream, &graph));
    GIVES(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamBeginCapture_v2(NULL, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuMemAlloc_v2(&pointer, 100));
}

CASE(a_relaxed_capture_allows_all_that)
{
    start();
    CUstream stream = new_stream();
    CUgraph graph;
    CUdeviceptr pointer;
    OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuMemAlloc_v2(&pointer, 100));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    GIVES(CU_STREAM_CAPTURE_MODE_GLOBAL, mode);
    OK(cuMemFree_v2(pointer));
    OK(cuStreamEndCapture(stream, &graph));
}

CASE(the_legacy_stream_may_not_be_used_beside_a_blocking_capture)
{
    start();
    CUstream stream;
    CUgraph graph;
    CUstreamCaptureStatus status;
    OK(cuStreamCreate(&stream, 0));
    OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    GIVES(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cuLaunchHostFunc(NULL, call, NULL));
    GIVES(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(stream, &graph));
    OK(cuStreamIsCapturing(NULL, &status));
    GIVES(CU_STREAM_CAPTURE_STATUS_NONE, status);
}

CASE(events_from_outside_are_refused)
{
    start();
    CUstream stream = new_stream(), other = new_stream();
    CUevent event;
    CUgraph graph;
    OK(cuEventCreate(&event, 0));
    OK(cuEventRecord(event, other));
    OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    GIVES(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, cuStreamWaitEvent(stream, event, 0));
    GIVES(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(stream, &graph));
}

static void *end_elsewhere(void *arguments)
{
    void **list = arguments;
    CUgraph graph;
    OK(cuCtxSetCurrent(list[0]));
    GIVES(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, cuStreamEndCapture(list[1], &graph));
    return NULL;
}

CASE(a_capture_ends_in_its_own_thread)
{
    CUcontext context = start();
    CUstream stream = new_stream();
    CUgraph graph;
    pthread_t thread;
    void *arguments[] = {context, stream};
    OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    OK(pthread_create(&thread, NULL, end_elsewhere, arguments));
    OK(pthread_join(thread, NULL));
    OK(cuStreamEndCapture(stream, &graph));
}

CASE(capture_info_and_its_dependencies)
{
    start();
    CUfunction function = spinner();
    CUstream stream = new_stream();
    CUstreamCaptureStatus status;
    cuuint64_t id;
    CUgraph graph, ended;
    CUgraphNode extra;
    const CUgraphNode *tips;
    size_t count;
    OK(cuStreamGetCaptureInfo(stream, &status, &id));
    GIVES(CU_STREAM_CAPTURE_STATUS_NONE, status);
    OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    spin(function, stream, 1000);
    OK(cuStreamGetCaptureInfo_v2(stream, &status, &id, &graph, &tips, &count));
    GIVES(CU_STREAM_CAPTURE_STATUS_ACTIVE, status);
    GIVES(1, count);
    OK(cuGraphAddEmptyNode(&extra, graph, tips, 1));
    OK(cuStreamUpdateCaptureDependencies(stream, &extra, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
    spin(function, stream, 1000);
    OK(cuStreamEndCapture(stream, &ended));
    TRUE(ended == graph);
    GIVES(3, count_nodes(graph));
    GIVES(2, count_edges(graph));
}

CASE(capture_into_a_given_graph)
{
    start();
    CUstream stream = new_stream();
    CUgraph graph, ended;
    CUgraphNode root;
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddEmptyNode(&root, graph, NULL, 0));
    OK(cuStreamBeginCaptureToGraph(stream, graph, &root, NULL, 1, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuLaunchHostFunc(stream, call, NULL));
    OK(cuStreamEndCapture(stream, &ended));
    TRUE(ended == graph);
    GIVES(2, count_nodes(graph));
    GIVES(1, count_edges(graph));
}

CASE(allocations_in_a_capture_belong_to_the_graph)
{
    start();
    CUstream stream = new_stream();
    CUdeviceptr pointer;
    CUgraph graph;
    OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuMemAllocAsync(&pointer, 64 * MIB, stream));
    OK(cuMemsetD8Async(pointer, 1, 100, stream));
    OK(cuMemFreeAsync(pointer, stream));
    OK(cuStreamEndCapture(stream, &graph));
    GIVES(3, count_nodes(graph));
    GIVES(104, held());
    run(graph, stream);
    GIVES(104 + 64, held());
    OK(cuDeviceGraphMemTrim(0));
    GIVES(104, held());
}

CASE(marks_written_in_a_capture_become_part_of_the_graph)
{
    start();
    CUstream stream = new_stream();
    static uint32_t page[1024];
    CUgraph graph;
    OK(cuMemHostRegister_v2(page, sizeof page, 0));
    OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuStreamWriteValue32_v2(stream, (CUdeviceptr)page, 3, 0));
    OK(cuStreamEndCapture(stream, &graph));
    GIVES(0, page[0]);
    run(graph, stream);
    GIVES(3, page[0]);
}

CASE(a_graph_launched_in_a_capture_becomes_a_child)
{
    start();
    CUfunction function = spinner();
    CUstream stream = new_stream();
    CUgraph inner, outer;
    CUgraphExec exec;
    CUgraphNode node;
    CUgraphNodeType type;
    size_t one = 1;
    OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    spin(function, stream, 1000);
    OK(cuStreamEndCapture(stream, &inner));
    OK(cuGraphInstantiateWithFlags(&exec, inner, 0));
    OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamEndCapture(stream, &outer));
    OK(cuGraphGetNodes(outer, &node, &one));
    OK(cuGraphNodeGetType(node, &type));
    GIVES(CU_GRAPH_NODE_TYPE_GRAPH, type);
    run(outer, stream);
    GIVES(1000, hamisim_busy_for(0, 0));
}
