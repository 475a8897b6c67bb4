"""Asks NVML, and inside a slice the slice page, for what `hami-hub smi` shows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pynvml

from ... import __version__
from ...cards import nvml
from ...core.units import Mib, mib_down, mib_up
from ...slicepage import CardView, SliceView, find_slice, read_slice
from .view import GpuView, ProcessView, Snapshot

_UNCORRECTED, _VOLATILE = 1, 0  # NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC
_COMPUTE_MODES = ("Default", "E. Thread", "Prohibited", "E. Process")


def read_snapshot() -> Snapshot:
    """The cards of this machine, or inside a slice the slice's cards and processes.

    Raises:
        NoCardsError: NVML doesn't answer.
        PageError: the slice page is damaged.
    """
    directory = find_slice()
    slice_view = read_slice(directory) if directory is not None else None
    with nvml():
        handles = list(_handles())
        gpus = tuple(_gpu(index, handle) for index, handle in enumerate(handles))
        if slice_view is not None:
            gpus, processes = _of_slice(slice_view, gpus)
        else:
            processes = tuple(
                process for gpu, handle in zip(gpus, handles, strict=True) for process in _processes(gpu, handle)
            )
        cuda = _ask(pynvml.nvmlSystemGetCudaDriverVersion_v2) or 0
        return Snapshot(
            version=__version__,
            driver=_ask(pynvml.nvmlSystemGetDriverVersion) or "N/A",
            cuda=f"{cuda // 1000}.{cuda % 1000 // 10}",
            time=datetime.now().astimezone(),
            gpus=gpus,
            processes=processes,
        )


def select(snapshot: Snapshot, wanted: str) -> Snapshot | None:
    """Only the cards that `wanted` names by index, UUID or bus id, with commas between; None if one isn't there."""
    names = [name.strip().lower() for name in wanted.split(",")]
    known = {name.lower(): gpu for gpu in snapshot.gpus for name in (str(gpu.index), gpu.uuid, gpu.bus_id) if name}
    if not all(name in known for name in names):
        return None
    gpus = tuple(gpu for gpu in snapshot.gpus if gpu in [known[name] for name in names])
    return replace(snapshot, gpus=gpus, processes=tuple(p for p in snapshot.processes if p.gpu in gpus))


def _of_slice(view: SliceView, gpus: Iterable[GpuView]) -> tuple[tuple[GpuView, ...], tuple[ProcessView, ...]]:
    by_uuid = {gpu.uuid: gpu for gpu in gpus}
    shown = tuple(_slice_gpu(index, card, by_uuid.get(card.uuid)) for index, card in enumerate(view.cards))
    processes = tuple(
        ProcessView(gpu=gpu, pid=process.pid, name=_program(process.pid) or process.name, used=process.used[gpu.index])
        for gpu in shown
        for process in view.processes
        if process.used[gpu.index]
    )
    return shown, processes


def _slice_gpu(index: int, card: CardView, gpu: GpuView | None) -> GpuView:
    gpu = gpu or GpuView(index=index, uuid=card.uuid, name="N/A")
    gpu = replace(gpu, index=index, memory_total=card.limit, memory_used=card.used, memory_reserved=Mib(0))
    if not card.cores:
        return gpu
    return replace(
        gpu,
        cores=card.cores,
        card_seconds=card.used_seconds,
        borrowed_seconds=card.borrowed_seconds,
        lent_seconds=card.lent_seconds,
        throttled_seconds=card.throttled_seconds,
    )


def _handles() -> Iterator[Any]:
    for index in range(pynvml.nvmlDeviceGetCount()):
        handle = _ask(pynvml.nvmlDeviceGetHandleByIndex, index)
        if handle is not None:
            yield handle


