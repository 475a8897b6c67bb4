// Libraries: an image that belongs to no context.  It comes into one when a kernel is needed there as a function, which
// is when its global data takes memory: nothing at the load, as measured.
#include "module.h"

#include <string.h>

struct kernel {
    struct kernel *next;
    struct library *library;
    char *name;
};

struct library {
    struct image image;
    struct kernel *kernels;
};

static struct library *library_of(CUlibrary handle)
{
    return handle_is(handle, HANDLE_LIBRARY) ? (struct library *)handle : NULL;
}

static struct kernel *kernel_of(CUkernel handle)
{
    return handle_is(handle, HANDLE_KERNEL) ? (struct kernel *)handle : NULL;
}

static CUresult module_in(const struct library *library, struct context *context, struct module **out)
{
    for (struct module *module = modules_first(); module; module = module->next) {
        if (module->library == library && module->context == context) {
            *out = module;
            return CUDA_SUCCESS;
        }
    }
    CUresult result = module_new(context, &library->image, out);
    if (result == CUDA_SUCCESS)
        (*out)->library = library;
    return result;
}

CUresult function_of(CUfunction handle, struct context *context, struct function **out)
{
    if (handle_is(handle, HANDLE_FUNCTION)) {
        *out = (struct function *)handle;
        return CUDA_SUCCESS;
    }
    const struct kernel *kernel = kernel_of((CUkernel)handle);
    if (!kernel)
        return CUDA_ERROR_INVALID_HANDLE;
    struct module *module;
    CUresult result = module_in(kernel->library, context, &module);
    return result == CUDA_SUCCESS ? module_function(module, kernel->name, out) : result;
}

static CUresult load(CUlibrary *out, struct image *image)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS) {
        image_drop(image);
        return result;
    }
    struct library *library = calloc(1, sizeof *library);
    if (!library)
        abort();
    library->image = *image;
    handle_add(library, HANDLE_LIBRARY);
    *out = (CUlibrary)library;
    return leave(CUDA_SUCCESS);
}

CUresult cuLibraryLoadData(CUlibrary *out, const void *code, CUjit_option *jit, void **jit_values,
                           unsigned int jit_count, CUlibraryOption *options, void **values, unsigned int count)
{
    (void)jit, (void)jit_values, (void)jit_count, (void)options, (void)values, (void)count;
    CUresult result = check_init();
    if (result != CUDA_SUCCESS)
        return result;
    if (!out || !code)
        return CUDA_ERROR_INVALID_VALUE;
    struct image image;
    result = image_read(code, &image);
    return result == CUDA_SUCCESS ? load(out, &image) : result;
}

CUresult cuLibraryLoadFromFile(CUlibrary *out, const char *path, CUjit_option *jit, void **jit_values,
                               unsigned int jit_count, CUlibraryOption *options, void **values, unsigned int count)
{
    (void)jit, (void)jit_values, (void)jit_count, (void)options, (void)values, (void)count;
    CUresult result = check_init();
    if (result != CUDA_SUCCESS)
        return result;
    if (!out || !path)
        return CUDA_ERROR_INVALID_VALUE;
    struct image image;
    result = image_read_file(path, &image);
    return result == CUDA_SUCCESS ? load(out, &image) : result;
}

CUresult cuLibraryUnload(CUlibrary handle)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    struct library *library = library_of(handle);
    if (!library)
        return leave(CUDA_ERROR_INVALID_HANDLE);
    for (struct module *module = modules_first(), *next; module; module = next) {
        next = module->next;
        if (module->library != library)
            continue;
        context_drain(module->context);
        module_drop(module);
    }
    while (library->kernels) {
        struct kernel *kernel = library->kernels;
        library->kernels = kernel->next;
        handle_remove(kernel);
        free(kernel->name);
        free(kernel);
    }
    handle_remove(library);
    image_drop(&library->image);
    free(library);
    return leave(CUDA_SUCCESS);
}

static struct kernel *kernel_named(struct library *library, const char *name)
{
    for (struct kernel *kernel = library->kernels; kernel; kernel = kernel->next)
        if (strcmp(kernel->name, name) == 0)
            return kernel;
    bool known = !library->image.closed;
    for (unsigned i = 0; i < library->image.kernel_count; i++)
        known |= strcmp(library->image.kernels[i].name, name) == 0;
    struct kernel *kernel = known ? calloc(1, sizeof *kernel) : NULL;
    if (!kernel)
        return NULL;
    *kernel = (struct kernel){library->kernels, library, strdup(name)};
    library->kernels = kernel;
    handle_add(kernel, HANDLE_KERNEL);
    return kernel;
}

CUresult cuLibraryGetKernel(CUkernel *out, CUlibrary handle, const char *name)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    struct library *library = library_of(handle);
    if (!out || !name)
        return leave(CUDA_ERROR_INVALID_VALUE);
    if (!library)
        return leave(CUDA_ERROR_INVALID_HANDLE);
    struct kernel *kernel = kernel_named(library, name);
    if (!kernel)
        return leave(CUDA_ERROR_NOT_FOUND);
    *out = (CUkernel)kernel;
    return leave(CUDA_SUCCESS);
}

