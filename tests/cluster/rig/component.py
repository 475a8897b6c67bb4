"""One program of the cluster that tests may stop, start and restart: the API server, a kubelet."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

from tests.cluster.rig.machine import Machine
from tests.cluster.rig.processes import Process
from tests.cluster.rig.waiting import until


class Component:
    """A program on one of the machines, found again by its pid file from any process."""

    def __init__(
        self,
        name: str,
        machine: Machine,
        command: Callable[[], Sequence[str]],
        *,
        env: Mapping[str, str] | None = None,
        ready: Callable[[], bool] | None = None,
        grace: float = 10,
    ) -> None:
        self.name = name
        self.log = machine.folder / "log" / f"{name}.log"
        self._machine = machine
        self._command = command
        self._env = dict(env or {})
        self._ready = ready
        self._grace = grace  # seconds between SIGTERM and SIGKILL
        self._pid_file = machine.folder / f"{name}.pid"

    @property
    def process(self) -> Process | None:
        """The running process (pids as this machine counts), or None."""
        process = Process.load(self._pid_file)
        return process if process and process.alive else None

    def start(self, *, wait: bool = True) -> None:
        """Start it if it doesn't run, and wait until it answers."""
        if self.process is None:
            with self.log.open("ab") as log:
                process = self._machine.spawn(self._command(), log=log, env={**os.environ, **self._env})
            process.save(self._pid_file)
        if wait:
            self.wait_ready()

    def wait_ready(self) -> None:
        """Return when it answers; fail when it has ended or doesn't answer in time."""
        if self._ready is not None:
            until(self._answers, f"{self.name} answers")

    def stop(self, *, kill: bool = False) -> None:
        """End it: by SIGTERM, or with `kill` by SIGKILL as if it had crashed."""
        if process := self.process:
            if kill:
                process.kill()
            else:
                process.end(self._grace)
        self._pid_file.unlink(missing_ok=True)
        self._machine.reap()

    def restart(self, *, kill: bool = False) -> None:
        self.stop(kill=kill)
        self.start()

    def tail(self, lines: int = 30) -> str:
        """The last lines of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:]) if self.log.exists() else ""

    def _answers(self) -> bool:
        if self.process is None:
            raise RuntimeError(f"{self.name} has ended:\n{self.tail()}")
        assert self._ready is not None
        return self._ready()

    def __repr__(self) -> str:
        return f"<{self.name} {'runs' if self.process else 'is stopped'}>"
