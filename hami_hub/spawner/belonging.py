"""Whose a process is, by what the kernel says of it and never by what a tenant's page claims.

`leftovers` finds the processes that have a slice's page in their memory; here are those that avoid just that.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ..slicepage.layout import USAGE_FILE
from ..slicepage.process import ProcessMark, runs
from .leftovers import SERVER_FILE

_LONGEST_FAMILY = 64  # generations


@dataclass(frozen=True, slots=True)
class _Home:
    directory: Path
    server: ProcessMark | None
    owner: int
    group: str


class Belonging:
    """The slices whose processes are to be told apart, as they were when this was made.

    Args:
        directories: slice directories.
    """

    def __init__(self, directories: Iterable[Path]) -> None:
        own = _control_group(os.getpid())
        self._homes = [home for directory in directories if (home := _home(directory, own)) is not None]

    def slice_of(self, pid: int) -> Path | None:
        """The slice directory of a process; None: it is nobody's here.

        Of its server's family, in the server's control group, or of a user who has only one slice.
        """
        servers = {home.server.pid: home.directory for home in self._homes if home.server is not None}
        for ancestor in _family(pid):
            if ancestor in servers:
                return servers[ancestor]
        group = _control_group(pid)
        for home in self._homes:
            if group and group == home.group:
                return home.directory
        # Root's and the hub's own processes are not all tenants'.
        uid = _uid(pid)
        users = [home.directory for home in self._homes if home.owner == uid and uid not in (0, os.geteuid())]
        return users[0] if len(users) == 1 else None


def _home(directory: Path, own_group: str) -> _Home | None:
    try:
        owner = (directory / USAGE_FILE).stat().st_uid
    except OSError:
        return None
    server = None
    try:
        pid, started = map(int, (directory / SERVER_FILE).read_text().split())
        server = ProcessMark(pid, started)
    except (OSError, ValueError):
        pass
    if server is not None and not runs(server):
        server = None
    group = _control_group(server.pid) if server is not None else ""
    return _Home(directory, server, owner, group if group != own_group else "")


def _family(pid: int) -> Iterable[int]:
    """The process and its ancestors, itself first."""
    for _ in range(_LONGEST_FAMILY):
        if pid <= 0:
            return
        yield pid
        try:
            stat = Path(f"/proc/{pid}/stat").read_bytes()
        except OSError:
            return
        pid = int(stat[stat.rindex(b")") + 2 :].split()[1])


def _control_group(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cgroup").read_text()
    except OSError:
        return ""


def _uid(pid: int) -> int | None:
    try:
        return Path(f"/proc/{pid}").stat().st_uid
    except OSError:
        return None
