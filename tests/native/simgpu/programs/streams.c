// Order: streams, events, host functions, values in memory.
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>

#define MS UINT64_C(1000000)

static atomic_int order;
static int seen[8];

static void CUDA_CB note(void *slot)
{
    seen[(intptr_t)slot] = ++order;
}

static void CUDA_CB note_callback(CUstream stream, CUresult status, void *slot)
{
    TRUE(stream != NULL && status == CUDA_SUCCESS);
    note(slot);
}

static atomic_bool gate;

static void CUDA_CB wait_for_gate(void *unused)
{
    (void)unused;
    while (!gate)
        usleep(200);
}

// A word that streams wait for; it opens them by becoming 1.
static _Atomic uint32_t *held_word(void)
{
    static _Atomic uint32_t page[1024];
    OK(cuMemHostRegister_v2((void *)page, sizeof page, 0));
    return page;
}

CASE(a_kernel_takes_its_time)
{
    stop_the_clock();
    start();
    CUfunction function = spinner();
    CUstream stream;
    CUevent before, after;
    float ms;
    OK(cuStreamCreate(&stream, 0));
    OK(cuEventCreate(&before, 0));
    OK(cuEventCreate(&after, 0));
    GIVES(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime_v2(&ms, before, after));
    OK(cuEventRecord(before, stream));
    spin(function, stream, 20 * MS);
    spin(function, stream, 10 * MS);
    OK(cuEventRecord(after, stream));
    OK(cuEventQuery(before));
    OK(hamisim_advance(30 * MS - 1));
    GIVES(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
    GIVES(CUDA_ERROR_NOT_READY, cuEventQuery(after));
    GIVES(CUDA_ERROR_NOT_READY, cuEventElapsedTime_v2(&ms, before, after));
    OK(hamisim_advance(50 * MS));
    OK(cuEventSynchronize(after));
    OK(cuStreamQuery(stream));
    OK(cuEventElapsedTime_v2(&ms, before, after));
    TRUE(ms == 30.0f);
    GIVES(30 * MS, hamisim_busy_for(0, 0));
}

CASE(time_goes_on_by_itself)
{
    start();
    spin(spinner(), NULL, 5 * MS);
    uint64_t began = hamisim_clock();
    OK(cuStreamSynchronize(NULL));
    TRUE(hamisim_clock() > began);
    GIVES(5 * MS, hamisim_busy_for(0, 0));
}

CASE(host_functions_keep_their_place)
{
    start();
    CUfunction function = spinner();
    CUstream stream;
    CUdeviceptr pointer;
    unsigned value = 0;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc_v2(&pointer, 4));
    OK(cuLaunchHostFunc(stream, wait_for_gate, NULL));
    OK(cuLaunchHostFunc(stream, note, (void *)0));
    spin(function, stream, MS);
    OK(cuMemsetD32Async(pointer, 9, 1, stream));
    OK(cuStreamAddCallback(stream, note_callback, (void *)1, 0));
    OK(cuMemcpyDtoHAsync_v2(&value, pointer, 4, stream));
    OK(cuLaunchHostFunc(stream, note, (void *)2));
    usleep(2000);
    GIVES(0, order);
    GIVES(0, value);
    GIVES(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
    GIVES(0, hamisim_busy_for(0, 0)); // the kernel waits as well
    gate = true;
    OK(cuStreamSynchronize(stream));
    GIVES(9, value);
    GIVES(1, seen[0]);
    GIVES(2, seen[1]);
    GIVES(3, seen[2]);
}

CASE(an_event_orders_two_streams)
{
    start();
    CUstream first, second;
    CUevent event;
    OK(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    OK(cuLaunchHostFunc(first, wait_for_gate, NULL));
    OK(cuLaunchHostFunc(first, note, (void *)0));
    OK(cuEventRecord(event, first));
    OK(cuStreamWaitEvent(second, event, 0));
    OK(cuLaunchHostFunc(second, note, (void *)1));
    GIVES(CUDA_ERROR_NOT_READY, cuEventQuery(event));
    OK(cuEventDestroy_v2(event)); // what waits for it still does
    gate = true;
    OK(cuStreamSynchronize(second));
    GIVES(1, seen[0]);
    GIVES(2, seen[1]);
    GIVES(CUDA_ERROR_INVALID_HANDLE, cuEventQuery(event));
}

CASE(the_legacy_stream_waits_for_blocking_streams_and_they_for_it)
{
    start();
    CUstream blocking, free_one;
    _Atomic uint32_t *word = held_word();
    OK(cuStreamCreate(&blocking, 0));
    OK(cuStreamCreate(&free_one, CU_STREAM_NON_BLOCKING));
    OK(cuStreamWaitValue32_v2(blocking, (CUdeviceptr)word, 1, CU_STREAM_WAIT_VALUE_EQ));
    OK(cuStreamWriteValue32_v2(NULL, (CUdeviceptr)&word[1], 1, 0));
    OK(cuLaunchHostFunc(free_one, note, (void *)0));
    OK(cuStreamSynchronize(free_one)); // not held back by the others
    GIVES(1, seen[0]);
    GIVES(CUDA_ERROR_NOT_READY, cuStreamQuery(NULL));
    GIVES(0, word[1]);
    word[0] = 1;
    OK(cuStreamSynchronize(NULL));
    OK(cuStreamQuery(blocking));
    GIVES(1, word[1]);
    OK(cuStreamWaitValue32_v2(NULL, (CUdeviceptr)word, 2, CU_STREAM_WAIT_VALUE_EQ));
    OK(cuLaunchHostFunc(blocking, note, (void *)1));
    usleep(1000);
    GIVES(0, seen[1]);
    word[0] = 2;
    OK(cuStreamSynchronize(blocking));
    GIVES(2, seen[1]);
}

static void *other_thread(void *slot)
{
    CUcontext context = slot;
    OK(cuCtxSetCurrent(context));
    OK(cuLaunchHostFunc_ptsz(NULL, note, (void *)1));
    OK(cuStreamSynchronize_ptsz(NULL));
    GIVES(1, seen[1]);
    return NULL;
}

CASE(each_thread_has_a_default_stream_of_its_own)
{
    CUcontext context = start();
    pthread_t thread;
    unsigned long long mine, legacy, again;
    _Atomic uint32_t *word = held_word();
    OK(cuStreamGetId_ptsz(NULL, &mine));
    OK(cuStreamGetId(NULL, &legacy));
    OK(cuStreamGetId(CU_STREAM_PER_THREAD, &again));
    TRUE(mine != legacy);
    GIVES(mine, again);
    OK(cuStreamWaitValue32_v2_ptsz(NULL, (CUdeviceptr)word, 1, CU_STREAM_WAIT_VALUE_EQ));
    OK(pthread_create(&thread, NULL, other_thread, context));
    OK(pthread_join(thread, NULL));
    GIVES(CUDA_ERROR_NOT_READY, cuStreamQuery_ptsz(NULL));
    word[0] = 1;
    OK(cuStreamSynchronize_ptsz(NULL));
}

CASE(a_host_function_may_wait_for_another_streams_work)
{
    start();
    CUfunction function = spinner();
    CUstream first, second;
    _Atomic uint32_t *word = held_word();
    OK(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
    OK(cuLaunchHostFunc(first, wait_for_gate, NULL));
    spin(function, second, MS);
    OK(cuStreamWriteValue32_v2(second, (CUdeviceptr)word, 1, 0));
    while (word[0] == 0) // the card works on, though the host function hasn't ended
        usleep(200);
    gate = true;
    OK(cuStreamSynchronize(first));
}

CASE(a_stream_waits_for_a_value_in_memory)
{
    start();
    CUfunction function = spinner();
    CUstream stream, other;
    static _Atomic uint32_t page[1024];
    OK(cuMemHostRegister_v2((void *)page, sizeof page, 0));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    OK(cuStreamWaitValue32_v2(stream, (CUdeviceptr)&page[0], 5, CU_STREAM_WAIT_VALUE_GEQ));
    spin(function, stream, MS);
    OK(cuStreamWriteValue32_v2(stream, (CUdeviceptr)&page[1], 8, 0));
    OK(cuStreamWriteValue64_v2(stream, (CUdeviceptr)&page[2], UINT64_C(1) << 40, 0));
    page[0] = 4;
    usleep(2000);
    GIVES(0, page[1]);
    GIVES(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
    OK(cuStreamWriteValue32_v2(other, (CUdeviceptr)&page[0], 5, 0));
    OK(cuStreamSynchronize(stream));
    GIVES(8, page[1]);
    GIVES(1 << 8, page[3]);
    GIVES(CUDA_ERROR_INVALID_VALUE, cuStreamWaitValue32_v2(stream, (CUdeviceptr)page + 1, 5, 0));
}

CASE(a_mark_is_written_when_the_kernels_before_it_are_done)
{
    start();
    CUfunction function = spinner();
    static _Atomic uint32_t mark[1024];
    CUstream stream;
    OK(cuMemHostRegister_v2((void *)mark, sizeof mark, 0));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (uint32_t i = 1; i <= 20; i++) {
        spin(function, stream, MS);
        OK(cuStreamWriteValue32_v2(stream, (CUdeviceptr)mark, i, 0));
    }
    // nobody calls the driver: the card writes by itself
    for (uint32_t last = 0; last < 20;) {
        uint32_t now = mark[0];
        TRUE(now >= last);
        TRUE(hamisim_busy_for(0, 0) >= now * MS);
        last = now;
        usleep(300);
    }
    // marks don't make the engine wait for the host
    OK(cuStreamSynchronize(stream));
    GIVES(20 * MS, hamisim_busy_for(0, 0));
}

CASE(batches_of_memory_operations)
{
    start();
    static uint64_t words[512];
    OK(cuMemHostRegister_v2(words, sizeof words, 0));
    CUstreamBatchMemOpParams batch[3];
    memset(batch, 0, sizeof batch);
    batch[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
    batch[0].writeValue.address = (CUdeviceptr)&words[0];
    batch[0].writeValue.value64 = 3;
    batch[1].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64;
    batch[1].waitValue.address = (CUdeviceptr)&words[0];
    batch[1].waitValue.value64 = 3;
    batch[1].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
    batch[2] = batch[0];
    batch[2].writeValue.address = (CUdeviceptr)&words[1];
    OK(cuStreamBatchMemOp_v2(NULL, 3, batch, 0));
    OK(cuCtxSynchronize());
    GIVES(3, words[1]);
    batch[0].operation = (CUstreamBatchMemOpType)99;
    GIVES(CUDA_ERROR_INVALID_VALUE, cuStreamBatchMemOp_v2(NULL, 1, batch, 0));
}

CASE(a_destroyed_streams_work_is_finished)
{
    start();
    CUstream stream;
    OK(cuStreamCreate(&stream, 0));
    spin(spinner(), stream, 2 * MS);
    OK(cuLaunchHostFunc(stream, note, (void *)0));
    OK(cuStreamDestroy_v2(stream));
    GIVES(CUDA_ERROR_INVALID_HANDLE, cuStreamDestroy_v2(stream));
    GIVES(CUDA_ERROR_INVALID_HANDLE, cuStreamQuery(stream));
    OK(cuCtxSynchronize());
    GIVES(1, seen[0]);
}

CASE(a_synchronous_copy_comes_after_what_was_launched)
{
    start();
    CUfunction function = spinner();
    CUdeviceptr pointer;
    unsigned value;
    OK(cuMemAlloc_v2(&pointer, 4));
    spin(function, NULL, 3 * MS);
    OK(cuMemsetD32Async(pointer, 6, 1, NULL));
    OK(cuMemcpyDtoH_v2(&value, pointer, 4));
    GIVES(6, value);
    GIVES(3 * MS, hamisim_busy_for(0, 0));
}

CASE(many_threads_launch_at_once)
{
    CUcontext context = start();
    CUfunction function = spinner();
    (void)context;
    CUstream streams[8];
    for (int i = 0; i < 8; i++)
        OK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    for (int round = 0; round < 100; round++)
        for (int i = 0; i < 8; i++)
            spin(function, streams[i], 10000);
    OK(cuCtxSynchronize());
    GIVES(8 * MS, hamisim_busy_for(0, 0));
}

static void *launcher(void *context)
{
    CUstream stream;
    CUdeviceptr pointer;
    OK(cuCtxSetCurrent(context));
    CUfunction function = spinner();
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < 200; i++) {
        OK(cuMemAllocAsync(&pointer, 5 * MIB, stream));
        spin(function, stream, 1000);
        OK(cuMemFreeAsync(pointer, stream));
        if (i % 50 == 0)
            OK(cuStreamSynchronize(stream));
    }
    OK(cuStreamDestroy_v2(stream));
    return NULL;
}

CASE(threads_share_a_context)
{
    CUcontext context = start();
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        OK(pthread_create(&threads[i], NULL, launcher, context));
    for (int i = 0; i < 4; i++)
        OK(pthread_join(threads[i], NULL));
    OK(cuCtxSynchronize());
    GIVES(800 * 1000, hamisim_busy_for(0, 0));
    GIVES(104, held());
}

CASE(streams_say_what_they_are)
{
    CUcontext context = start(), owner;
    CUstream stream;
    int priority;
    unsigned flags;
    OK(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, -100));
    OK(cuStreamGetPriority(stream, &priority));
    GIVES(-5, priority);
    OK(cuStreamGetFlags(stream, &flags));
    GIVES(CU_STREAM_NON_BLOCKING, flags);
    OK(cuStreamGetCtx(stream, &owner));
    TRUE(owner == context);
    GIVES(CUDA_ERROR_INVALID_VALUE, cuStreamCreate(&stream, 4));
}
