// cuMemAlloc and its kin.
#include "way.h"

#include <dlfcn.h>

static void one_block(void)
{
    open_card();
    CUdeviceptr pointer;
    granted("cuMemAlloc", cuMemAlloc(&pointer, goal), goal);
}

static void blocks_of_64m(void)
{
    open_card();
    fill(goal);
}

static void blocks_of_2m(void)
{
    open_card();
    fill_by("cuMemAlloc", cuMemAlloc, goal, 2 * MIB);
}

// Several of these share one 2 MiB block of the card.
static void small_blocks(void)
{
    open_card();
    fill_by("cuMemAlloc", cuMemAlloc, goal, MIB / 2);
}

// Of these two share one.
static void blocks_of_700k(void)
{
    open_card();
    fill_by("cuMemAlloc", cuMemAlloc, goal, 700 << 10);
}

// Each takes 2 MiB.
static void blocks_of_1m_and_a_byte(void)
{
    open_card();
    fill_by("cuMemAlloc", cuMemAlloc, goal, MIB + 1);
}

// Each takes 4 MiB.
static void blocks_of_2m_and_a_byte(void)
{
    open_card();
    fill_by("cuMemAlloc", cuMemAlloc, goal, 2 * MIB + 1);
}

// Rows of one byte, each as long as the pitch.
static void pitch(void)
{
    open_card();
    CUdeviceptr pointer;
    size_t row = 512;
    while (wanting()) {
        size_t rows = PIECE / row;
        if (!granted("cuMemAllocPitch", cuMemAllocPitch(&pointer, &row, 1, rows, 4), PIECE))
            return;
    }
}

static CUresult alloc_managed(CUdeviceptr *pointer, size_t bytes)
{
    return cuMemAllocManaged(pointer, bytes, CU_MEM_ATTACH_GLOBAL);
}

static void managed(void)
{
    open_card();
    fill_by("cuMemAllocManaged", alloc_managed, goal, PIECE);
}

// The symbol without a version: the 32-bit call of CUDA 2, which drivers still export.
static void first_abi(void)
{
    open_card();
    CUresult (*alloc)(unsigned *, unsigned) = NULL;
    *(void **)&alloc = dlsym(RTLD_DEFAULT, "cuMemAlloc");
    if (!alloc) {
        note("the driver has no cuMemAlloc of version 1");
        return;
    }
    unsigned pointer;
    while (wanting() && granted("cuMemAlloc (version 1)", alloc(&pointer, (unsigned)PIECE), PIECE))
        ;
}

const struct way memory_ways[] = {
    {"one_block", one_block},
    {"blocks_of_64m", blocks_of_64m},
    {"blocks_of_2m", blocks_of_2m},
    {"small_blocks", small_blocks},
    {"blocks_of_700k", blocks_of_700k},
    {"blocks_of_1m_and_a_byte", blocks_of_1m_and_a_byte},
    {"blocks_of_2m_and_a_byte", blocks_of_2m_and_a_byte},
    {"pitch", pitch},
    {"managed", managed},
    {"first_abi", first_abi},
    {0},
};
