// What can be read from a module's image.
//
// Our own textual form, for tests:     //hamisim static=256 kernels=sim_spin,foo(8,4)
//   static=<MiB>    a global named sim_static of that size
//   heap            its kernels call malloc
//   kernels=<list>  names, with the sizes of their parameters in bytes; sim_spin has one of 8
// PTX: its .entry points with their parameters and its .global variables are read, its instructions are not.
// Anything else (cubin, fatbin) is taken as it is: every name is a kernel, and it has no global data.
#include "module.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define OWN "//hamisim"

static char *copy_text(const char *text, size_t length)
{
    char *copy = malloc(length + 1);
    if (!copy)
        abort();
    memcpy(copy, text, length);
    copy[length] = '\0';
    return copy;
}

static size_t word_length(const char *text)
{
    size_t length = 0;
    while (isalnum((unsigned char)text[length]) || text[length] == '_' || text[length] == '$' || text[length] == '.')
        length++;
    return length;
}

static struct image_kernel *add_kernel(struct image *image, const char *name, size_t length)
{
    image->kernels = realloc(image->kernels, (image->kernel_count + 1) * sizeof *image->kernels);
    if (!image->kernels)
        abort();
    struct image_kernel *kernel = &image->kernels[image->kernel_count++];
    *kernel = (struct image_kernel){.name = copy_text(name, length)};
    return kernel;
}

static void add_parameter(struct image_kernel *kernel, uint32_t bytes)
{
    if (kernel->parameter_count < MAX_PARAMETERS)
        kernel->sizes[kernel->parameter_count++] = bytes;
}

static void add_global(struct image *image, const char *name, size_t length, uint64_t bytes)
{
    image->globals = realloc(image->globals, (image->global_count + 1) * sizeof *image->globals);
    if (!image->globals)
        abort();
    image->globals[image->global_count++] = (struct image_global){copy_text(name, length), bytes};
}

static CUresult read_kernel_list(struct image *image, const char *at)
{
    image->closed = true;
    while (*at && !isspace((unsigned char)*at)) {
        size_t length = word_length(at);
        if (length == 0)
            return CUDA_ERROR_INVALID_IMAGE;
        struct image_kernel *kernel = add_kernel(image, at, length);
        bool spins = strcmp(kernel->name, "sim_spin") == 0;
        at += length;
        if (*at == '(') {
            do {
                char *end;
                unsigned long bytes = strtoul(at + 1, &end, 10);
                if (end == at + 1 || bytes == 0 || bytes > 4096)
                    return CUDA_ERROR_INVALID_IMAGE;
                add_parameter(kernel, (uint32_t)bytes);
                at = end;
            } while (*at == ',');
            if (*at++ != ')')
                return CUDA_ERROR_INVALID_IMAGE;
        } else if (spins) {
            add_parameter(kernel, 8);
        }
        at += *at == ',';
    }
    return CUDA_SUCCESS;
}

static CUresult read_own(struct image *image, const char *text)
{
    const char *at = text + strlen(OWN);
    CUresult result = CUDA_SUCCESS;
    while (result == CUDA_SUCCESS && *at) {
        at += strspn(at, " \t\r\n");
        if (strncmp(at, "static=", 7) == 0) {
            uint64_t mib = strtoull(at + 7, NULL, 10);
            if (mib > 0)
                add_global(image, "sim_static", 10, mib * MIB);
        } else if (strncmp(at, "kernels=", 8) == 0) {
            result = read_kernel_list(image, at + 8);
        } else if (strncmp(at, "heap", 4) == 0) {
            image->uses_heap = true;
        } else if (*at) {
            result = CUDA_ERROR_INVALID_IMAGE;
        }
        at += strcspn(at, " \t\r\n");
    }
    return result;
}

// ".u64" -> 8; 0 if it's no type.
static unsigned type_bytes(const char *type)
{
    if (type[0] != '.' || !strchr("usbf", type[1]))
        return 0;
    unsigned bits = (unsigned)strtoul(type + 2, NULL, 10);
    return bits >= 8 && bits <= 128 ? bits / 8 : 0;
}

// A declaration such as ".align 8 .b8 name[32][4]": its name and how many bytes it takes.
static uint64_t read_declaration(const char *at, const char *end, const char **name, size_t *length)
{
    uint64_t bytes = 0;
    *name = NULL;
    while (at < end) {
        at += strspn(at, " \t\r\n");
        size_t word = word_length(at);
        if (at >= end || word == 0)
            break;
        if (strncmp(at, ".align", 6) == 0) {
            at += word;
            at += strspn(at, " \t0123456789");
            continue;
        }
        if (*at != '.') {
            *name = at;
            *length = word;
            at += word;
            break;
        }
        if (type_bytes(at))
            bytes = type_bytes(at);
        at += word;
    }
    while (at < end && *at == '[') {
        char *close;
        uint64_t count = strtoull(at + 1, &close, 10);
        if (*close != ']')
            return 0; // extern: its size is elsewhere
        bytes *= count;
        at = close + 1;
    }
    return bytes;
}

