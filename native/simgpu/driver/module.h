// Modules and libraries: images, their kernels, and the global data that they put on the card.
#ifndef SIM_MODULE_H
#define SIM_MODULE_H

#include "context.h"
#include "work.h"

#define MAX_PARAMETERS 64

struct image_kernel {
    char *name;
    unsigned parameter_count;
    uint32_t sizes[MAX_PARAMETERS]; // bytes
};

struct image_global {
    char *name;
    uint64_t bytes;
};

// What an image says of itself (image.c).  If it names no kernels, every name is one, without parameters.
struct image {
    struct image_kernel *kernels;
    unsigned kernel_count;
    struct image_global *globals;
    unsigned global_count;
    bool closed;    // no kernels but those named
    bool uses_heap; // its kernels call malloc
};

CUresult image_read(const void *bytes, struct image *image);
CUresult image_read_file(const char *path, struct image *image);
bool image_copy(struct image *to, const struct image *from);
void image_drop(struct image *image);

struct function;
struct library;

struct module {
    struct module *next;
    struct context *context;
    struct image image;
    struct function *functions;
    CUdeviceptr *globals;          // by image.globals
    uint64_t charged;              // bytes
    const struct library *library; // of which it's the part in this context
};

struct function {
    struct function *next;
    struct module *module;
    struct image_kernel kernel; // owns its name
    int max_shared;
    CUfunc_cache cache;
};

CUresult module_new(struct context *context, const struct image *image, struct module **out);
void module_drop(struct module *module);
void modules_drop(struct context *context);
struct module *modules_first(void);
CUresult module_function(struct module *module, const char *name, struct function **out);
CUresult module_global(const struct module *module, const char *name, CUdeviceptr *pointer, size_t *bytes);

// A launch takes a CUfunction or a CUkernel; the latter loads its library into the context first.
CUresult function_of(CUfunction handle, struct context *context, struct function **out);
// CUDA_ERROR_INVALID_VALUE if there's no such parameter, as in an image that says nothing of them (NULL).
CUresult image_parameter(const struct image_kernel *kernel, size_t index, size_t *offset, size_t *size);
CUresult function_attribute(CUfunction_attribute attribute, int *value);
bool function_spins(const struct function *function);
// Copies the parameters that the function declares; kernel->function is set.
bool kernel_keep_parameters(struct kernel_work *kernel, void *const *parameters);

#endif
