// A piece of work: what a stream call asks for, or what a graph node stands for.  It says what is to be done; op.h says when.
#ifndef SIM_WORK_H
#define SIM_WORK_H

#include "driver.h"

struct function;
struct event;
struct graph;

struct kernel_work {
    struct function *function;
    CUkernel kernel; // as it was given, if the caller gave a kernel
    unsigned grid[3], block[3], shared;
    unsigned parameter_count;
    size_t block_bytes; // of the memory that holds the pointers and what they point to
    void **parameters;  // the block; NULL: none
};

struct host_work {
    CUhostFn call;
    CUstreamCallback callback; // instead of call: cuStreamAddCallback
    CUstream stream;           // as the callback is to see it
    void *argument;
};

struct work {
    CUgraphNodeType type;
    struct context *context;
    union {
        struct kernel_work kernel;
        CUDA_MEMCPY3D copy; // memory types resolved by copy_check()
        CUDA_MEMSET_NODE_PARAMS_v1 set;
        struct host_work host;
        struct event *event;
        CUDA_MEM_ALLOC_NODE_PARAMS_v1 allocate; // dptr is the address, fixed once the work exists
        struct {
            CUdeviceptr pointer;
            unsigned long long number; // of a pool's return; 0: a graph's memory
        } release;
        struct {
            unsigned count;
            CUstreamBatchMemOpParams *list; // owned
        } memory_ops;
        struct graph *child; // owned
    };
};

// Copies what `from` points to.
bool work_copy(struct work *to, const struct work *from);
void work_drop(struct work *work);

// Time on the whole card, ns.
uint64_t kernel_cost(const struct kernel_work *kernel);

#endif