static const char *read_entry(struct image *image, const char *at)
{
    at += strspn(at, " \t\r\n");
    struct image_kernel *kernel = add_kernel(image, at, word_length(at));
    at += strcspn(at, "({");
    if (*at != '(')
        return at;
    const char *close = at + strcspn(at, ")");
    while ((at = strstr(at, ".param")) && at < close) {
        const char *end = at + strcspn(at, ",)"), *name;
        size_t length;
        uint64_t bytes = read_declaration(at + 6, end, &name, &length);
        if (name)
            add_parameter(kernel, (uint32_t)bytes);
        at = end;
    }
    return close;
}

// The first of the two words outside of comments, or NULL.
static const char *next_of(const char *at)
{
    for (; *at; at++) {
        if (at[0] == '/' && at[1] == '/') {
            at += strcspn(at, "\n");
            if (!*at)
                return NULL;
        } else if (strncmp(at, ".entry", 6) == 0 || strncmp(at, ".global", 7) == 0) {
            return at;
        }
    }
    return NULL;
}

static CUresult read_ptx(struct image *image, const char *text)
{
    image->closed = true;
    image->uses_heap = strstr(text, "malloc") != NULL;
    const char *at = text, *name;
    while ((at = next_of(at))) {
        // Inside of a body ".global" is a part of an instruction (ld.global): a declaration starts a statement.
        bool starts = at == text || isspace((unsigned char)at[-1]);
        if (strncmp(at, ".entry", 6) == 0) {
            at = read_entry(image, at + 6);
        } else if (starts) {
            const char *end = at + strcspn(at, ";={");
            size_t length;
            uint64_t bytes = read_declaration(at + 7, end, &name, &length);
            if (name && bytes)
                add_global(image, name, length, bytes);
            at = end;
        } else {
            at++;
        }
    }
    return CUDA_SUCCESS;
}

static bool looks_like_ptx(const char *text)
{
    for (const char *at = text; *at; at++) {
        if (isspace((unsigned char)*at))
            continue;
        if (at[0] == '/' && at[1] == '/') {
            at += strcspn(at, "\n");
            if (!*at)
                return false;
            continue;
        }
        return strncmp(at, ".version", 8) == 0;
    }
    return false;
}

CUresult image_read(const void *bytes, struct image *image)
{
    *image = (struct image){0};
    const char *text = bytes;
    CUresult result = CUDA_SUCCESS;
    if (strncmp(text, OWN, strlen(OWN)) == 0)
        result = read_own(image, text);
    else if ((isspace((unsigned char)*text) || *text == '/' || *text == '.') && looks_like_ptx(text))
        result = read_ptx(image, text);
    if (result != CUDA_SUCCESS)
        image_drop(image);
    return result;
}

CUresult image_read_file(const char *path, struct image *image)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return CUDA_ERROR_FILE_NOT_FOUND;
    char *bytes = NULL;
    size_t size = 0, room = 0, got;
    do {
        if (room - size < 65536)
            bytes = realloc(bytes, (room += 1 << 20) + 1);
        if (!bytes)
            abort();
        got = fread(bytes + size, 1, room - size, file);
        size += got;
    } while (got > 0);
    fclose(file);
    bytes[size] = '\0';
    CUresult result = size ? image_read(bytes, image) : CUDA_ERROR_INVALID_IMAGE;
    free(bytes);
    return result;
}

bool image_copy(struct image *to, const struct image *from)
{
    *to = (struct image){.closed = from->closed, .uses_heap = from->uses_heap};
    for (unsigned i = 0; i < from->kernel_count; i++) {
        struct image_kernel *kernel = add_kernel(to, from->kernels[i].name, strlen(from->kernels[i].name));
        kernel->parameter_count = from->kernels[i].parameter_count;
        memcpy(kernel->sizes, from->kernels[i].sizes, sizeof kernel->sizes);
    }
    for (unsigned i = 0; i < from->global_count; i++)
        add_global(to, from->globals[i].name, strlen(from->globals[i].name), from->globals[i].bytes);
    return true;
}

void image_drop(struct image *image)
{
    for (unsigned i = 0; i < image->kernel_count; i++)
        free(image->kernels[i].name);
    for (unsigned i = 0; i < image->global_count; i++)
        free(image->globals[i].name);
    free(image->kernels);
    free(image->globals);
    *image = (struct image){0};
}
