"""A terminal, for the blocks of a tutorial: one shell for all that ends, a process of its own for what goes on."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import threading
import time
from pathlib import Path

_DONE = "--- done"
_PATIENCE = 120.0  # seconds


class Terminal:
    """Runs in `folder` with `environment`.

    Args:
        folder: working directory of every command.
        environment: of every command.
    """

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.clipboard = ""
        self._folder, self._environment = folder, environment
        self._shell = _Process(["bash"], folder, environment)
        self._shell.type("trap 'failed=$?' ERR\n")
        self._background: list[_Process] = []

    def run(self, code: str) -> tuple[str, int]:
        """Type a block; what it prints, and the status of its last command that failed."""
        begun = len(self._shell.output)
        typed = ""
        for line in f"failed=0\n{code}".splitlines():
            typed += f"{line}\n"
            if line.startswith("read "):
                typed += f"{self.clipboard}\n"
        self._shell.type(f'{typed}echo "{_DONE} $failed"\n')
        end = time.monotonic() + _PATIENCE
        while (found := re.search(rf"{_DONE} (\d+)\n", self._shell.output[begun:])) is None:
            if time.monotonic() > end or not self._shell.runs:
                raise AssertionError(f"This came to no end:\n{code}{self._shell.output[begun:]}")
            time.sleep(0.05)
        return self._shell.output[begun:][: found.start()], int(found[1])

    def begin(self, code: str) -> None:
        """Run a command that goes on."""
        self._background.append(_Process(["bash", "-c", f"exec {code}"], self._folder, self._environment))

    def until_printed(self, lines: tuple[str, ...]) -> None:
        """Wait until what was begun last has printed these lines."""
        process, end = self._background[-1], time.monotonic() + _PATIENCE
        while not prints(process.output, lines):
            assert process.runs, f"This ended:\n{process.output}"
            assert time.monotonic() < end, f"This was not printed: {lines}\n{process.output}"
            time.sleep(0.1)

    def password(self) -> str:
        """What stands behind “password” in the output of what goes on."""
        for process in self._background:
            if found := re.search(r"password\s+(\S+)", process.output):
                return found[1]
        raise AssertionError("Nothing has said a password.")

    def close(self) -> None:
        """End everything, as Ctrl-C does."""
        self._shell.end(signal.SIGTERM)
        for process in self._background:
            process.end(signal.SIGINT)


class _Process:
    def __init__(self, command: list[str], folder: Path, environment: dict[str, str]) -> None:
        self.output = ""
        self._process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        threading.Thread(target=self._read, daemon=True).start()

    @property
    def runs(self) -> bool:
        return self._process.poll() is None

    def type(self, text: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(text)
        self._process.stdin.flush()

    def end(self, how: signal.Signals) -> None:
        for each in (how, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(self._process.pid, each)
                self._process.wait(40)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.output += line


def prints(output: str, lines: tuple[str, ...]) -> bool:
    """Whether these lines are in `output`, in this order; `…` stands for anything, blanks for any number of them."""
    patterns = (r"\s+".join(".*?".join(map(re.escape, word.split("…"))) for word in line.split()) for line in lines)
    plain = re.sub(r"\x1b\[[\d;]*m", "", output)
    return re.search(r"[\s\S]*?".join(rf"^\s*{pattern}\s*$" for pattern in patterns), plain, re.MULTILINE) is not None
