"""Nothing that the demo starts may outlive it: servers and kernels make sessions of their own, and some are orphaned.

Linux only.  Two nets: as a subreaper the demo becomes the parent of every orphan below it, and what a killed demo left
is known by a variable in its environment.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Collection, Iterator
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)


def adopt_orphans() -> None:
    """Make this process the parent of whatever is orphaned below it."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_with_parent() -> None:
    """In a new child, before its program: be told by SIGTERM when the parent is killed."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def descendants() -> list[int]:
    """Every process below this one, parents before children; the dead ones are reaped."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    parents = dict(_parents())
    found, known = [], {os.getpid()}
    while new := [pid for pid, parent in parents.items() if parent in known and pid not in known]:
        found += new
        known.update(new)
    return found


def started_with(variable: str, value: str) -> list[int]:
    """Every process of this user that was started with `variable=value` in its environment, except this one."""
    wanted = f"{variable}={value}".encode()
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            if folder.stat().st_uid == os.geteuid() and wanted in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found


def end(pids: Collection[int], *, patience: float) -> None:
    """Ask processes to end, and kill those that don't.

    Args:
        pids: processes, children or not.
        patience: seconds to wait before the kill.
    """
    _signal(pids, signal.SIGTERM)
    deadline = time.monotonic() + patience
    while any(map(_alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    _signal([pid for pid in pids if _alive(pid)], signal.SIGKILL)


def _signal(pids: Collection[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _alive(pid: int) -> bool:
    return _stat(pid)[:1] not in ([], ["Z"], ["X"])


def _parents() -> Iterator[tuple[int, int]]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and (fields := _stat(int(folder.name))):
            yield int(folder.name), int(fields[1])


def _stat(pid: int) -> list[str]:
    """State, parent and so on from /proc/PID/stat; empty when there is no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return []
    return text[text.rindex(")") + 2 :].split()
