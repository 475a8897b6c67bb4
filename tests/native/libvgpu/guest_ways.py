"""The ways to take VRAM: `ways` has each by the name of its call, and each returns a function that gives it back."""

from __future__ import annotations

import atexit
import ctypes
import functools
import os
import tempfile
from collections.abc import Callable
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p

from guest_calls import MIB, OUT_OF_MEMORY, CudaError, cu

Give = Callable[[], None]
ways: dict[str, Callable[[int], Give]] = {}
taken: list[Give] = []


def way(function: Callable[[int], Give]) -> Callable[[int], Give]:
    ways[function.__name__] = function
    return function


def alloc_bytes(size: int) -> int:
    pointer = c_uint64()
    cu("cuMemAlloc_v2", byref(pointer), c_size_t(size))
    return pointer.value


def alloc(mib: int) -> int:
    """cuMemAlloc of so many MiB; the pointer."""
    return alloc_bytes(mib * MIB)


def free(pointer: int) -> None:
    cu("cuMemFree_v2", pointer)


@way
def cuMemAlloc_v2(mib: int) -> Give:  # noqa: N802
    pointer = alloc(mib)
    return lambda: free(pointer)


@way
def cuMemAllocManaged(mib: int) -> Give:  # noqa: N802
    pointer = c_uint64()
    cu("cuMemAllocManaged", byref(pointer), c_size_t(mib * MIB), c_uint(1))
    return lambda: free(pointer.value)


