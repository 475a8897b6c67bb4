// Contexts, threads, children, other processes' memory.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "worker.h"

unsigned current_card(void)
{
    CUdevice device;
    return cuCtxGetDevice(&device) == CUDA_SUCCESS && device >= 0 && device < CARDS ? (unsigned)device : 0;
}

CUresult use_card(struct worker *worker, unsigned card)
{
    if (!worker->primary[card]) {
        CUresult result = cuDevicePrimaryCtxRetain(&worker->primary[card], (CUdevice)card);
        if (result != CUDA_SUCCESS) {
            worker->primary[card] = NULL;
            return result;
        }
    }
    return cuCtxSetCurrent(worker->primary[card]);
}

// The primary context of a card, or one of our own.
static CUresult switch_context(struct worker *worker, const struct step *step, struct holding *holding)
{
    (void)holding;
    const struct holding *other = &worker->holdings[OP_CONTEXT][step->slot];
    return other->handle ? cuCtxSetCurrent((CUcontext)(uintptr_t)other->handle)
                         : use_card(worker, (unsigned)(step->random % CARDS));
}

static CUresult change_primary(struct worker *worker, const struct step *step, struct holding *holding)
{
    (void)holding;
    unsigned card = (unsigned)(step->random % CARDS);
    if (!worker->primary[card])
        return use_card(worker, card);
    worker->primary[card] = NULL;
    CUresult result =
        step->random / 4 % 2 ? cuDevicePrimaryCtxReset((CUdevice)card) : cuDevicePrimaryCtxRelease((CUdevice)card);
    CUresult again = use_card(worker, (unsigned)(step->random / 16 % CARDS));
    return result == CUDA_SUCCESS ? again : result;
}

static CUresult make_context(struct worker *worker, const struct step *step, struct holding *holding)
{
    (void)worker;
    CUcontext popped;
    CUresult result = cuCtxCreate((CUcontext *)&holding->handle, NULL, 0, (CUdevice)(step->random % CARDS));
    return result == CUDA_SUCCESS ? cuCtxPopCurrent(&popped) : result;
}

static CUresult end_context(struct worker *worker, const struct step *step, struct holding *holding)
{
    CUcontext current;
    if (cuCtxGetCurrent(&current) == CUDA_SUCCESS && (uint64_t)(uintptr_t)current == holding->handle)
        use_card(worker, (unsigned)(step->random % CARDS));
    return cuCtxDestroy((CUcontext)(uintptr_t)holding->handle);
}

static CUresult make_green(struct worker *worker, const struct step *step, struct holding *holding)
{
    (void)worker;
    CUdevResource all;
    CUdevResourceDesc description;
    CUdevice device = (CUdevice)(step->random % CARDS);
    CUresult result = cuDeviceGetDevResource(device, &all, CU_DEV_RESOURCE_TYPE_SM);
    if (result == CUDA_SUCCESS)
        result = cuDevResourceGenerateDesc(&description, &all, 1);
    if (result == CUDA_SUCCESS)
        result = cuGreenCtxCreate((CUgreenCtx *)&holding->handle, description, device, CU_GREEN_CTX_DEFAULT_STREAM);
    return result;
}

static CUresult end_green(struct worker *worker, const struct step *step, struct holding *holding)
{
    (void)worker, (void)step;
    return cuGreenCtxDestroy((CUgreenCtx)(uintptr_t)holding->handle);
}

static CUresult synchronise(struct worker *worker, const struct step *step, struct holding *holding)
{
    (void)worker, (void)holding;
    return step->random % 2 ? cuCtxSynchronize() : cuStreamSynchronize(NULL);
}

static CUresult ask_what_is_free(struct worker *worker, const struct step *step, struct holding *holding)
{
    (void)step, (void)holding;
    size_t free_bytes, total;
    CUresult result = cuMemGetInfo(&free_bytes, &total);
    if (result == CUDA_SUCCESS && total > worker->board->limit[current_card()])
        return CUDA_ERROR_ASSERT;
    return result;
}

static CUresult ask_too_much(struct worker *worker, const struct step *step, struct holding *holding)
{
    (void)holding;
    CUdeviceptr pointer;
    uint64_t far = step->random % 2 ? UINT64_MAX - step->random % 4096 : worker->board->limit[current_card()];
    CUresult result = cuMemAlloc(&pointer, far);
    return result == CUDA_SUCCESS ? CUDA_ERROR_ASSERT : result;
}

// ---- others' memory --------------------------------------------------------------------------------------------------

