// The cuMemcpy* family: each is one three-dimensional copy, in order in a stream; the synchronous ones wait for it.
#include "array.h"
#include "memory.h"
#include "perform.h"
#include "stream.h"

static CUresult submit(CUDA_MEMCPY3D copy, CUstream handle, bool wait)
{
    struct context *context;
    struct stream *stream;
    CUresult result = enter_stream(handle, &context, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    result = copy_check(&copy);
    if (result != CUDA_SUCCESS)
        return leave(result);
    struct work work = {.type = CU_GRAPH_NODE_TYPE_MEMCPY, .context = stream->context, .copy = copy};
    return leave(wait ? stream_run(stream, &work) : stream_submit(stream, &work));
}

static CUDA_MEMCPY3D row(size_t bytes)
{
    return (CUDA_MEMCPY3D){.WidthInBytes = bytes, .Height = 1, .Depth = 1};
}

static CUDA_MEMCPY3D to_host(CUDA_MEMCPY3D copy, void *host)
{
    copy.dstMemoryType = CU_MEMORYTYPE_HOST;
    copy.dstHost = host;
    return copy;
}

static CUDA_MEMCPY3D from_host(CUDA_MEMCPY3D copy, const void *host)
{
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = host;
    return copy;
}

static CUDA_MEMCPY3D to_device(CUDA_MEMCPY3D copy, CUdeviceptr device)
{
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = device;
    return copy;
}

static CUDA_MEMCPY3D from_device(CUDA_MEMCPY3D copy, CUdeviceptr device)
{
    copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = device;
    return copy;
}

static CUDA_MEMCPY3D to_array(CUDA_MEMCPY3D copy, CUarray array, size_t offset)
{
    copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    copy.dstArray = array;
    copy.dstXInBytes = offset;
    return copy;
}

static CUDA_MEMCPY3D from_array(CUDA_MEMCPY3D copy, CUarray array, size_t offset)
{
    copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    copy.srcArray = array;
    copy.srcXInBytes = offset;
    return copy;
}

// Host or device, as the address says.
static CUDA_MEMCPY3D unified(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    CUDA_MEMCPY3D copy = row(bytes);
    copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
    copy.srcDevice = from;
    copy.dstDevice = to;
    return copy;
}

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    return submit(unified(to, from, bytes), NULL, true);
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return submit(unified(to, from, bytes), stream, false);
}

CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes)
{
    (void)to_context, (void)from_context;
    return submit(from_device(to_device(row(bytes), to), from), NULL, true);
}

CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes,
                           CUstream stream)
{
    (void)to_context, (void)from_context;
    return submit(from_device(to_device(row(bytes), to), from), stream, false);
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes)
{
    return submit(from_host(to_device(row(bytes), to), from), NULL, true);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    return submit(from_host(to_device(row(bytes), to), from), stream, false);
}

CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes)
{
    return submit(from_device(to_host(row(bytes), to), from), NULL, true);
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return submit(from_device(to_host(row(bytes), to), from), stream, false);
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    return submit(from_device(to_device(row(bytes), to), from), NULL, true);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return submit(from_device(to_device(row(bytes), to), from), stream, false);
}

CUresult cuMemcpyDtoA_v2(CUarray to, size_t offset, CUdeviceptr from, size_t bytes)
{
    return submit(from_device(to_array(row(bytes), to, offset), from), NULL, true);
}

CUresult cuMemcpyAtoD_v2(CUdeviceptr to, CUarray from, size_t offset, size_t bytes)
{
    return submit(from_array(to_device(row(bytes), to), from, offset), NULL, true);
}

CUresult cuMemcpyHtoA_v2(CUarray to, size_t offset, const void *from, size_t bytes)
{
    return submit(from_host(to_array(row(bytes), to, offset), from), NULL, true);
}

CUresult cuMemcpyHtoAAsync_v2(CUarray to, size_t offset, const void *from, size_t bytes, CUstream stream)
{
    return submit(from_host(to_array(row(bytes), to, offset), from), stream, false);
}

CUresult cuMemcpyAtoH_v2(void *to, CUarray from, size_t offset, size_t bytes)
{
    return submit(from_array(to_host(row(bytes), to), from, offset), NULL, true);
}

CUresult cuMemcpyAtoHAsync_v2(void *to, CUarray from, size_t offset, size_t bytes, CUstream stream)
{
    return submit(from_array(to_host(row(bytes), to), from, offset), stream, false);
}

CUresult cuMemcpyAtoA_v2(CUarray to, size_t to_offset, CUarray from, size_t from_offset, size_t bytes)
{
    return submit(from_array(to_array(row(bytes), to, to_offset), from, from_offset), NULL, true);
}

static CUDA_MEMCPY3D flat(const CUDA_MEMCPY2D *p)
{
    return (CUDA_MEMCPY3D){
        .srcXInBytes = p->srcXInBytes,
        .srcY = p->srcY,
        .srcMemoryType = p->srcMemoryType,
        .srcHost = p->srcHost,
        .srcDevice = p->srcDevice,
        .srcArray = p->srcArray,
        .srcPitch = p->srcPitch,
        .dstXInBytes = p->dstXInBytes,
        .dstY = p->dstY,
        .dstMemoryType = p->dstMemoryType,
        .dstHost = p->dstHost,
        .dstDevice = p->dstDevice,
        .dstArray = p->dstArray,
        .dstPitch = p->dstPitch,
        .WidthInBytes = p->WidthInBytes,
        .Height = p->Height,
        .Depth = 1,
    };
}

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *copy)
{
    return copy ? submit(flat(copy), NULL, true) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *copy)
{
    return copy ? submit(flat(copy), NULL, true) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *copy, CUstream stream)
{
    return copy ? submit(flat(copy), stream, false) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D *copy)
{
    return copy ? submit(*copy, NULL, true) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *copy, CUstream stream)
{
    return copy ? submit(*copy, stream, false) : CUDA_ERROR_INVALID_VALUE;
}

static CUDA_MEMCPY3D without_contexts(const CUDA_MEMCPY3D_PEER *p)
{
    return (CUDA_MEMCPY3D){
        .srcXInBytes = p->srcXInBytes,
        .srcY = p->srcY,
        .srcZ = p->srcZ,
        .srcMemoryType = p->srcMemoryType,
        .srcHost = p->srcHost,
        .srcDevice = p->srcDevice,
        .srcArray = p->srcArray,
        .srcPitch = p->srcPitch,
        .srcHeight = p->srcHeight,
        .dstXInBytes = p->dstXInBytes,
        .dstY = p->dstY,
        .dstZ = p->dstZ,
        .dstMemoryType = p->dstMemoryType,
        .dstHost = p->dstHost,
        .dstDevice = p->dstDevice,
        .dstArray = p->dstArray,
        .dstPitch = p->dstPitch,
        .dstHeight = p->dstHeight,
        .WidthInBytes = p->WidthInBytes,
        .Height = p->Height,
        .Depth = p->Depth,
    };
}

CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *copy)
{
    return copy ? submit(without_contexts(copy), NULL, true) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *copy, CUstream stream)
{
    return copy ? submit(without_contexts(copy), stream, false) : CUDA_ERROR_INVALID_VALUE;
}