@way
def cuMemAllocPitch_v2(mib: int) -> Give:  # noqa: N802
    """Rows of one byte: each takes 512 of VRAM."""
    pointer, pitch = c_uint64(), c_size_t()
    cu("cuMemAllocPitch_v2", byref(pointer), byref(pitch), c_size_t(1), c_size_t(mib * MIB // 512), c_uint(4))
    return lambda: free(pointer.value)


def _async(
    name: str, mib: int, free_name: str = "cuMemFreeAsync", stream: int = 0, pool: c_void_p | None = None
) -> Give:
    pointer = c_uint64()
    arguments = [byref(pointer), c_size_t(mib * MIB), *([pool] if pool else []), c_void_p(stream)]
    cu(name, *arguments)

    def give() -> None:
        cu(free_name, pointer.value, c_void_p(stream))
        cu("cuCtxSynchronize")

    return give


@way
def cuMemAllocAsync(mib: int) -> Give:  # noqa: N802
    return _async("cuMemAllocAsync", mib)


@way
def cuMemAllocAsync_ptsz(mib: int) -> Give:  # noqa: N802
    return _async("cuMemAllocAsync_ptsz", mib, "cuMemFreeAsync_ptsz")


class Location(ctypes.Structure):
    _fields_ = [("type", c_int), ("id", c_int)]


class PoolProps(ctypes.Structure):
    _fields_ = [
        ("alloc_type", c_int),
        ("handle_types", c_int),
        ("location", Location),
        ("security", c_void_p),
        ("max_size", c_size_t),
        ("rest", ctypes.c_ubyte * 56),
    ]


def new_pool(device: int = 0) -> c_void_p:
    props = PoolProps(alloc_type=1, location=Location(1, device))
    pool = c_void_p()
    cu("cuMemPoolCreate", byref(pool), byref(props))
    return pool


_pools: list[c_void_p] = []


def pool() -> c_void_p:
    if not _pools:
        _pools.append(new_pool())
    return _pools[0]


@way
def cuMemAllocFromPoolAsync(mib: int) -> Give:  # noqa: N802
    return _async("cuMemAllocFromPoolAsync", mib, pool=pool())


@way
def cuMemAllocFromPoolAsync_ptsz(mib: int) -> Give:  # noqa: N802
    return _async("cuMemAllocFromPoolAsync_ptsz", mib, "cuMemFreeAsync_ptsz", pool=pool())


class AllocationProp(ctypes.Structure):
    _fields_ = [
        ("type", c_int),
        ("handle_types", c_int),
        ("location", Location),
        ("metadata", c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    ]


def physical(mib: int, *, location: int = 1, device: int = 0, handle_types: int = 0) -> int:
    """cuMemCreate; the handle."""
    handle = c_uint64()
    prop = AllocationProp(type=1, location=Location(location, device), handle_types=handle_types)
    cu("cuMemCreate", byref(handle), c_size_t(mib * MIB), byref(prop), 0)
    return handle.value


def map_physical(handle: int, mib: int) -> int:
    """A mapping of the whole handle at a fresh address."""
    address = c_uint64()
    cu("cuMemAddressReserve", byref(address), c_size_t(mib * MIB), c_size_t(0), 0, 0)
    cu("cuMemMap", address.value, c_size_t(mib * MIB), c_size_t(0), handle, 0)
    return address.value


def unmap(address: int, mib: int) -> None:
    cu("cuMemUnmap", address, c_size_t(mib * MIB))


def release(handle: int) -> None:
    cu("cuMemRelease", handle)


@way
def cuMemCreate(mib: int) -> Give:  # noqa: N802
    handle = physical(mib)
    return lambda: release(handle)


@way
def created_mapped_and_released(mib: int) -> Give:
    """The handle is gone, the mapping keeps the memory."""
    handle = physical(mib)
    address = map_physical(handle, mib)
    release(handle)
    return lambda: unmap(address, mib)


class ArrayDescriptor(ctypes.Structure):
    _fields_ = [("width", c_size_t), ("height", c_size_t), ("format", c_int), ("channels", c_uint)]


class Array3dDescriptor(ctypes.Structure):
    _fields_ = [
        ("width", c_size_t),
        ("height", c_size_t),
        ("depth", c_size_t),
        ("format", c_int),
        ("channels", c_uint),
        ("flags", c_uint),
    ]


FLOAT = 0x20


@way
def cuArrayCreate_v2(mib: int) -> Give:  # noqa: N802
    handle = c_void_p()
    cu("cuArrayCreate_v2", byref(handle), byref(ArrayDescriptor(1024, 64 * mib, FLOAT, 4)))
    return lambda: cu("cuArrayDestroy", handle)


@way
def cuArray3DCreate_v2(mib: int) -> Give:  # noqa: N802
    handle = c_void_p()
    cu("cuArray3DCreate_v2", byref(handle), byref(Array3dDescriptor(1024, 64, mib, FLOAT, 4, 0)))
    return lambda: cu("cuArrayDestroy", handle)


@way
def cuMipmappedArrayCreate(mib: int) -> Give:  # noqa: N802
    handle = c_void_p()
    descriptor = Array3dDescriptor(1024, 64 * mib, 0, FLOAT, 4, 0)
    cu("cuMipmappedArrayCreate", byref(handle), byref(descriptor), c_uint(1))
    return lambda: cu("cuMipmappedArrayDestroy", handle)


def image(mib: int, *kernels: str) -> bytes:
    """A module of the simulated card with so much static data."""
    return f"//hamisim static={mib} kernels={','.join(kernels or ['work'])}\n".encode() + b"\0"


def _module(name: str, *arguments: object) -> Give:
    module = c_void_p()
    cu(name, byref(module), *arguments)
    return lambda: cu("cuModuleUnload", module)


@functools.lru_cache
def image_file(mib: int) -> bytes:
    """The path of a module's file."""
    with tempfile.NamedTemporaryFile(delete=False) as file:
        file.write(image(mib)[:-1])
    atexit.register(os.unlink, file.name)
    return file.name.encode()


@way
def cuModuleLoad(mib: int) -> Give:  # noqa: N802
    return _module("cuModuleLoad", c_char_p(image_file(mib)))


@way
def cuModuleLoadData(mib: int) -> Give:  # noqa: N802
    return _module("cuModuleLoadData", c_char_p(image(mib)))


@way
def cuModuleLoadDataEx(mib: int) -> Give:  # noqa: N802
    return _module("cuModuleLoadDataEx", c_char_p(image(mib)), c_uint(0), None, None)


@way
def cuModuleLoadFatBinary(mib: int) -> Give:  # noqa: N802
    return _module("cuModuleLoadFatBinary", c_char_p(image(mib)))


def library(mib: int) -> c_void_p:
    handle = c_void_p()
    cu("cuLibraryLoadData", byref(handle), c_char_p(image(mib)), None, None, c_uint(0), None, None, c_uint(0))
    return handle


def kernel_of(handle: c_void_p, name: bytes = b"work") -> c_void_p:
    kernel = c_void_p()
    cu("cuLibraryGetKernel", byref(kernel), handle, c_char_p(name))
    return kernel


def launch(function: c_void_p) -> None:
    one = c_uint(1)
    cu("cuLaunchKernel", function, one, one, one, one, one, one, c_uint(0), c_void_p(0), None, None)


def _unload(handle: c_void_p) -> Give:
    return lambda: cu("cuLibraryUnload", handle)


def _first_use(mib: int, use: Callable[[c_void_p], None]) -> Give:
    """A library comes in when something of it is first asked for."""
    handle = library(mib)
    try:
        use(handle)
    except CudaError:
        cu("cuLibraryUnload", handle)
        raise
    return _unload(handle)


def get_function(kernel: c_void_p) -> c_void_p:
    function = c_void_p()
    cu("cuKernelGetFunction", byref(function), kernel)
    return function


def every_kernel(handle: c_void_p) -> c_void_p:
    count, kernels = c_uint(), (c_void_p * 1)()
    cu("cuLibraryGetKernelCount", byref(count), handle)
    cu("cuLibraryEnumerateKernels", kernels, count, handle)
    return c_void_p(kernels[0])


@way
def cuKernelGetFunction(mib: int) -> Give:  # noqa: N802
    return _first_use(mib, lambda handle: get_function(kernel_of(handle)))


@way
def cuLibraryEnumerateKernels(mib: int) -> Give:  # noqa: N802
    return _first_use(mib, lambda handle: launch(every_kernel(handle)))


@way
def cuLibraryGetModule(mib: int) -> Give:  # noqa: N802
    return _first_use(mib, lambda handle: cu("cuLibraryGetModule", byref(c_void_p()), handle))


@way
def cuLibraryLoadFromFile(mib: int) -> Give:  # noqa: N802
    handle, none, zero = c_void_p(), None, c_uint(0)
    cu("cuLibraryLoadFromFile", byref(handle), c_char_p(image_file(mib)), none, none, zero, none, none, zero)
    try:
        launch(kernel_of(handle))
    except CudaError:
        cu("cuLibraryUnload", handle)
        raise
    return _unload(handle)


_ONE, _NOTHING = c_uint(1), (c_uint(0), c_void_p(0), None)
_GRID = (_ONE,) * 6


class LaunchConfig(ctypes.Structure):
    _fields_ = [
        ("grid", c_uint * 6),
        ("shared", c_uint),
        ("stream", c_void_p),
        ("attributes", c_void_p),
        ("count", c_uint),
    ]


def launch_ex(name: str, kernel: c_void_p) -> None:
    cu(name, byref(LaunchConfig(grid=(1,) * 6)), kernel, None, None)


def _launching(name: str, call: Callable[[c_void_p], None]) -> None:
    """A launch of a kernel whose library isn't in VRAM yet."""
    ways[name] = lambda mib: _first_use(mib, lambda handle: call(kernel_of(handle)))


_launching("cuLaunchKernel", lambda k: cu("cuLaunchKernel", k, *_GRID, *_NOTHING, None))
_launching("cuLaunchKernel_ptsz", lambda k: cu("cuLaunchKernel_ptsz", k, *_GRID, *_NOTHING, None))
_launching("cuLaunchKernelEx", lambda k: launch_ex("cuLaunchKernelEx", k))
_launching("cuLaunchKernelEx_ptsz", lambda k: launch_ex("cuLaunchKernelEx_ptsz", k))
_launching("cuLaunchCooperativeKernel", lambda k: cu("cuLaunchCooperativeKernel", k, *_GRID, *_NOTHING))
_launching("cuLaunchCooperativeKernel_ptsz", lambda k: cu("cuLaunchCooperativeKernel_ptsz", k, *_GRID, *_NOTHING))


class MemAllocNode(ctypes.Structure):
    _fields_ = [
        ("pool_props", PoolProps),
        ("access", c_void_p),
        ("access_count", c_size_t),
        ("bytes", c_size_t),
        ("pointer", c_uint64),
    ]


class InstantiateParams(ctypes.Structure):
    _fields_ = [("flags", c_uint64), ("stream", c_void_p), ("error_node", c_void_p), ("result", c_int)]


def instantiate(graph: c_void_p, name: str) -> c_void_p:
    executable = c_void_p()
    rest = {
        "cuGraphInstantiate": (None, None, c_size_t(0)),
        "cuGraphInstantiate_v2": (None, None, c_size_t(0)),
        "cuGraphInstantiateWithFlags": (0,),
        "cuGraphInstantiateWithParams": (byref(InstantiateParams()),),
        "cuGraphInstantiateWithParams_ptsz": (byref(InstantiateParams()),),
    }[name]
    cu(name, byref(executable), graph, *rest)
    return executable


def graph_with_memory(mib: int, name: str = "cuGraphInstantiateWithFlags") -> tuple[c_void_p, int]:
    """An instantiated graph that allocates, and the address it will give."""
    graph, node = c_void_p(), c_void_p()
    cu("cuGraphCreate", byref(graph), c_uint(0))
    params = MemAllocNode(pool_props=PoolProps(alloc_type=1, location=Location(1, 0)), bytes=mib * MIB)
    cu("cuGraphAddMemAllocNode", byref(node), graph, None, c_size_t(0), byref(params))
    return instantiate(graph, name), params.pointer


def _graph(mib: int, instantiate_name: str, start_name: str) -> Give:
    executable, pointer = graph_with_memory(mib, instantiate_name)
    cu(start_name, executable, c_void_p(0))
    if "Upload" in start_name:
        cu("cuGraphLaunch", executable, c_void_p(0))
    cu("cuCtxSynchronize")

    def give() -> None:
        cu("cuMemFreeAsync", pointer, c_void_p(0))
        cu("cuCtxSynchronize")
        cu("cuGraphExecDestroy", executable)
        cu("cuDeviceGraphMemTrim", c_int(0))

    return give


for _name in ("cuGraphLaunch", "cuGraphLaunch_ptsz", "cuGraphUpload", "cuGraphUpload_ptsz"):
    ways[_name] = lambda mib, name=_name: _graph(mib, "cuGraphInstantiateWithFlags", name)
for _name in (
    "cuGraphInstantiate",
    "cuGraphInstantiate_v2",
    "cuGraphInstantiateWithFlags",
    "cuGraphInstantiateWithParams",
    "cuGraphInstantiateWithParams_ptsz",
):
    ways[_name] = lambda mib, name=_name: _graph(mib, name, "cuGraphLaunch")


def _context(name: str, *before_flags: object, destroy: str = "cuCtxDestroy_v2") -> Give:
    """A context takes what it takes; the caller's own stays current."""
    handle, popped = c_void_p(), c_void_p()
    cu(name, byref(handle), *before_flags, c_uint(0), c_int(0))
    cu("cuCtxPopCurrent_v2", byref(popped))
    return lambda: cu(destroy, handle)


ways["cuCtxCreate"] = lambda mib: _context("cuCtxCreate", destroy="cuCtxDestroy")
ways["cuCtxCreate_v2"] = lambda mib: _context("cuCtxCreate_v2")
ways["cuCtxCreate_v3"] = lambda mib: _context("cuCtxCreate_v3", None, c_int(0), destroy="cuCtxDetach")
ways["cuCtxCreate_v4"] = lambda mib: _context("cuCtxCreate_v4", None)


def take(name: str, mib: int) -> None:
    taken.append(ways[name](mib))


def take_until_refused(name: str, mib: int, most: int = 10_000) -> int:
    """Take again and again; how often it went well.  Any error but OUT_OF_MEMORY is one."""
    for count in range(most):
        try:
            take(name, mib)
        except CudaError as error:
            if error.code != OUT_OF_MEMORY:
                raise
            return count
    raise AssertionError(f"{name} was never refused")


def give_all() -> None:
    while taken:
        taken.pop()()
