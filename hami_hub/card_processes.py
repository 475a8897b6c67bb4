"""Which processes hold memory of this machine's cards, asked of NVML from outside any slice.

`cards` knows the cards themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pynvml

from .cards import card_uuid, nvml
from .core.cards import CardUuid
from .core.units import Mib, mib_up

_LISTS = (
    "nvmlDeviceGetComputeRunningProcesses",
    "nvmlDeviceGetGraphicsRunningProcesses",
    "nvmlDeviceGetMPSComputeRunningProcesses",
)


def read_card_processes() -> tuple[tuple[CardUuid, int, Mib], ...]:
    """Card, PID and MiB of each process that NVML can name.

    One that both computes and draws is there once, with the larger amount.

    Raises:
        NoCardsError: see `cards.nvml`.
    """
    found: dict[tuple[CardUuid, int], Mib] = {}
    with nvml():
        for uuid, process in _processes():
            if process.usedGpuMemory is not None:
                used = mib_up(process.usedGpuMemory)
                found[uuid, process.pid] = max(found.get((uuid, process.pid), Mib(0)), used)
    return tuple((uuid, pid, used) for (uuid, pid), used in found.items())


def _processes() -> Iterator[tuple[CardUuid, Any]]:
    for index in range(pynvml.nvmlDeviceGetCount()):
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            uuid = card_uuid(handle)
        except pynvml.NVMLError:
            continue
        for name in _LISTS:
            try:
                yield from ((uuid, process) for process in getattr(pynvml, name)(handle))
            except pynvml.NVMLError:
                continue
