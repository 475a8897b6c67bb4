"""Telling a process from a later one of the same PID: what a slot of the usage page names its owner by.

The same rule as libvgpu's `process.c`.  Waiting for processes and ending them is the spawner's.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ProcessMark:
    """A process that can be told from a later one of the same PID.  `started` is in clock ticks since boot."""

    pid: int
    started: int


def mark(pid: int) -> ProcessMark | None:
    """The process that has `pid` now; None if there is none or it has ended and waits to be collected."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = stat[stat.rindex(b")") + 2 :].split()
    state, threads, started = fields[0], int(fields[17]), int(fields[19])
    # The first thread may have ended while others still run.
    ended = state in (b"Z", b"X") and threads <= 1
    return None if ended else ProcessMark(pid, started)


def runs(process: ProcessMark) -> bool:
    """Whether this very process still runs."""
    return mark(process.pid) == process


def owner_runs(owner: int) -> bool:
    """Whether the owner of a slot still runs: `pid << 32 | low 32 bits of its start`, as in hami_slice.h."""
    found = mark(owner >> 32)
    return found is not None and found.started & 0xFFFFFFFF == owner & 0xFFFFFFFF
