"""Processes seen from outside: who they are, whether they still run, and waiting for their end without polling.

A PID alone is never trusted: it may have been given to another process since.  `leftovers` decides which processes
belong to a slice.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal

from ..slicepage.process import ProcessMark, mark, runs

__all__ = ["ProcessMark", "ended", "mark", "runs", "send"]

# Where the kernel has no pidfd (before 5.3), or forbids it.
_POLL_SECONDS = 0.5


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
