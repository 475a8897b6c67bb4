"""The processes that still hold memory of a slice whose server is gone: finding them, and ending them.

Kernels outlive a server that was killed.  They are known by what the kernel says of them, not by what the tenant's own
usage page claims: a process belongs to a slice if it runs as the tenant and has the slice's page in its memory.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..slicepage import claimed_pids
from ..slicepage.layout import USAGE_FILE
from . import processes
from .processes import ProcessMark

# Written beside the pages by the hub; says which process is the slice's server.
SERVER_FILE = "server"
_GRACE_SECONDS = 1.0
_ROUNDS_BEFORE_WARNING = 5


def note_server(directory: Path, server: ProcessMark) -> None:
    """Leave word of which process is the slice's server, for a hub that finds the directory without its maker."""
    (directory / SERVER_FILE).write_text(f"{server.pid} {server.started}\n")


async def end_leftovers(directory: Path, log: logging.Logger) -> None:
    """End every process of the slice in `directory`, and return when none is left.

    They are asked first and killed a second later.
    """
    rounds = 0
    while found := await asyncio.to_thread(find_leftovers, directory):
        if rounds == _ROUNDS_BEFORE_WARNING:
            pids = ", ".join(str(process.pid) for process in found)
            log.warning("Processes of a slice don't end: %s. Until they do, their slice %s counts.", pids, directory)
        for process in found:
            processes.send(process, signal.SIGKILL if rounds else signal.SIGTERM)
        gone = [asyncio.ensure_future(processes.ended(process)) for process in found]
        try:
            await asyncio.wait(gone, timeout=_GRACE_SECONDS)
        finally:
            for each in gone:
                each.cancel()
        rounds += 1


def find_leftovers(directory: Path) -> frozenset[ProcessMark]:
    """The processes of the slice in `directory` that still run, this one never among them."""
    found = set(_server(directory))
    try:
        page = _Page.of(directory / USAGE_FILE)
    except OSError:
        return frozenset(found)
    # Of a user whose processes are not all tenants' a claim proves nothing.
    claimed = claimed_pids(directory) if page.owner not in (None, 0, os.geteuid()) else frozenset()
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        process = processes.mark(int(name))
        if process is not None and page.held_by(process.pid, claimed=process.pid in claimed):
            found.add(process)
    return frozenset(found)


@dataclass(frozen=True, slots=True)
class _Page:
    """A usage page as the kernel knows it, and who may have mapped it; `owner` None: anybody but root."""

    device: str
    inode: str
    owner: int | None

    @classmethod
    def of(cls, path: Path) -> _Page:
        status = path.lstat()
        device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}"
        open_to_all = bool(status.st_mode & stat.S_IWOTH)
        return cls(device, str(status.st_ino), None if open_to_all else status.st_uid)

    def held_by(self, pid: int, *, claimed: bool) -> bool:
        uid = _real_uid(pid)
        if uid is None or (uid == 0 if self.owner is None else uid != self.owner):
            return False
        try:
            maps = Path(f"/proc/{pid}/maps").read_text(errors="replace")
        except PermissionError:
            # A hub that may not look into its tenants' processes has only their word.
            return claimed
        except OSError:
            return False
        # One that is just ending has no memory any more, but may still hold the card's.
        return claimed if not maps else any(self._is(line) for line in maps.splitlines())

    def _is(self, line: str) -> bool:
        fields = line.split(maxsplit=5)
        return len(fields) > 4 and fields[3] == self.device and fields[4] == self.inode


def _real_uid(pid: int) -> int | None:
    try:
        for line in Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines():
            if line.startswith("Uid:"):
                return int(line.split()[1])
    except OSError:
        pass
    return None


def _server(directory: Path) -> Iterator[ProcessMark]:
    try:
        pid, started = map(int, (directory / SERVER_FILE).read_text().split())
    except (OSError, ValueError):
        return
    server = ProcessMark(pid, started)
    if pid != os.getpid() and processes.runs(server):
        yield server
