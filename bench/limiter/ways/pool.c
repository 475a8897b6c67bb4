// Stream-ordered allocation: what a pool keeps counts, whether or not anybody uses it.
#include "way.h"

#include <dlfcn.h>

static CUstream stream;
static CUmemoryPool pool;

static CUresult alloc_async(CUdeviceptr *pointer, size_t bytes)
{
    return cuMemAllocAsync(pointer, bytes, stream);
}

static CUresult alloc_from_pool(CUdeviceptr *pointer, size_t bytes)
{
    return cuMemAllocFromPoolAsync(pointer, bytes, pool, stream);
}

static void open_stream(void)
{
    open_card();
    need("cuStreamCreate", cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
}

static void create_pool(void)
{
    CUmemPoolProps props = {
        .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
    };
    need("cuMemPoolCreate", cuMemPoolCreate(&pool, &props));
}

static void pool_default(void)
{
    open_stream();
    fill_by("cuMemAllocAsync", alloc_async, goal, PIECE);
    cuStreamSynchronize(stream);
}

// The twin for programs compiled with a default stream per thread.
static void pool_per_thread(void)
{
    open_card();
    CUresult (*alloc)(CUdeviceptr *, size_t, CUstream) = NULL;
    *(void **)&alloc = dlsym(RTLD_DEFAULT, "cuMemAllocAsync_ptsz");
    CUdeviceptr pointer;
    while (alloc && wanting() && granted("cuMemAllocAsync_ptsz", alloc(&pointer, PIECE, NULL), PIECE))
        ;
    cuCtxSynchronize();
}

static void pool_own(void)
{
    open_stream();
    create_pool();
    fill_by("cuMemAllocFromPoolAsync", alloc_from_pool, goal, PIECE);
    cuStreamSynchronize(stream);
}

// Free again, but the pool keeps it all; then take as much by cuMemAlloc.
static void pool_retained(void)
{
    open_stream();
    create_pool();
    cuuint64_t keep = UINT64_MAX;
    need("cuMemPoolSetAttribute", cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
    CUdeviceptr pointers[1024];
    size_t count = 0;
    for (uint64_t bytes = 0; bytes < limit / 4 * 3 && count < 1024; bytes += PIECE, count++)
        if (!granted("cuMemAllocFromPoolAsync", alloc_from_pool(&pointers[count], PIECE), PIECE))
            break;
    while (count > 0)
        need("cuMemFreeAsync", cuMemFreeAsync(pointers[--count], stream));
    need("cuStreamSynchronize", cuStreamSynchronize(stream));
    fill(goal);
}

const struct way pool_ways[] = {
    {"pool_default", pool_default},
    {"pool_per_thread", pool_per_thread},
    {"pool_own", pool_own},
    {"pool_retained", pool_retained},
    {0},
};
