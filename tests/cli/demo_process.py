"""A real `hami-hub demo` as a process, driven as a person would: by its output, a browser's requests and signals."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from queue import Empty, SimpleQueue
from types import TracebackType

from hami_hub.cli.demo import ports, processes
from hami_hub.cli.demo.settings import Settings
from hami_hub.cli.demo.state import remove_abandoned

READY_SECONDS = 150  # longer than the demo itself waits for its hub, and tells why
END_SECONDS = 90


class Demo:
    """`with Demo(folder) as demo:` starts it and waits until it says that it is ready."""

    def __init__(self, folder: Path, *options: str, port: int | None = None) -> None:
        self.folder = folder
        self.port = port or ports.any_free(1)[0]
        self.options = options
        self.output = ""

    def __enter__(self) -> Demo:
        self.start()
        self.wait_for(r"Ctrl-C ends everything")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(END_SECONDS)
        processes.end(self.everything(), patience=0)
        remove_abandoned()

    def start(self) -> None:
        """Start it, without waiting."""
        command = [sys.executable, "-m", "hami_hub.cli", "demo", "--simulated"]
        command += ["--dir", str(self.folder), "--port", str(self.port), *self.options]
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self._lines: SimpleQueue[str] = SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def wait_for(self, pattern: str, seconds: float = READY_SECONDS) -> re.Match[str]:
        """Wait until the output has `pattern`."""
        deadline = time.monotonic() + seconds
        while not (found := re.search(pattern, self.output)):
            try:
                line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except Empty:
                line = ""
            if not line:
                log = self.folder / "hub.log"
                raise AssertionError(f"{self.output}\n{log.read_text()[-4000:] if log.is_file() else ''}")
            self.output += line
        return found

    def end(self, number: signal.Signals = signal.SIGINT) -> int:
        """Send a signal and wait for the end; the exit code."""
        os.kill(self.process.pid, number)
        return self.process.wait(END_SECONDS)

    def everything(self) -> list[int]:
        """All processes that this demo started and that live."""
        return processes.started_with("HAMI_DEMO_DIR", str(self.folder))

    def hub(self) -> dict[str, str]:
        """The variables of the hub."""
        return next(found for pid in self.everything() if "HAMI_DEMO" in (found := variables_of(pid)))

    def state(self) -> Path:
        """The folder on tmpfs."""
        return Path(Settings.from_environment(self.hub()).state)

    def password(self) -> str:
        """Of every account."""
        return (self.folder / "password").read_text().strip()

    @property
    def url(self) -> str:
        """Where browsers go."""
        return f"http://127.0.0.1:{self.port}"

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put("")


def variables_of(pid: int) -> dict[str, str]:
    """With which a process was started; none if it is gone."""
    try:
        content = Path(f"/proc/{pid}/environ").read_text()
    except OSError:
        return {}
    return dict(item.split("=", 1) for item in content.split("\0") if "=" in item)
