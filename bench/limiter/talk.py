"""A program that is spoken with line by line, and never waited for without an end."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO


class HangError(RuntimeError):
    """Nothing was said in time.  The program is ended with all that it started."""


class GoneError(RuntimeError):
    """The program ended instead of answering; the text says how."""


class Budget:
    """The time that a part of the bench may take, in seconds."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def until(self, seconds: float) -> float:
        """The moment of time.monotonic() `seconds` from now, but not after the budget's end."""
        return min(time.monotonic() + seconds, self._end)

    @property
    def spent(self) -> bool:
        """Whether nothing is left."""
        return time.monotonic() >= self._end


class Talker:
    """A program in a session of its own, whose pid is the session's id.

    Args:
        log: where the program's stderr goes.
    """

    def __init__(self, command: Sequence[str | Path], *, environment: Mapping[str, str], log: IO[bytes]) -> None:
        self._process = subprocess.Popen(
            list(map(str, command)),
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
        assert self._process.stdout
        os.set_blocking(self._process.stdout.fileno(), False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._process.stdout, selectors.EVENT_READ)
        self._pending = b""

    @property
    def pid(self) -> int:
        """Also the id of its session and its process group."""
        return self._process.pid

    def say(self, line: str) -> None:
        """Send one line; a program that is gone will be noticed when it is to answer."""
        assert self._process.stdin
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(f"{line}\n".encode())
            self._process.stdin.flush()

    def hear(self, *, until: float) -> str:
        """The next line.

        Args:
            until: a moment of time.monotonic().

        Raises:
            HangError: none came.
            GoneError: the program ended.
        """
        assert self._process.stdout
        while b"\n" not in self._pending:
            left = until - time.monotonic()
            if left <= 0 or not self._selector.select(left):
                self.end()
                raise HangError
            piece = os.read(self._process.stdout.fileno(), 65536)
            if not piece:
                code = self.wait(seconds=5)
                raise GoneError(f"ended by signal {-code}" if code < 0 else f"ended with code {code}")
            self._pending += piece
        line, _, self._pending = self._pending.partition(b"\n")
        return line.decode(errors="replace")

    def wait(self, *, seconds: float) -> int:
        """The exit code, once it has ended by itself or was ended after `seconds`."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        self.end()
        return self._process.returncode

    def end(self) -> None:
        """End it and everything in its session."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._selector.close()
        for stream in (self._process.stdin, self._process.stdout):
            if stream:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
