"""Processes seen from outside: who they are, whether they still run, and waiting for their end without polling.

A PID alone is never trusted: it may have been given to another process since.  `leftovers` decides which processes
belong to a slice.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from dataclasses import dataclass
from pathlib import Path

# Where the kernel has no pidfd (before 5.3), or forbids it.
_POLL_SECONDS = 0.5


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


def send(process: ProcessMark, sig: signal.Signals) -> None:
    """Send a signal to this very process; one that has ended is no error."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        descriptor = _pidfd(process)
        if descriptor is None:
            if runs(process):
                os.kill(process.pid, sig)
            return
        try:
            signal.pidfd_send_signal(descriptor, sig)
        finally:
            os.close(descriptor)


async def ended(process: ProcessMark) -> None:
    """Return as soon as this very process has ended, and no sooner."""
    try:
        descriptor = _pidfd(process)
    except ProcessLookupError:
        return
    if descriptor is None:
        while runs(process):  # noqa: ASYNC110  there is nothing to be woken by
            await asyncio.sleep(_POLL_SECONDS)
        return
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(descriptor, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


def _pidfd(process: ProcessMark) -> int | None:
    """A descriptor of this very process; None where there are none to be had.

    Raises:
        ProcessLookupError: it has ended.
    """
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        raise
    except (OSError, AttributeError):
        return None
    # Only now can the PID no longer change hands.
    if runs(process):
        return descriptor
    os.close(descriptor)
    raise ProcessLookupError(process.pid)
