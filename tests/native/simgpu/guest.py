"""Runs on the simulated card in a process of its own: reads Python as JSON lines, answers with values.

`cu("MemAlloc_v2", ...)` and `nv("...")` call the libraries and raise on an error; the helpers below are for tests.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import traceback

MIB = 1 << 20
cuda = ctypes.CDLL("libcuda.so.1")
nvml = ctypes.CDLL("libnvidia-ml.so.1")
for library in (cuda, nvml):
    library.hamisim_clock.restype = ctypes.c_uint64
    library.hamisim_busy.restype = library.hamisim_busy_for.restype = library.hamisim_used.restype = ctypes.c_uint64
    library.hamisim_peak.restype = ctypes.c_uint64
    library.hamisim_advance.argtypes = [ctypes.c_uint64]
    library.hamisim_raise_xid.argtypes = [ctypes.c_uint, ctypes.c_uint64]


class CudaError(Exception):
    pass


def cu(name, *arguments):
    result = getattr(cuda, "cu" + name)(*arguments)
    if result:
        raise CudaError(result)


def nv(name, *arguments):
    result = getattr(nvml, "nvml" + name)(*arguments)
    if result:
        raise CudaError(result)


def refused(call, *arguments):
    """The CUresult that a call fails with; 0 if it doesn't."""
    try:
        call(*arguments)
    except CudaError as error:
        return error.args[0]
    return 0


def init(device=0):
    cu("Init", 0)
    context = ctypes.c_void_p()
    cu("DevicePrimaryCtxRetain", ctypes.byref(context), device)
    cu("CtxSetCurrent", context)


def alloc(mib):
    pointer = ctypes.c_uint64()
    cu("MemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(mib * MIB))
    return pointer.value


def free(pointer):
    cu("MemFree_v2", ctypes.c_uint64(pointer))


def taken():
    """MiB taken on the current device."""
    left, total = ctypes.c_size_t(), ctypes.c_size_t()
    cu("MemGetInfo_v2", ctypes.byref(left), ctypes.byref(total))
    return (total.value - left.value) // MIB


class ProcessInfo(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong), ("gi", ctypes.c_uint), ("ci", ctypes.c_uint)]


def device(index=0):
    handle = ctypes.c_void_p()
    nv("Init_v2")
    nv("DeviceGetHandleByIndex_v2", index, ctypes.byref(handle))
    return handle


def processes(index=0):
    """[PID, MiB] of every process that NVML lists on a card."""
    count, infos = ctypes.c_uint(1024), (ProcessInfo * 1024)()
    nv("DeviceGetComputeRunningProcesses_v3", device(index), ctypes.byref(count), infos)
    return sorted([infos[i].pid, infos[i].used // MIB] for i in range(count.value))


def uuid(ordinal=0):
    bytes_ = (ctypes.c_ubyte * 16)()
    cu("DeviceGetUuid_v2", bytes_, ordinal)
    return bytes(bytes_).hex()


def uuids():
    """UUIDs of all devices that the driver shows."""
    count = ctypes.c_int()
    cu("Init", 0)
    cu("DeviceGetCount", ctypes.byref(count))
    return [uuid(i) for i in range(count.value)]


def spinner():
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    cu("ModuleLoadData", ctypes.byref(module), b"//hamisim kernels=sim_spin")
    cu("ModuleGetFunction", ctypes.byref(function), module, b"sim_spin")
    return function


def spin(function, ns):
    value = ctypes.c_uint64(ns)
    parameters = (ctypes.c_void_p * 1)(ctypes.addressof(value))
    cu("LaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, None, parameters, None)


def main():
    names = dict(globals())
    for line in sys.stdin:
        try:
            code = json.loads(line)
            try:
                value = eval(code, names)
            except SyntaxError:
                value = exec(code, names)
            answer = {"value": value}
        except BaseException:
            answer = {"error": traceback.format_exc()}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
    os._exit(0)
