"""Processes known by pid and start time, so that a pid that was given to somebody else is never signalled."""

from __future__ import annotations

import os
import select
import signal
import time
from dataclasses import dataclass
from pathlib import Path

PATIENCE = 60.0  # seconds for what a machine that isn't busy does at once


@dataclass(frozen=True)
class Process:
    """One process, perhaps gone, perhaps no child of ours."""

    pid: int
    started: int  # clock ticks after boot

    @classmethod
    def of(cls, pid: int) -> Process:
        """The process that has this pid now; raises ProcessLookupError when none has."""
        started = _started(pid)
        if started is None:
            raise ProcessLookupError(f"There is no process {pid}.")
        return cls(pid, started)

    @classmethod
    def load(cls, file: Path) -> Process | None:
        """The process that `save` wrote down, or None."""
        try:
            pid, started = file.read_text().split()
        except (FileNotFoundError, ValueError):
            return None
        return cls(int(pid), int(started))

    def save(self, file: Path) -> None:
        file.write_text(f"{self.pid} {self.started}")

    @property
    def alive(self) -> bool:
        return _started(self.pid) == self.started

    def signal(self, number: signal.Signals) -> None:
        """Send a signal; nothing happens if the process is gone."""
        if self.alive:
            os.kill(self.pid, number)

    def wait(self, seconds: float) -> bool:
        """Wait for its end; False if it still runs then."""
        if not self.alive:
            return True
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return True
        try:
            return bool(select.select([descriptor], [], [], seconds)[0])
        finally:
            os.close(descriptor)

    def end(self, grace: float = 10) -> None:
        """SIGTERM, and after `grace` seconds SIGKILL."""
        self.signal(signal.SIGTERM)
        if not self.wait(grace):
            self.kill()

    def kill(self) -> None:
        """SIGKILL, and return when it is gone: whatever it held, a port say, is free."""
        self.signal(signal.SIGKILL)
        if not self.wait(PATIENCE):
            raise RuntimeError(f"Process {self.pid} outlives SIGKILL.")

    def child(self, seconds: float = PATIENCE) -> Process:
        """Its first child, waited for: programs like nsenter and unshare fork what they were asked to run."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.alive:
            if found := self.children():
                return found[0]
            time.sleep(0.002)
        raise ProcessLookupError(f"Process {self.pid} started nothing.")

    def children(self) -> list[Process]:
        """What it has started and hasn't ended, by its main thread."""
        try:
            pids = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        except (FileNotFoundError, ProcessLookupError):
            return []
        started = [(int(pid), _started(int(pid))) for pid in pids]
        return [Process(pid, ticks) for pid, ticks in started if ticks is not None]


def _started(pid: int) -> int | None:
    """When the process started, or None if there is none or only its zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else int(fields[19])
