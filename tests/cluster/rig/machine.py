"""A machine made of namespaces: its own processes, mounts, host name and perhaps network, on the files of this one.

Everything in it ends when its PID 1 ends, and its mounts and network with them: nothing of it can be left behind but
files and cgroups.  What is on the machines of a cluster say `network` (the first, with the control plane) and `node`.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from tests.cluster.rig.processes import Process

START_TIMEOUT = 60  # seconds; it takes some 20 ms
CLONE_NEWNET = 0x40000000


class Machine:
    """Namespaces held by a PID 1 that only waits; `start` makes them.

    A machine of the same folder and name that another process has started is this one too.
    """

    def __init__(self, name: str, folder: Path, *, within: Machine | None = None) -> None:
        self.name = name
        self.folder = folder
        self._within = within
        self._pid_file = folder / f"{name}.pid"
        self._children: list[subprocess.Popen[Any]] = []
        self.init: Process | None = Process.load(self._pid_file)

    @property
    def running(self) -> bool:
        return self.init is not None and self.init.alive

    def start(self, setup: str, *arguments: str, init: Path, dies_with_us: bool = False) -> None:
        """Make the namespaces, run the shell script `setup` in them, then `init` as PID 1.

        With `dies_with_us` all of it is killed when the calling thread ends, however that ends.  A machine within
        another ends with that one anyway.
        """
        kinds = ["--pid", "--mount", "--uts", "--mount-proc", *(["--net"] if self._within is None else [])]
        script = f"set -eu\numask 022\nhostname {self.name}\n{setup}\necho made\nexec {init} <&- >&- 2>&-"
        command = ["unshare", "--fork", "--kill-child", *kinds, "sh", "-c", script, "sh", *arguments]
        if self._within is not None:
            command = self._within.inside(*command)
        if dies_with_us:
            command = ["setpriv", "--pdeathsig=KILL", *command]
        pipe = subprocess.PIPE
        holder = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=pipe,
            stderr=pipe,
            text=True,
            cwd="/",
            env={**os.environ, "PATH": search_path()},
            start_new_session=True,
        )
        self._children.append(holder)
        assert holder.stdout is not None
        if holder.stdout.readline() != "made\n":
            reason = holder.communicate(timeout=START_TIMEOUT)[1].strip()
            raise RuntimeError(f"The machine {self.name} could not be made: {reason}")
        found = Process.of(holder.pid).child()
        self.init = found if self._within is None else found.child()
        self.init.save(self._pid_file)

    def inside(self, *command: str | os.PathLike[str]) -> list[str]:
        """The command line that runs `command` on this machine."""
        if self.init is None:
            raise RuntimeError(f"The machine {self.name} is not running.")
        kinds = ["--pid", "--mount", "--uts", "--net"]
        return ["nsenter", f"--target={self.init.pid}", *kinds, "--", *(os.fspath(each) for each in command)]

    def run(self, *command: str | os.PathLike[str], **options: Any) -> subprocess.CompletedProcess[str]:
        """Run a command there; options are those of subprocess.run, and text, captured output and 60 s by default."""
        settings: dict[str, Any] = {"text": True, "capture_output": True, "timeout": 60, **options}
        return subprocess.run(self.inside(*command), **settings)

    def spawn(
        self, command: Sequence[str], *, log: IO[bytes], env: Mapping[str, str], pass_fds: Sequence[int] = ()
    ) -> Process:
        """Start a program there that outlives the caller (though not the machine), with its output in `log`."""
        process = subprocess.Popen(
            self.inside(*command),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=dict(env),
            cwd="/",
            start_new_session=True,
            pass_fds=pass_fds,
        )
        self._children.append(process)
        return Process.of(process.pid).child()

    def path(self, path: str | os.PathLike[str]) -> Path:
        """Where a file of that machine (absolute path) is seen from here; its own mounts are included."""
        if self.init is None:
            raise RuntimeError(f"The machine {self.name} is not running.")
        return Path(f"/proc/{self.init.pid}/root") / os.fspath(path).lstrip("/")

    def connect(self, address: str, port: int, timeout: float = 10) -> socket.socket:
        """A TCP connection made from that machine's network, usable here."""
        result: list[socket.socket | OSError] = []

        def enter_and_connect() -> None:
            try:
                with open(f"/proc/{self.init.pid if self.init else 0}/ns/net") as namespace:
                    if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), CLONE_NEWNET):
                        raise OSError(ctypes.get_errno(), "setns")
                result.append(socket.create_connection((address, port), timeout))
            except OSError as error:
                result.append(error)

        # A thread of its own, because only the network of the calling thread changes, and for good.
        thread = threading.Thread(target=enter_and_connect)
        thread.start()
        thread.join()
        if isinstance(result[0], OSError):
            raise result[0]
        return result[0]

    def stop(self) -> None:
        """Kill everything on it."""
        if self.init is not None:
            self.init.signal(signal.SIGKILL)
            self.init.wait(START_TIMEOUT)
        for child in self._children:
            child.wait(START_TIMEOUT)
        self._children.clear()
        self._pid_file.unlink(missing_ok=True)
        self.init = None

    def reap(self) -> None:
        """Forget the helpers of programs that have ended."""
        self._children = [child for child in self._children if child.poll() is None]


def search_path(*first: Path) -> str:
    """PATH for programs on a machine: `first`, what we have, and where system programs are."""
    return ":".join([*map(str, first), os.environ.get("PATH", "/usr/bin:/bin"), "/usr/sbin", "/sbin"])