CUresult cuLibraryGetKernelCount(unsigned int *count, CUlibrary handle)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    const struct library *library = library_of(handle);
    if (!count || !library)
        return leave(CUDA_ERROR_INVALID_VALUE);
    *count = library->image.kernel_count;
    return leave(CUDA_SUCCESS);
}

CUresult cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int count, CUlibrary handle)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    struct library *library = library_of(handle);
    if (!kernels || !library)
        return leave(CUDA_ERROR_INVALID_VALUE);
    for (unsigned i = 0; i < count && i < library->image.kernel_count; i++)
        kernels[i] = (CUkernel)kernel_named(library, library->image.kernels[i].name);
    return leave(CUDA_SUCCESS);
}

// The library's module in the current context.
static CUresult enter_library(CUlibrary handle, struct module **module)
{
    struct context *context;
    CUresult result = enter(&context);
    if (result != CUDA_SUCCESS)
        return result;
    const struct library *library = library_of(handle);
    result = library ? module_in(library, context, module) : CUDA_ERROR_INVALID_HANDLE;
    return result == CUDA_SUCCESS ? result : leave(result);
}

CUresult cuLibraryGetModule(CUmodule *out, CUlibrary handle)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    struct module *module;
    CUresult result = enter_library(handle, &module);
    if (result != CUDA_SUCCESS)
        return result;
    *out = (CUmodule)module;
    return leave(CUDA_SUCCESS);
}

CUresult cuLibraryGetGlobal(CUdeviceptr *pointer, size_t *bytes, CUlibrary handle, const char *name)
{
    if (!name)
        return CUDA_ERROR_INVALID_VALUE;
    struct module *module;
    CUresult result = enter_library(handle, &module);
    if (result != CUDA_SUCCESS)
        return result;
    return leave(module_global(module, name, pointer, bytes));
}

CUresult cuKernelGetFunction(CUfunction *out, CUkernel handle)
{
    struct context *context;
    CUresult result = enter(&context);
    if (result != CUDA_SUCCESS)
        return result;
    if (!out)
        return leave(CUDA_ERROR_INVALID_VALUE);
    struct function *function;
    result = kernel_of(handle) ? function_of((CUfunction)handle, context, &function) : CUDA_ERROR_INVALID_HANDLE;
    if (result == CUDA_SUCCESS)
        *out = (CUfunction)function;
    return leave(result);
}

CUresult cuKernelGetLibrary(CUlibrary *out, CUkernel handle)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    const struct kernel *kernel = kernel_of(handle);
    if (!out)
        return leave(CUDA_ERROR_INVALID_VALUE);
    if (!kernel)
        return leave(CUDA_ERROR_INVALID_HANDLE);
    *out = (CUlibrary)kernel->library;
    return leave(CUDA_SUCCESS);
}

CUresult cuKernelGetName(const char **name, CUkernel handle)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    const struct kernel *kernel = kernel_of(handle);
    if (!name)
        return leave(CUDA_ERROR_INVALID_VALUE);
    if (!kernel)
        return leave(CUDA_ERROR_INVALID_HANDLE);
    *name = kernel->name;
    return leave(CUDA_SUCCESS);
}

static const struct image_kernel *described(const struct kernel *kernel)
{
    for (unsigned i = 0; i < kernel->library->image.kernel_count; i++)
        if (strcmp(kernel->library->image.kernels[i].name, kernel->name) == 0)
            return &kernel->library->image.kernels[i];
    return NULL;
}

CUresult cuKernelGetParamInfo(CUkernel handle, size_t index, size_t *offset, size_t *size)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    const struct kernel *kernel = kernel_of(handle);
    const struct image_kernel *image = kernel ? described(kernel) : NULL;
    return leave(!kernel ? CUDA_ERROR_INVALID_HANDLE : image_parameter(image, index, offset, size));
}

CUresult cuKernelGetParamCount(CUkernel handle, size_t *count)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    const struct kernel *kernel = kernel_of(handle);
    if (!count || !kernel)
        return leave(CUDA_ERROR_INVALID_VALUE);
    const struct image_kernel *image = described(kernel);
    *count = image ? image->parameter_count : 0;
    return leave(CUDA_SUCCESS);
}

CUresult cuKernelGetAttribute(int *value, CUfunction_attribute attribute, CUkernel handle, CUdevice device)
{
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    unsigned card;
    if (!value || !kernel_of(handle))
        return leave(CUDA_ERROR_INVALID_VALUE);
    if (!device_card(device, &card))
        return leave(CUDA_ERROR_INVALID_DEVICE);
    return leave(function_attribute(attribute, value));
}

CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel handle, CUdevice device)
{
    (void)attribute, (void)value;
    CUresult result = enter_driver();
    if (result != CUDA_SUCCESS)
        return result;
    unsigned card;
    if (!device_card(device, &card))
        return leave(CUDA_ERROR_INVALID_DEVICE);
    return leave(kernel_of(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE);
}

CUresult cuKernelSetCacheConfig(CUkernel handle, CUfunc_cache config, CUdevice device)
{
    (void)config;
    return cuKernelSetAttribute(0, 0, handle, device);
}
