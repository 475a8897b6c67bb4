"""The hub of the demo as a process: started, waited for, ended with all that it started."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType

import click

from . import processes
from .folder import DemoFolder
from .settings import Settings

_CONFIG = Path(__file__).parent.parent / "demo_config.py"
_READY_SECONDS = 120
_STOP_SECONDS = 20
_LEFT_SECONDS = 3
# A demo that is started in a server of another hub must not take itself for a part of that hub.
_FOREIGN = ("JUPYTERHUB_", "JPY_", "CONFIGPROXY_")


class Ended(Exception):
    """The person, or the system, asks the demo to end."""


@contextlib.contextmanager
def ending_on_signals() -> Iterator[None]:
    """Ctrl-C, a plain kill and a closed terminal raise `Ended`.  Once: whoever asks again is not kept waiting."""

    def end(number: int, frame: FrameType | None) -> None:
        for each in before:
            signal.signal(each, signal.SIG_IGN if each is signal.SIGHUP else signal.SIG_DFL)
        raise Ended

    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # else nohup wants it to go on
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, end) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class HubProcess:
    """JupyterHub with `demo_config.py`, writing to the folder's log.

    Args:
        folder: where it runs.
        environment: all of its variables.
    """

    def __init__(self, folder: DemoFolder, environment: Mapping[str, str]) -> None:
        self._folder = folder
        processes.adopt_orphans()
        with folder.log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "jupyterhub", "--config", str(_CONFIG)],
                cwd=folder.path,
                env={name: value for name, value in environment.items() if not name.startswith(_FOREIGN)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Ctrl-C is for the demo alone, which then ends the hub in good order
                start_new_session=True,
                preexec_fn=processes.end_with_parent,
            )
        signal.signal(signal.SIGCHLD, self._reap)

    def wait_until_ready(self, settings: Settings) -> None:
        """Return when the login page answers.

        Raises:
            click.ClickException: it ended instead, or doesn't answer in time.
        """
        deadline = time.monotonic() + _READY_SECONDS
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise click.ClickException(f"JupyterHub ended while starting. {self._last_words()}")
            # the hub first: its proxy writes an error for every page that it asks the hub for too early
            if _answers(f"{settings.hub_url}/hub/health") and _answers(f"{settings.url}/hub/login"):
                return
            time.sleep(0.1)
        raise click.ClickException(f"JupyterHub did not answer in {_READY_SECONDS} s. {self._last_words()}")

    def wait(self) -> None:
        """Return never, but for an exception.

        Raises:
            click.ClickException: the hub ended by itself.
        """
        self._process.wait()
        raise click.ClickException(f"JupyterHub ended by itself. {self._last_words()}")

    def stop(self) -> None:
        """End the hub, its proxy, the servers and their kernels."""
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_STOP_SECONDS)
        # what the hub could not end, and what was orphaned
        while left := processes.descendants():
            processes.end(left, patience=_LEFT_SECONDS)
        self._process.wait()

    def _reap(self, number: int, frame: FrameType | None) -> None:
        """Orphans came to us when their parents died: bury them; the hub itself is waited for elsewhere."""
        with contextlib.suppress(ChildProcessError):
            while dead := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                if dead.si_pid == self._process.pid:
                    return
                os.waitpid(dead.si_pid, 0)

    def _last_words(self) -> str:
        lines = self._folder.log.read_text(errors="replace").strip().splitlines()
        return "\n".join([f"The end of its log, {self._folder.log}:", *(f"  {line}" for line in lines[-8:])])


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310  an http URL of our own
            return bool(answer.status == 200)
    except (OSError, http.client.HTTPException):
        return False
