#include "module.h"
#include "capture.h"
#include "memory.h"

#include <string.h>

static struct module *modules;

struct module *modules_first(void)
{
    return modules;
}

static uint64_t global_bytes(const struct image *image)
{
    uint64_t bytes = 0;
    for (unsigned i = 0; i < image->global_count; i++)
        bytes += image->globals[i].bytes;
    return bytes;
}

static bool map_globals(struct module *module)
{
    module->globals = calloc(module->image.global_count + 1, sizeof *module->globals);
    if (!module->globals)
        return false;
    for (unsigned i = 0; i < module->image.global_count; i++) {
        uint64_t bytes = module->image.globals[i].bytes;
        void *base = region_map(round_up(bytes, 4096));
        struct allocation *allocation = base ? allocation_add((CUdeviceptr)base, bytes, ALLOCATION_MODULE) : NULL;
        if (!allocation) {
            if (base)
                region_unmap(base, round_up(bytes, 4096));
            return false;
        }
        allocation->mapped = round_up(bytes, 4096);
        allocation->card = module->context->card;
        module->globals[i] = (CUdeviceptr)base;
    }
    return true;
}

CUresult module_new(struct context *context, const struct image *image, struct module **out)
{
    uint64_t bytes = round_up(global_bytes(image), BLOCK_BYTES);
    if (!memory_take(context->card, bytes, SIM_SHOWN))
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct module *module = calloc(1, sizeof *module);
    if (!module)
        abort();
    module->context = context;
    module->charged = bytes;
    module->next = modules;
    modules = module;
    image_copy(&module->image, image);
    handle_add(module, HANDLE_MODULE);
    if (!map_globals(module)) {
        module_drop(module);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = module;
    return CUDA_SUCCESS;
}

void module_drop(struct module *module)
{
    struct module **link = &modules;
    while (*link != module)
        link = &(*link)->next;
    *link = module->next;
    for (unsigned i = 0; module->globals && i < module->image.global_count; i++) {
        struct allocation *allocation = allocation_starting(module->globals[i]);
        if (!allocation)
            continue;
        region_unmap((void *)allocation->base, allocation->mapped);
        allocation_remove(allocation);
    }
    while (module->functions) {
        struct function *function = module->functions;
        module->functions = function->next;
        handle_remove(function);
        free(function->kernel.name);
        free(function);
    }
    memory_give(module->context->card, module->charged, SIM_SHOWN);
    handle_remove(module);
    image_drop(&module->image);
    free(module->globals);
    free(module);
}

void modules_drop(struct context *context)
{
    for (struct module *module = modules, *next; module; module = next) {
        next = module->next;
        if (module->context == context)
            module_drop(module);
    }
}

static const struct image_kernel *find_kernel(const struct image *image, const char *name)
{
    for (unsigned i = 0; i < image->kernel_count; i++)
        if (strcmp(image->kernels[i].name, name) == 0)
            return &image->kernels[i];
    return NULL;
}

CUresult module_function(struct module *module, const char *name, struct function **out)
{
    for (struct function *function = module->functions; function; function = function->next) {
        if (strcmp(function->kernel.name, name) == 0) {
            *out = function;
            return CUDA_SUCCESS;
        }
    }
    const struct image_kernel *kernel = find_kernel(&module->image, name);
    if (!kernel && module->image.closed)
        return CUDA_ERROR_NOT_FOUND;
    struct function *function = calloc(1, sizeof *function);
    if (!function)
        abort();
    if (kernel)
        function->kernel = *kernel;
    function->kernel.name = strdup(name);
    if (!kernel && strcmp(name, "sim_spin") == 0)
        function->kernel.sizes[function->kernel.parameter_count++] = 8;
    function->module = module;
    function->next = module->functions;
    module->functions = function;
    handle_add(function, HANDLE_FUNCTION);
    *out = function;
    return CUDA_SUCCESS;
}

CUresult module_global(const struct module *module, const char *name, CUdeviceptr *pointer, size_t *bytes)
{
    for (unsigned i = 0; i < module->image.global_count; i++) {
        if (strcmp(module->image.globals[i].name, name) != 0)
            continue;
        if (pointer)
            *pointer = module->globals[i];
        if (bytes)
            *bytes = module->image.globals[i].bytes;
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_NOT_FOUND;
}

static CUresult load(CUmodule *out, const struct image *image)
{
    struct context *context;
    CUresult result = enter(&context);
    if (result != CUDA_SUCCESS)
        return result;
    struct module *module;
    result = capture_forbids();
    if (result == CUDA_SUCCESS)
        result = module_new(context, image, &module);
    if (result == CUDA_SUCCESS)
        *out = (CUmodule)module;
    return leave(result);
}

CUresult cuModuleLoadDataEx(CUmodule *out, const void *bytes, unsigned int count, CUjit_option *options, void **values)
{
    (void)count, (void)options, (void)values;
    struct image image;
    CUresult result = check_init();
    if (result != CUDA_SUCCESS)
        return result;
    if (!out || !bytes)
        return CUDA_ERROR_INVALID_VALUE;
    result = image_read(bytes, &image);
    if (result != CUDA_SUCCESS)
        return result;
    result = load(out, &image);
    image_drop(&image);
    return result;
}

CUresult cuModuleLoadData(CUmodule *out, const void *bytes)
{
    return cuModuleLoadDataEx(out, bytes, 0, NULL, NULL);
}

CUresult cuModuleLoadFatBinary(CUmodule *out, const void *bytes)
{
    return cuModuleLoadDataEx(out, bytes, 0, NULL, NULL);
}

CUresult cuModuleLoad(CUmodule *out, const char *path)
{
    struct image image;
    CUresult result = check_init();
    if (result != CUDA_SUCCESS)
        return result;
    if (!out || !path)
        return CUDA_ERROR_INVALID_VALUE;
    result = image_read_file(path, &image);
    if (result != CUDA_SUCCESS)
        return result;
    result = load(out, &image);
    image_drop(&image);
    return result;
}

static struct module *module_of(CUmodule handle)
{
    return handle_is(handle, HANDLE_MODULE) ? (struct module *)handle : NULL;
}

CUresult cuModuleUnload(CUmodule handle)
{
    struct context *context;
    CUresult result = enter(&context);
    if (result != CUDA_SUCCESS)
        return result;
    struct module *module = module_of(handle);
    if (!module || module->library)
        return leave(CUDA_ERROR_INVALID_HANDLE);
    result = capture_forbids();
    if (result != CUDA_SUCCESS)
        return leave(result);
    context_drain(module->context);
    module_drop(module);
    return leave(CUDA_SUCCESS);
}

CUresult cuModuleGetFunction(CUfunction *out, CUmodule handle, const char *name)
{
    struct context *context;
    CUresult result = enter(&context);
    if (result != CUDA_SUCCESS)
        return result;
    struct module *module = module_of(handle);
    if (!out || !name)
        return leave(CUDA_ERROR_INVALID_VALUE);
    if (!module)
        return leave(CUDA_ERROR_INVALID_HANDLE);
    struct function *function;
    result = module_function(module, name, &function);
    if (result == CUDA_SUCCESS)
        *out = (CUfunction)function;
    return leave(result);
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *pointer, size_t *bytes, CUmodule handle, const char *name)
{
    struct context *context;
    CUresult result = enter(&context);
    if (result != CUDA_SUCCESS)
        return result;
    const struct module *module = module_of(handle);
    if (!name)
        return leave(CUDA_ERROR_INVALID_VALUE);
    return leave(module ? module_global(module, name, pointer, bytes) : CUDA_ERROR_INVALID_HANDLE);
}

CUresult cuModuleGetFunctionCount(unsigned int *count, CUmodule handle)
{
    struct context *context;
    CUresult result = enter(&context);
    if (result != CUDA_SUCCESS)
        return result;
    const struct module *module = module_of(handle);
    if (!count || !module)
        return leave(CUDA_ERROR_INVALID_VALUE);
    *count = module->image.kernel_count;
    return leave(CUDA_SUCCESS);
}

CUresult cuModuleEnumerateFunctions(CUfunction *functions, unsigned int count, CUmodule handle)
{
    struct context *context;
    CUresult result = enter(&context);
    if (result != CUDA_SUCCESS)
        return result;
    struct module *module = module_of(handle);
    if (!functions || !module)
        return leave(CUDA_ERROR_INVALID_VALUE);
    for (unsigned i = 0; i < count && i < module->image.kernel_count; i++) {
        struct function *function;
        result = module_function(module, module->image.kernels[i].name, &function);
        if (result != CUDA_SUCCESS)
            return leave(result);
        functions[i] = (CUfunction)function;
    }
    return leave(CUDA_SUCCESS);
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
    CUresult result = check_init();
    if (result != CUDA_SUCCESS)
        return result;
    if (!mode)
        return CUDA_ERROR_INVALID_VALUE;
    *mode = CU_MODULE_LAZY_LOADING;
    return CUDA_SUCCESS;
}
