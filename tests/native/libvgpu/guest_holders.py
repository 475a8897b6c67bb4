"""What holds on to physical memory without an address: sparse arrays, multicast objects, descriptors, other cards."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_ulonglong, c_void_p

from guest_calls import MIB, cu
from guest_ways import (
    FLOAT,
    AllocationProp,
    Array3dDescriptor,
    Give,
    Location,
    map_physical,
    physical,
    release,
    unmap,
    ways,
)

SPARSE, DEFERRED = 0x40, 0x80
ARRAY, MIPMAP = 0, 1  # CU_RESOURCE_TYPE_*
MAP, UNMAP = 1, 2
DESCRIPTOR = 1  # CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
TILE_POOL = 1
WIDTH = 1024  # of an array, in elements of 16 bytes: 64 rows are 1 MiB


class Level(ctypes.Structure):
    _fields_ = [
        ("level", c_uint),
        ("layer", c_uint),
        ("x", c_uint),
        ("y", c_uint),
        ("z", c_uint),
        ("width", c_uint),
        ("height", c_uint),
        ("depth", c_uint),
    ]


class MapInfo(ctypes.Structure):
    _fields_ = [
        ("resource_type", c_int),
        ("resource", c_void_p),
        ("subresource_type", c_ulonglong),  # 32 bits, and the union begins at the next 8 bytes
        ("level", Level),
        ("operation", c_int),
        ("handle_type", c_int),
        ("handle", c_ulonglong),
        ("offset", c_ulonglong),
        ("devices", c_uint),
        ("flags", c_uint),
        ("reserved", c_uint * 2),
    ]


def tiles(mib: int) -> int:
    """Physical memory for sparse arrays; the handle."""
    handle = c_uint64()
    prop = AllocationProp(type=1, location=Location(1, 0))
    prop.flags[2] = TILE_POOL  # usage, after compressionType and gpuDirectRDMACapable
    cu("cuMemCreate", byref(handle), c_size_t(mib * MIB), byref(prop), 0)
    return handle.value


def sparse_array(mib: int, flags: int = SPARSE) -> c_void_p:
    handle = c_void_p()
    cu("cuArray3DCreate_v2", byref(handle), byref(Array3dDescriptor(WIDTH, 64 * mib, 0, FLOAT, 4, flags)))
    return handle


def sparse_mipmap(mib: int) -> c_void_p:
    handle = c_void_p()
    descriptor = Array3dDescriptor(WIDTH, 64 * mib, 0, FLOAT, 4, SPARSE)
    cu("cuMipmappedArrayCreate", byref(handle), byref(descriptor), c_uint(1))
    return handle


def bind(
    array: c_void_p, mib: int, handle: int, *, kind: int = ARRAY, row: int = 0, call: str = "cuMemMapArrayAsync"
) -> None:
    """Bind so many MiB to an array from a row on; no handle: unbind."""
    info = MapInfo(
        resource_type=kind,
        resource=array,
        level=Level(0, 0, 0, row, 0, WIDTH, 64 * mib, 1),
        operation=MAP if handle else UNMAP,
        handle=handle,
        devices=1,
    )
    cu(call, byref(info), c_uint(1), c_void_p(0))


def destroy_array(array: c_void_p) -> None:
    cu("cuArrayDestroy", array)


def _bound(
    mib: int, make: Callable[[int], c_void_p], destroy: str, *, kind: int = ARRAY, call: str = "cuMemMapArrayAsync"
) -> Give:
    """Memory bound to an array, both of which are given back."""
    handle = tiles(mib)
    array = make(mib)
    bind(array, mib, handle, kind=kind, call=call)

    def give() -> None:
        cu(destroy, array)
        release(handle)

    return give


ways["cuMemMapArrayAsync"] = lambda mib: _bound(mib, sparse_array, "cuArrayDestroy")
ways["cuMemMapArrayAsync_ptsz"] = lambda mib: _bound(
    mib, sparse_array, "cuArrayDestroy", call="cuMemMapArrayAsync_ptsz"
)
ways["bound_to_a_mipmap"] = lambda mib: _bound(mib, sparse_mipmap, "cuMipmappedArrayDestroy", kind=MIPMAP)
ways["bound_to_a_deferred_array"] = lambda mib: _bound(mib, lambda m: sparse_array(m, DEFERRED), "cuArrayDestroy")


class MulticastProp(ctypes.Structure):
    _fields_ = [("devices", c_uint), ("size", c_size_t), ("handle_types", c_ulonglong), ("flags", c_ulonglong)]


def multicast(mib: int) -> int:
    """A multicast object of one device; the handle."""
    handle = c_uint64()
    cu("cuMulticastCreate", byref(handle), byref(MulticastProp(devices=1, size=mib * MIB)))
    cu("cuMulticastAddDevice", handle.value, c_int(0))
    return handle.value


def bind_handle(mib: int, call: str = "cuMulticastBindMem") -> int:
    """Bound by its handle, which is released; the multicast object."""
    team, memory = multicast(mib), physical(mib)
    zero, device = c_size_t(0), [c_int(0)] if call.endswith("_v2") else []
    cu(call, team, *device, zero, memory, zero, c_size_t(mib * MIB), 0)
    release(memory)
    return team


def bind_address(mib: int, call: str = "cuMulticastBindAddr") -> int:
    """Bound by an address, which is unmapped; the multicast object."""
    team, memory = multicast(mib), physical(mib)
    address = map_physical(memory, mib)
    release(memory)
    device = [c_int(0)] if call.endswith("_v2") else []
    cu(call, team, *device, c_size_t(0), address, c_size_t(mib * MIB), 0)
    unmap(address, mib)
    return team


def unbind(team: int, mib: int) -> None:
    cu("cuMulticastUnbind", team, c_int(0), c_size_t(0), c_size_t(mib * MIB))


class ExternalDescription(ctypes.Structure):
    _fields_ = [
        ("type", c_int),
        ("descriptor", c_ulonglong),  # a union of 16 bytes
        ("rest", c_ulonglong),
        ("size", c_ulonglong),
        ("flags", c_uint),
        ("reserved", c_uint * 16),
    ]


class BufferDescription(ctypes.Structure):
    _fields_ = [("offset", c_ulonglong), ("size", c_ulonglong), ("flags", c_uint), ("reserved", c_uint * 16)]


def exported(mib: int) -> int:
    """Physical memory as a descriptor; the handle is released."""
    handle, descriptor = physical(mib, handle_types=DESCRIPTOR), c_int()
    cu("cuMemExportToShareableHandle", byref(descriptor), handle, c_int(DESCRIPTOR), 0)
    release(handle)
    return descriptor.value


def import_external(descriptor: int, mib: int) -> c_void_p:
    """The descriptor as external memory, with a buffer on it."""
    memory, pointer = c_void_p(), c_uint64()
    cu("cuImportExternalMemory", byref(memory), byref(ExternalDescription(1, descriptor, 0, mib * MIB)))
    cu("cuExternalMemoryGetMappedBuffer", byref(pointer), memory, byref(BufferDescription(0, mib * MIB)))
    return memory


def close(descriptor: int) -> None:
    os.close(descriptor)


class IpcHandle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_ubyte * 64)]


def open_ipc(handle: list[int]) -> int:
    """Another process's memory by the bytes of its handle; the pointer."""
    pointer = c_uint64()
    cu("cuIpcOpenMemHandle_v2", byref(pointer), IpcHandle((ctypes.c_ubyte * 64)(*handle)), c_uint(1))
    return pointer.value


def primary(device: int) -> c_void_p:
    """The device's primary context, current."""
    handle = c_void_p()
    cu("cuDevicePrimaryCtxRetain", byref(handle), c_int(device))
    cu("cuCtxSetCurrent", handle)
    return handle


class AccessDescription(ctypes.Structure):
    _fields_ = [("location", Location), ("flags", c_int)]


def let_reach(pool: c_void_p, device: int) -> None:
    """Let another device use a pool's memory."""
    cu("cuMemPoolSetAccess", pool, byref(AccessDescription(Location(1, device), 3)), c_size_t(1))
