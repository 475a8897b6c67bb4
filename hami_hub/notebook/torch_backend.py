"""The card through PyTorch.  Its refusal is PyTorch's own `OutOfMemoryError`."""

from __future__ import annotations

import torch

from ..core.units import BYTES_PER_MIB, Mib, mib_down

_BYTES_PER_FLOAT = 4


class TorchBackend:
    """See `backend.Backend`."""

    def __init__(self) -> None:
        self._kept: list[torch.Tensor] = []
        self._properties = torch.cuda.get_device_properties(0)

    def total_memory(self) -> Mib:
        return mib_down(self._properties.total_memory)

    def free_memory(self) -> Mib:
        free, _total = torch.cuda.mem_get_info(0)
        return mib_down(free)

    def card_name(self) -> str:
        return str(self._properties.name)

    def card_uuid(self) -> str:
        return f"GPU-{self._properties.uuid}"

    def allocate(self, amount: Mib) -> None:
        __tracebackhide__ = True
        numbers = amount * BYTES_PER_MIB // _BYTES_PER_FLOAT
        self._kept.append(torch.zeros(numbers, dtype=torch.float32, device="cuda:0"))

    def allocated(self) -> Mib:
        return mib_down(sum(tensor.nbytes for tensor in self._kept))

    def free(self) -> None:
        self._kept.clear()
        # PyTorch would keep the memory for its next tensor
        torch.cuda.empty_cache()
