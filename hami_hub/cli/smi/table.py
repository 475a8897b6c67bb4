"""The table that people know from nvidia-smi, as text.  Pure: `read` has asked the cards already."""

from __future__ import annotations

from collections.abc import Iterator

from .view import GpuView, ProcessView, Snapshot

_WIDTH = 89
_CELLS = (41, 24, 22)
_NAME = 27
_PROCESS_NAME = 36
_HEAD = """\
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |"""
_PROCESS_HEAD = """\
| Processes:                                                                              |
|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |
|        ID   ID                                                               Usage      |"""


def render_table(snapshot: Snapshot) -> str:
    """The whole table: driver, cards, processes."""
    return "\n".join((*_gpus(snapshot), "", *_processes(snapshot.processes)))


def render_list(snapshot: Snapshot) -> str:
    """One line a card: "GPU 0: Tesla T4 (UUID: GPU-…)"."""
    return "\n".join(f"GPU {gpu.index}: {gpu.name} (UUID: {gpu.uuid})" for gpu in snapshot.gpus)


def _gpus(snapshot: Snapshot) -> Iterator[str]:
    yield f"{snapshot.time:%a %b %e %H:%M:%S %Y}"
    yield _line("-", _WIDTH)
    program = f"HAMi-SMI {snapshot.version}"
    yield f"| {program:<34}Driver Version: {snapshot.driver:<15}CUDA Version: {snapshot.cuda:<9}|"
    yield _line("-", *_CELLS)
    yield _HEAD
    yield "|" + _line("=", *_CELLS)[1:-1] + "|"
    for gpu in snapshot.gpus:
        yield from _gpu(gpu)
        yield _line("-", *_CELLS)


def _gpu(gpu: GpuView) -> Iterator[str]:
    used, total = _unit(gpu.memory_used, "MiB"), _unit(gpu.memory_total, "MiB")
    yield (
        f"| {gpu.index:>3}  {_cut_end(gpu.name, _NAME):<{_NAME}}   {_on(gpu.persistence):>3}  "
        f"| {gpu.bus_id or 'N/A':>18} {_on(gpu.display):>3} "
        f"| {_bare(gpu.ecc_errors):>20} |"
    )
    yield (
        f"| {_unit(gpu.fan, '%'):>3}{_unit(gpu.temperature, 'C'):>6}{_performance(gpu):>6}"
        f"{_unit(gpu.power, 'W'):>16} /{_unit(gpu.power_limit, 'W'):>6} "
        f"|{used:>11} /{total:>10} "
        f"|{_unit(gpu.gpu_load, '%'):>8}{gpu.compute_mode or 'N/A':>13} |"
    )
    mig = {None: "N/A", True: "Enabled", False: "Disabled"}[gpu.mig]
    yield f"|{'':{_CELLS[0]}}|{'':{_CELLS[1]}}| {mig:>20} |"


def _processes(processes: tuple[ProcessView, ...]) -> Iterator[str]:
    yield _line("-", _WIDTH)
    yield _PROCESS_HEAD
    yield "|" + "=" * _WIDTH + "|"
    if not processes:
        yield f"|{'  No running processes found':<{_WIDTH}}|"
    for process in processes:
        name = _cut_start(process.name, _PROCESS_NAME)
        yield (
            f"|{process.gpu.index:>5}   N/A  N/A{process.pid:>16}{process.kind:>7}   {name:<{_PROCESS_NAME}}"
            f"{_unit(process.used, 'MiB'):>10} |"
        )
    yield _line("-", _WIDTH)


def _line(stroke: str, *widths: int) -> str:
    return "+" + "+".join(stroke * width for width in widths) + "+"


def _bare(value: int | None) -> str:
    return "N/A" if value is None else str(value)


def _unit(value: float | None, unit: str) -> str:
    return "N/A" if value is None else f"{value:.0f}{unit}"


def _on(value: bool | None) -> str:
    return {None: "N/A", True: "On", False: "Off"}[value]


def _performance(gpu: GpuView) -> str:
    return "N/A" if gpu.performance is None else f"P{gpu.performance}"


def _cut_end(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."


def _cut_start(text: str, width: int) -> str:
    """A path tells more at its end."""
    return text if len(text) <= width else "..." + text[3 - width :]
