"""The driver and NVML by ctypes, as the guests of these tests call them.  `guest_ways` builds on it."""

from __future__ import annotations

import ctypes
import functools
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p

MIB = 1 << 20
OUT_OF_MEMORY = 2
NOT_INITIALIZED = 3
NO_DEVICE = 100
NOT_PERMITTED = 800


@functools.lru_cache
def libcuda() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


class CudaError(Exception):
    """A call that didn't answer CUDA_SUCCESS."""

    def __init__(self, call: str, code: int) -> None:
        super().__init__(f"{call} answered {code}")
        self.code = code


def cu(name: str, *arguments: object) -> None:
    """Call libcuda's `name`, which must succeed.  Plain integers are passed as 64 bits."""
    code = getattr(libcuda(), name)(*(c_uint64(a) if isinstance(a, int) else a for a in arguments))
    if code:
        raise CudaError(name, code)


def init() -> None:
    cu("cuInit", c_uint(0))


def context(device: int = 0) -> None:
    """Make the device's primary context current."""
    handle = c_void_p()
    cu("cuDevicePrimaryCtxRetain", byref(handle), c_int(device))
    cu("cuCtxSetCurrent", handle)


def green(device: int = 0) -> c_void_p:
    """A green context of all the device's multiprocessors."""
    resource, description, handle = ctypes.create_string_buffer(1024), c_void_p(), c_void_p()
    cu("cuDeviceGetDevResource", c_int(device), resource, c_int(1))
    cu("cuDevResourceGenerateDesc", byref(description), resource, c_uint(1))
    cu("cuGreenCtxCreate", byref(handle), description, c_int(device), c_uint(1))
    return handle


def use_green(handle: c_void_p) -> None:
    """Make it current."""
    context = c_void_p()
    cu("cuCtxFromGreenCtx", byref(context), handle)
    cu("cuCtxSetCurrent", context)


def end_green(handle: c_void_p) -> None:
    cu("cuGreenCtxDestroy", handle)


def start(device: int = 0) -> None:
    init()
    context(device)


def info() -> list[int]:
    """cuMemGetInfo: MiB free and in all."""
    free, total = c_size_t(), c_size_t()
    cu("cuMemGetInfo_v2", byref(free), byref(total))
    return [free.value // MIB, total.value // MIB]


def total_mem(device: int = 0) -> int:
    total = c_size_t()
    cu("cuDeviceTotalMem_v2", byref(total), c_int(device))
    return total.value // MIB


def lists_asked() -> int:
    """How often the limiter has asked NVML for the processes of a card, in this process."""
    return ctypes.CDLL("libnvidia-ml.so.1").hamisim_lists()


def escape(mib: int, card: int = 0) -> None:
    """Take, or give back, VRAM as no entry point of the driver does."""
    taken = libcuda().hamisim_take(c_uint(card), ctypes.c_int64(mib * MIB))
    assert taken == 0


def nvml() -> object:
    import pynvml

    pynvml.nvmlInit()
    return pynvml


def nvml_memory(index: int = 0) -> list[int]:
    """MiB in all, used, free by version 1, then by version 2."""
    n = nvml()
    handle = n.nvmlDeviceGetHandleByIndex(index)
    one = n.nvmlDeviceGetMemoryInfo(handle)
    two = n.nvmlDeviceGetMemoryInfo(handle, version=n.nvmlMemory_v2)
    return [v // MIB for v in (one.total, one.used, one.free, two.total, two.used, two.free, two.reserved)]


def nvml_pids(index: int = 0) -> list[int]:
    n = nvml()
    return sorted(p.pid for p in n.nvmlDeviceGetComputeRunningProcesses(n.nvmlDeviceGetHandleByIndex(index)))


def nvml_uuids() -> list[str]:
    n = nvml()
    return [n.nvmlDeviceGetUUID(n.nvmlDeviceGetHandleByIndex(i)) for i in range(n.nvmlDeviceGetCount())]
