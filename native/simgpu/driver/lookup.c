// cuGetProcAddress: the function of a name as it was in a version.
#include "lookup.h"
#include "driver.h"

#include <string.h>

#define KNOWN_FLAGS (CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)

// The first entry of that name, or lookup_count.
static unsigned find(const char *name)
{
    unsigned low = 0, high = lookup_count;
    while (low < high) {
        unsigned middle = low + (high - low) / 2;
        if (strcmp(lookup_table[middle].name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < lookup_count && strcmp(lookup_table[low].name, name) == 0 ? low : lookup_count;
}

CUresult cuGetProcAddress_v2(const char *name, void **function, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *status)
{
    if (!name || !function || version < 2000 || version > SIM_CUDA_VERSION || (flags & ~(cuuint64_t)KNOWN_FLAGS))
        return CUDA_ERROR_INVALID_VALUE;
    unsigned first = find(name);
    const struct lookup_entry *newest = NULL;
    for (unsigned i = first; i < lookup_count && strcmp(lookup_table[i].name, name) == 0; i++)
        if (lookup_table[i].version <= version)
            newest = &lookup_table[i];
    bool twin = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) && newest && newest->per_thread &&
                newest->per_thread_version <= version;
    *function = newest ? (void *)(twin ? newest->per_thread : newest->function) : NULL;
    CUdriverProcAddressQueryResult answer = CU_GET_PROC_ADDRESS_SUCCESS;
    if (!newest)
        answer =
            first == lookup_count ? CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND : CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
    if (status)
        *status = answer;
    return CUDA_SUCCESS; // also when nothing was found, as cuda.h says
}

CUresult cuGetProcAddress(const char *name, void **function, int version, cuuint64_t flags)
{
    return cuGetProcAddress_v2(name, function, version, flags, NULL);
}
