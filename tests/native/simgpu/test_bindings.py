"""cuda-bindings' driver module, unmodified: what a notebook on a machine without a card uses."""

from __future__ import annotations

import pytest

from .conftest import Machine

pytest.importorskip("cuda.bindings.driver")

PRELUDE = """
import ctypes
from cuda.bindings import driver as d
def ok(answer):
    assert answer[0] == d.CUresult.CUDA_SUCCESS, answer
    return answer[1] if len(answer) == 2 else answer[1:]
ok(d.cuInit(0))
device = ok(d.cuDeviceGet(0))
"""


def ask(machine: Machine, code: str) -> str:
    return machine.python(PRELUDE + code).strip()


def test_allocate_free_and_be_refused(machine: Machine) -> None:
    code = """
context = ok(d.cuCtxCreate(None, 0, device))
print(ok(d.cuDeviceGetName(64, device)).split(b"\\0")[0].decode(), ok(d.cuDeviceTotalMem(device)) >> 20)
pointer = ok(d.cuMemAlloc(2 << 30))
free, total = ok(d.cuMemGetInfo())
print((total - free) >> 20)
ok(d.cuMemFree(pointer))
print(d.cuMemAlloc(20 << 30)[0].name)
ok(d.cuCtxDestroy(context))
"""
    assert ask(machine, code).splitlines() == ["Tesla T4 15360", "2152", "CUDA_ERROR_OUT_OF_MEMORY"]


def test_copies_streams_and_kernels(machine: Machine) -> None:
    code = """
context = ok(d.cuDevicePrimaryCtxRetain(device))
ok(d.cuCtxSetCurrent(context))
out = bytearray(8)
pointer = ok(d.cuMemAlloc(8))
ok(d.cuMemcpyHtoD(pointer, b"abcdefgh", 8))
stream = ok(d.cuStreamCreate(0))
module = ok(d.cuModuleLoadData(b"//hamisim kernels=sim_spin\\0"))
function = ok(d.cuModuleGetFunction(module, b"sim_spin"))
ns = ctypes.c_uint64(2_000_000)
parameters = (ctypes.c_void_p * 1)(ctypes.addressof(ns))
before, after = ok(d.cuEventCreate(0)), ok(d.cuEventCreate(0))
ok(d.cuEventRecord(before, stream))
ok(d.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, ctypes.addressof(parameters), 0))
ok(d.cuEventRecord(after, stream))
ok(d.cuStreamSynchronize(stream))
assert ok(d.cuEventElapsedTime(before, after)) >= 2
ok(d.cuMemcpyDtoH(out, pointer, 8))
print(out.decode(), ok(d.cuGetErrorString(d.CUresult.CUDA_ERROR_OUT_OF_MEMORY)).decode())
"""
    assert ask(machine, code) == "abcdefgh out of memory"


def test_pools_and_graphs(machine: Machine) -> None:
    code = """
ok(d.cuCtxCreate(None, 0, device))
stream = ok(d.cuStreamCreate(0))
pool = ok(d.cuDeviceGetDefaultMemPool(device))
pointer = ok(d.cuMemAllocAsync(100 << 20, stream))
reserved = d.CUmemPool_attribute.CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT
print(int(ok(d.cuMemPoolGetAttribute(pool, reserved))) >> 20)
ok(d.cuMemFreeAsync(pointer, stream))
ok(d.cuStreamBeginCapture(stream, d.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL))
inside = ok(d.cuMemAllocAsync(64 << 20, stream))
ok(d.cuMemFreeAsync(inside, stream))
graph = ok(d.cuStreamEndCapture(stream))
run = ok(d.cuGraphInstantiate(graph, 0))
ok(d.cuGraphLaunch(run, stream))
ok(d.cuStreamSynchronize(stream))
free, total = ok(d.cuMemGetInfo())
print((total - free) >> 20)
"""
    assert ask(machine, code).split() == ["128", "168"]