def _gpu(index: int, handle: Any) -> GpuView:
    memory = _memory(handle)
    load = _ask(pynvml.nvmlDeviceGetUtilizationRates, handle)
    pci = _ask(pynvml.nvmlDeviceGetPciInfo, handle)
    mode = _ask(pynvml.nvmlDeviceGetComputeMode, handle)
    mig = _ask(pynvml.nvmlDeviceGetMigMode, handle)
    capability = _ask(pynvml.nvmlDeviceGetCudaComputeCapability, handle)
    performance = _ask(pynvml.nvmlDeviceGetPerformanceState, handle)
    return GpuView(
        index=index,
        uuid=_ask(pynvml.nvmlDeviceGetUUID, handle) or "N/A",
        name=_ask(pynvml.nvmlDeviceGetName, handle) or "N/A",
        bus_id=_text(pci.busId) if pci is not None else "",
        memory_total=memory[0],
        memory_used=memory[1],
        memory_reserved=memory[2],
        gpu_load=load.gpu if load is not None else None,
        memory_load=load.memory if load is not None else None,
        temperature=_ask(pynvml.nvmlDeviceGetTemperature, handle, pynvml.NVML_TEMPERATURE_GPU),
        power=_thousandth(_ask(pynvml.nvmlDeviceGetPowerUsage, handle)),
        power_limit=_thousandth(_ask(pynvml.nvmlDeviceGetEnforcedPowerLimit, handle)),
        fan=_ask(pynvml.nvmlDeviceGetFanSpeed, handle),
        performance=performance if performance is not None and performance < 32 else None,
        persistence=_truth(_ask(pynvml.nvmlDeviceGetPersistenceMode, handle)),
        display=_truth(_ask(pynvml.nvmlDeviceGetDisplayActive, handle)),
        ecc_errors=_ask(pynvml.nvmlDeviceGetTotalEccErrors, handle, _UNCORRECTED, _VOLATILE),
        compute_mode=_COMPUTE_MODES[mode] if mode is not None and 0 <= mode < len(_COMPUTE_MODES) else None,
        mig=_truth(mig[0]) if mig is not None else None,
        clock_sm=_ask(pynvml.nvmlDeviceGetClockInfo, handle, pynvml.NVML_CLOCK_SM),
        clock_memory=_ask(pynvml.nvmlDeviceGetClockInfo, handle, pynvml.NVML_CLOCK_MEM),
        capability=f"{capability[0]}.{capability[1]}" if capability is not None else None,
        serial=_ask(pynvml.nvmlDeviceGetSerial, handle),
    )


def _memory(handle: Any) -> tuple[Mib | None, Mib | None, Mib | None]:
    """Total, used and reserved.  Version 2 of the call doesn't count what the driver keeps as used."""
    memory = _ask(pynvml.nvmlDeviceGetMemoryInfo, handle, version=pynvml.nvmlMemory_v2)
    if memory is not None:
        return mib_down(memory.total), mib_up(memory.used), mib_up(memory.reserved)
    memory = _ask(pynvml.nvmlDeviceGetMemoryInfo, handle)
    if memory is not None:
        return mib_down(memory.total), mib_up(memory.used), None
    return None, None, None


def _processes(gpu: GpuView, handle: Any) -> Iterator[ProcessView]:
    compute = {process.pid: process for process in _running("Compute", handle)}
    graphics = {process.pid: process for process in _running("Graphics", handle)}
    for pid, process in sorted({**graphics, **compute}.items()):
        kind = "+".join(letter for letter, found in (("C", compute), ("G", graphics)) if pid in found)
        used = process.usedGpuMemory
        name = _program(pid) or _text(_ask(pynvml.nvmlSystemGetProcessName, pid) or "[Not Found]")
        yield ProcessView(gpu=gpu, pid=pid, name=name, kind=kind, used=None if used is None else mib_up(used))


def _running(kind: str, handle: Any) -> Iterable[Any]:
    """Processes of a kind; drivers before 510 know only the second version of the call."""
    for version in ("_v3", "_v2"):
        found = _ask(getattr(pynvml, f"nvmlDeviceGet{kind}RunningProcesses{version}"), handle)
        if found is not None:
            return list(found)
    return ()


def _program(pid: int) -> str:
    """The first word of the process's command line; "" if it can't be read."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode(errors="replace")
    except OSError:
        return ""


def _ask(question: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """NVML's answer, None if this card or driver has none."""
    try:
        return question(*arguments, **options)
    except (pynvml.NVMLError, pynvml.NVMLLibraryMismatchError):
        return None


def _text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _truth(value: int | None) -> bool | None:
    return None if value is None else bool(value)


def _thousandth(value: int | None) -> float | None:
    return None if value is None else value / 1000
