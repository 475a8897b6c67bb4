// The cuMemset* family: each fills one rectangle, in order in a stream; the synchronous ones wait for it.
#include "perform.h"
#include "stream.h"

static CUresult submit(CUdeviceptr to, size_t pitch, unsigned value, unsigned element, size_t width, size_t height,
                       CUstream handle, bool wait)
{
    struct context *context;
    struct stream *stream;
    CUresult result = enter_stream(handle, &context, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    struct work work = {.type = CU_GRAPH_NODE_TYPE_MEMSET,
                        .context = stream->context,
                        .set = {to, pitch, value, element, width, height}};
    result = set_check(&work.set);
    if (result != CUDA_SUCCESS)
        return leave(result);
    return leave(wait ? stream_run(stream, &work) : stream_submit(stream, &work));
}

CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count)
{
    return submit(to, 0, value, 1, count, 1, NULL, true);
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream)
{
    return submit(to, 0, value, 1, count, 1, stream, false);
}

CUresult cuMemsetD16_v2(CUdeviceptr to, unsigned short value, size_t count)
{
    return submit(to, 0, value, 2, count, 1, NULL, true);
}

CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream stream)
{
    return submit(to, 0, value, 2, count, 1, stream, false);
}

CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned int value, size_t count)
{
    return submit(to, 0, value, 4, count, 1, NULL, true);
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t count, CUstream stream)
{
    return submit(to, 0, value, 4, count, 1, stream, false);
}

CUresult cuMemsetD2D8_v2(CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height)
{
    return submit(to, pitch, value, 1, width, height, NULL, true);
}

CUresult cuMemsetD2D8Async(CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height,
                           CUstream stream)
{
    return submit(to, pitch, value, 1, width, height, stream, false);
}

CUresult cuMemsetD2D16_v2(CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height)
{
    return submit(to, pitch, value, 2, width, height, NULL, true);
}

CUresult cuMemsetD2D16Async(CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height,
                            CUstream stream)
{
    return submit(to, pitch, value, 2, width, height, stream, false);
}

CUresult cuMemsetD2D32_v2(CUdeviceptr to, size_t pitch, unsigned int value, size_t width, size_t height)
{
    return submit(to, pitch, value, 4, width, height, NULL, true);
}

CUresult cuMemsetD2D32Async(CUdeviceptr to, size_t pitch, unsigned int value, size_t width, size_t height,
                            CUstream stream)
{
    return submit(to, pitch, value, 4, width, height, stream, false);
}
