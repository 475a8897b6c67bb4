#include "capture.h"

#include "driver.h"

bool capture_ask(CUstream stream, bool per_thread)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult result = per_thread && CUDA_HAS(cuStreamIsCapturing_ptsz) ? REAL(cuStreamIsCapturing_ptsz)(stream, &status)
                                                                       : REAL(cuStreamIsCapturing)(stream, &status);
    return result != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE;
}

CUstreamCaptureMode capture_exchange(CUstreamCaptureMode mode)
{
    REAL(cuThreadExchangeStreamCaptureMode)(&mode);
    return mode;
}

// ---- the calls that begin one ------------------------------------------------------------------------------------------

static void begin(void)
{
    cuda_enter();
    atomic_store_explicit(&hot.capture_begun, true, memory_order_relaxed);
}

CUresult cuStreamBeginCapture(CUstream hStream)
{
    begin();
    return REAL(cuStreamBeginCapture)(hStream);
}

CUresult cuStreamBeginCapture_ptsz(CUstream hStream)
{
    begin();
    return REAL(cuStreamBeginCapture_ptsz)(hStream);
}

CUresult cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode)
{
    begin();
    return REAL(cuStreamBeginCapture_v2)(hStream, mode);
}

CUresult cuStreamBeginCapture_v2_ptsz(CUstream hStream, CUstreamCaptureMode mode)
{
    begin();
    return REAL(cuStreamBeginCapture_v2_ptsz)(hStream, mode);
}

CUresult cuStreamBeginCaptureToGraph(CUstream hStream, CUgraph hGraph, const CUgraphNode *dependencies,
                                     const CUgraphEdgeData *dependencyData, size_t numDependencies,
                                     CUstreamCaptureMode mode)
{
    begin();
    return REAL(cuStreamBeginCaptureToGraph)(hStream, hGraph, dependencies, dependencyData, numDependencies, mode);
}

CUresult cuStreamBeginCaptureToGraph_ptsz(CUstream hStream, CUgraph hGraph, const CUgraphNode *dependencies,
                                          const CUgraphEdgeData *dependencyData, size_t numDependencies,
                                          CUstreamCaptureMode mode)
{
    begin();
    return REAL(cuStreamBeginCaptureToGraph_ptsz)(hStream, hGraph, dependencies, dependencyData, numDependencies, mode);
}

CUresult cuStreamBeginRecaptureToGraph(CUstream hStream, CUstreamCaptureMode mode, CUgraph hGraph,
                                       CUgraphRecaptureCallback callbackFunc, void *userData)
{
    begin();
    return REAL(cuStreamBeginRecaptureToGraph)(hStream, mode, hGraph, callbackFunc, userData);
}

CUresult cuStreamBeginRecaptureToGraph_ptsz(CUstream hStream, CUstreamCaptureMode mode, CUgraph hGraph,
                                            CUgraphRecaptureCallback callbackFunc, void *userData)
{
    begin();
    return REAL(cuStreamBeginRecaptureToGraph_ptsz)(hStream, mode, hGraph, callbackFunc, userData);
}

CUresult cuStreamBeginCaptureToCig(CUstream hStream, CUstreamCigCaptureParams *streamCigCaptureParams)
{
    begin();
    return REAL(cuStreamBeginCaptureToCig)(hStream, streamCigCaptureParams);
}

CUresult cuStreamBeginCaptureToCig_ptsz(CUstream hStream, CUstreamCigCaptureParams *streamCigCaptureParams)
{
    begin();
    return REAL(cuStreamBeginCaptureToCig_ptsz)(hStream, streamCigCaptureParams);
}
