"""The card through the driver API, for where PyTorch is not installed or doesn't know the card, as a simulated one."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from ..core.units import BYTES_PER_MIB, Mib, mib_down
from . import words
from .errors import NoGpuError, OutOfMemoryError

_PRIMARY_DEVICE = 0


class DriverBackend:
    """See `backend.Backend`.  The context is made at the first use that needs one.

    Raises:
        NoGpuError: no binding, no driver, or no card for this server.
    """

    def __init__(self) -> None:
        self._kept: list[tuple[Any, int]] = []
        try:
            from cuda.bindings import driver
        except ImportError:
            raise NoGpuError(
                "Neither PyTorch with CUDA nor cuda-bindings is installed here. Run `pip install cuda-bindings`."
            ) from None
        self._driver = driver
        self._start()
        self._device = self._call(driver.cuDeviceGet, _PRIMARY_DEVICE)
        self._context: Any = None

    def total_memory(self) -> Mib:
        return mib_down(self._call(self._driver.cuDeviceTotalMem, self._device))

    def free_memory(self) -> Mib:
        self._enter()
        free, _total = self._call(self._driver.cuMemGetInfo)
        return mib_down(free)

    def card_name(self) -> str:
        name: bytes = self._call(self._driver.cuDeviceGetName, 96, self._device)
        return name.split(b"\0")[0].decode(errors="replace")

    def card_uuid(self) -> str:
        return f"GPU-{UUID(bytes=bytes(self._call(self._driver.cuDeviceGetUuid, self._device).bytes))}"

    def allocate(self, amount: Mib) -> None:
        __tracebackhide__ = True
        self._enter()
        size = amount * BYTES_PER_MIB
        error, pointer = self._driver.cuMemAlloc(size)
        if error == self._driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY:
            free, total = self._call(self._driver.cuMemGetInfo)
            raise OutOfMemoryError(words.out_of_memory(asked=size, free=free, total=total))
        self._check(error)
        self._kept.append((pointer, size))

    def allocated(self) -> Mib:
        return mib_down(sum(size for _pointer, size in self._kept))

    def free(self) -> None:
        if self._kept:
            self._enter()
        while self._kept:
            pointer, _size = self._kept.pop()
            self._call(self._driver.cuMemFree, pointer)

    def _start(self) -> None:
        codes = self._driver.CUresult
        try:
            (error,) = self._driver.cuInit(0)
        except RuntimeError:  # cuda-bindings found no libcuda.so.1
            raise NoGpuError(words.NO_SLICE) from None
        if error in (codes.CUDA_ERROR_NO_DEVICE, codes.CUDA_ERROR_STUB_LIBRARY):
            raise NoGpuError(words.NO_SLICE)
        if error == codes.CUDA_ERROR_NOT_PERMITTED:
            raise NoGpuError(
                "This server's slice page can't be read, so the card is closed to it. Stop the server under "
                "File > Hub Control Panel and start it again."
            )
        self._check(error)

    def _enter(self) -> None:
        """Make the card's primary context current: in every thread anew, and all share the one."""
        if self._context is None:
            self._context = self._call(self._driver.cuDevicePrimaryCtxRetain, self._device)
        self._call(self._driver.cuCtxSetCurrent, self._context)

    def _call(self, function: Any, *arguments: Any) -> Any:
        error, *results = function(*arguments)
        self._check(error)
        return results[0] if len(results) == 1 else tuple(results)

    def _check(self, error: Any) -> None:
        if error == self._driver.CUresult.CUDA_SUCCESS:
            return
        if error == self._driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY:
            raise NoGpuError(
                "There is no room left even to begin using the card. Shut down other kernels of yours, "
                "or start the server again with a larger slice."
            )
        raise NoGpuError(f"The CUDA driver answered {error.name}. Run `hami-hub doctor` in a terminal to see why.")