static CUresult offer(struct worker *worker, const struct step *step, struct holding *holding)
{
    (void)holding;
    const struct holding *big = &worker->holdings[OP_BIG][step->slot];
    unsigned number = (unsigned)(step->random % OFFERS);
    if (!big->handle)
        return CUDA_SUCCESS;
    atomic_store(&worker->own->offered[number], false);
    CUresult result = cuIpcGetMemHandle(&worker->own->offer[number], big->handle);
    atomic_store(&worker->own->offered[number], result == CUDA_SUCCESS);
    return result;
}

static CUresult open_offer(struct worker *worker, const struct step *step, struct holding *holding)
{
    const struct worker_board *other = &worker->board->workers[step->random % MAX_WORKERS];
    unsigned number = (unsigned)(step->random / MAX_WORKERS % OFFERS);
    if (other == worker->own || !atomic_load(&other->offered[number]))
        return CUDA_SUCCESS;
    CUipcMemHandle handle = other->offer[number]; // may be half of two: then it names nothing
    return cuIpcOpenMemHandle(&holding->handle, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
}

static CUresult close_offer(struct worker *worker, const struct step *step, struct holding *holding)
{
    (void)worker, (void)step;
    return cuIpcCloseMemHandle(holding->handle);
}

// ---- threads and children ----------------------------------------------------------------------------------------------

struct errand {
    struct step step;
    CUcontext context;
    CUresult result;
};

// Without a context only physical memory can be had.
static void *run_errand(void *data)
{
    struct errand *errand = data;
    CUmemAllocationProp prop;
    CUmemGenericAllocationHandle handle;
    CUdeviceptr pointer;
    memset(&prop, 0, sizeof prop);
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = (int)(errand->step.random % CARDS)};
    if (errand->context) {
        cuCtxSetCurrent(errand->context);
        errand->result = cuMemAlloc(&pointer, errand->step.bytes);
        if (errand->result == CUDA_SUCCESS)
            errand->result = cuMemFree(pointer);
    } else {
        errand->result = cuMemCreate(&handle, (2 + errand->step.bytes / 4194304 * 2) << 20, &prop, 0);
        if (errand->result == CUDA_SUCCESS)
            errand->result = cuMemRelease(handle);
    }
    return NULL;
}

static CUresult use_threads(struct worker *worker, const struct step *step, struct holding *holding)
{
    (void)worker, (void)holding;
    pthread_t threads[3];
    struct errand errands[3];
    CUcontext current = NULL;
    cuCtxGetCurrent(&current);
    for (unsigned i = 0; i < 3; i++) {
        errands[i] = (struct errand){.step = *step, .context = i ? current : NULL};
        errands[i].step.random += i;
        pthread_create(&threads[i], NULL, run_errand, &errands[i]);
    }
    CUresult worst = CUDA_SUCCESS;
    for (unsigned i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
        if (worst == CUDA_SUCCESS)
            worst = errands[i].result;
    }
    return worst;
}

// A child of a process that uses the card can't use it: whatever it tries must not touch what is ours.
static CUresult have_child(struct worker *worker, const struct step *step, struct holding *holding)
{
    (void)worker, (void)holding;
    pid_t child = fork();
    if (child == 0) {
        CUdeviceptr pointer;
        if (step->random % 2)
            cuMemAlloc(&pointer, step->bytes);
        if (step->random % 4 == 3)
            abort();
        _exit(0);
    }
    int status;
    return child > 0 && waitpid(child, &status, 0) == child ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

static CUresult become_another_image(struct worker *worker, const struct step *step, struct holding *holding)
{
    (void)step, (void)holding;
    extern char **environ;
    extern char **worker_arguments;
    memset(worker->own->beyond, 0, sizeof worker->own->beyond);
    for (unsigned i = 0; i < OFFERS; i++)
        atomic_store(&worker->own->offered[i], false);
    worker->own->good[OP_EXEC]++;
    execve("/proc/self/exe", worker_arguments, environ);
    return CUDA_ERROR_OPERATING_SYSTEM;
}

const struct operation_calls process_calls[OPERATION_COUNT] = {
    [OP_CONTEXT] = {make_context, end_context},
    [OP_GREEN] = {make_green, end_green},
    [OP_SWITCH] = {switch_context, NULL},
    [OP_PRIMARY] = {change_primary, NULL},
    [OP_SYNCHRONISE] = {synchronise, NULL},
    [OP_INFO] = {ask_what_is_free, NULL},
    [OP_TOO_MUCH] = {ask_too_much, NULL},
    [OP_OFFER] = {offer, NULL},
    [OP_IPC] = {open_offer, close_offer},
    [OP_THREAD] = {use_threads, NULL},
    [OP_FORK] = {have_child, NULL},
    [OP_EXEC] = {become_another_image, NULL},
};
