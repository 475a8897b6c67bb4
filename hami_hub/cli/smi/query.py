"""`--query-gpu` and `--query-compute-apps` as nvidia-smi answers them: fields by name, printed as CSV.  Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from .view import GpuView, ProcessView, Snapshot

_Row = TypeVar("_Row", GpuView, ProcessView)
_Value = float | str | None
_MISSING = "[N/A]"


class QueryError(ValueError):
    """A field or a format that there is not.  One plain sentence that names those there are."""


@dataclass(frozen=True, slots=True)
class Format:
    """How CSV is printed: with a line of field names, with units behind the values."""

    header: bool = True
    units: bool = True


@dataclass(frozen=True, slots=True)
class Field(Generic[_Row]):
    """A field that can be asked for.  `unit` as nvidia-smi writes it, "" for none."""

    value: Callable[[Snapshot, _Row], _Value]
    unit: str = ""


def _time(snapshot: Snapshot, _: object) -> str:
    return f"{snapshot.time:%Y/%m/%d %H:%M:%S}.{snapshot.time.microsecond // 1000:03}"


def _watts(value: float | None) -> str | None:
    return None if value is None else f"{value:.2f}"


def _seconds(value: float | None) -> str | None:
    return None if value is None else f"{value:.3f}"


def _switch(value: bool | None) -> str | None:
    return None if value is None else "Enabled" if value else "Disabled"


GPU_FIELDS: Mapping[str, Field[GpuView]] = {
    "timestamp": Field(_time),
    "driver_version": Field(lambda snapshot, _: snapshot.driver),
    "count": Field(lambda snapshot, _: len(snapshot.gpus)),
    "name": Field(lambda _, gpu: gpu.name),
    "uuid": Field(lambda _, gpu: gpu.uuid),
    "index": Field(lambda _, gpu: gpu.index),
    "serial": Field(lambda _, gpu: gpu.serial),
    "pci.bus_id": Field(lambda _, gpu: gpu.bus_id or None),
    "memory.total": Field(lambda _, gpu: gpu.memory_total, "MiB"),
    "memory.used": Field(lambda _, gpu: gpu.memory_used, "MiB"),
    "memory.free": Field(lambda _, gpu: gpu.memory_free, "MiB"),
    "memory.reserved": Field(lambda _, gpu: gpu.memory_reserved, "MiB"),
    "utilization.gpu": Field(lambda _, gpu: gpu.gpu_load, "%"),
    "utilization.memory": Field(lambda _, gpu: gpu.memory_load, "%"),
    "temperature.gpu": Field(lambda _, gpu: gpu.temperature),
    "power.draw": Field(lambda _, gpu: _watts(gpu.power), "W"),
    "power.limit": Field(lambda _, gpu: _watts(gpu.power_limit), "W"),
    "fan.speed": Field(lambda _, gpu: gpu.fan, "%"),
    "pstate": Field(lambda _, gpu: None if gpu.performance is None else f"P{gpu.performance}"),
    "persistence_mode": Field(lambda _, gpu: _switch(gpu.persistence)),
    "display_active": Field(lambda _, gpu: _switch(gpu.display)),
    "compute_mode": Field(lambda _, gpu: gpu.compute_mode),
    "compute_cap": Field(lambda _, gpu: gpu.capability),
    "mig.mode.current": Field(lambda _, gpu: _switch(gpu.mig)),
    "clocks.current.sm": Field(lambda _, gpu: gpu.clock_sm, "MHz"),
    "clocks.current.memory": Field(lambda _, gpu: gpu.clock_memory, "MHz"),
    "ecc.errors.uncorrected.volatile.total": Field(lambda _, gpu: gpu.ecc_errors),
    # ours: nvidia-smi knows no slices
    "slice.cores": Field(lambda _, gpu: gpu.cores, "%"),
    "slice.card_time": Field(lambda _, gpu: _seconds(gpu.card_seconds), "s"),
    "slice.borrowed_time": Field(lambda _, gpu: _seconds(gpu.borrowed_seconds), "s"),
    "slice.lent_time": Field(lambda _, gpu: _seconds(gpu.lent_seconds), "s"),
    "slice.throttled_time": Field(lambda _, gpu: _seconds(gpu.throttled_seconds), "s"),
}

PROCESS_FIELDS: Mapping[str, Field[ProcessView]] = {
    "timestamp": Field(_time),
    "pid": Field(lambda _, process: process.pid),
    "process_name": Field(lambda _, process: process.name),
    "used_gpu_memory": Field(lambda _, process: process.used, "MiB"),
    "gpu_uuid": Field(lambda _, process: process.gpu.uuid),
    "gpu_name": Field(lambda _, process: process.gpu.name),
    "gpu_bus_id": Field(lambda _, process: process.gpu.bus_id or None),
    "gpu_serial": Field(lambda _, process: process.gpu.serial),
}

# nvidia-smi's second names for the same field; which one is asked for stands in the header.
_OTHER_NAMES = {
    "gpu_name": "name",
    "gpu_uuid": "uuid",
    "gpu_serial": "serial",
    "gpu_bus_id": "pci.bus_id",
    "clocks.sm": "clocks.current.sm",
    "clocks.mem": "clocks.current.memory",
    "used_memory": "used_gpu_memory",
    "name": "process_name",
}


def parse_format(text: str) -> Format:
    """The value of `--format`: "csv", "csv,noheader", "csv,noheader,nounits".

    Raises:
        QueryError: another word.
    """
    words = _words(text)
    unknown = [word for word in words if word not in ("csv", "noheader", "nounits")]
    if unknown or "csv" not in words:
        wrong = f'"{unknown[0]}" is not a format' if unknown else f'"{text}" lacks csv'
        raise QueryError(f"{wrong}. Write csv, and noheader or nounits behind it if wanted: csv,noheader,nounits.")
    return Format(header="noheader" not in words, units="nounits" not in words)


def query_gpus(snapshot: Snapshot, fields: str, layout: Format) -> str:
    """The answer to `--query-gpu=FIELDS`.

    Raises:
        QueryError: an unknown field.
    """
    return _csv(snapshot, snapshot.gpus, _asked(fields, GPU_FIELDS), layout)


def query_processes(snapshot: Snapshot, fields: str, layout: Format) -> str:
    """The answer to `--query-compute-apps=FIELDS`.

    Raises:
        QueryError: an unknown field.
    """
    processes = [process for process in snapshot.processes if "C" in process.kind]
    return _csv(snapshot, processes, _asked(fields, PROCESS_FIELDS), layout)


def _asked(text: str, known: Mapping[str, Field[_Row]]) -> list[tuple[str, Field[_Row]]]:
    names = _words(text)
    if not names:
        raise QueryError(f"No field is named. There are: {', '.join(known)}.")
    found = []
    for name in names:
        field = known.get(name) or known.get(_OTHER_NAMES.get(name, ""))
        if field is None:
            raise QueryError(f'"{name[:64]}" is not a field that can be asked for. There are: {", ".join(known)}.')
        found.append((name, field))
    return found


def _csv(snapshot: Snapshot, rows: Iterable[_Row], asked: Sequence[tuple[str, Field[_Row]]], layout: Format) -> str:
    lines = [", ".join(f"{name} [{field.unit}]" if field.unit else name for name, field in asked)]
    lines = lines if layout.header else []
    lines += [", ".join(_shown(field.value(snapshot, row), field.unit, layout) for _, field in asked) for row in rows]
    return "\n".join(lines)


def _shown(value: _Value, unit: str, layout: Format) -> str:
    if value is None:
        return _MISSING
    return f"{value} {unit}" if unit and layout.units else str(value)


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]
