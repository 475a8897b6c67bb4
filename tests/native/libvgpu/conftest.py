"""A machine with simulated cards, slices on it, and guests: processes that run inside a slice."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from hami_hub.core.cards import CardUuid
from hami_hub.core.slices import CardShare, Placement
from hami_hub.core.units import Mib, Percent
from hami_hub.slicepage import SliceView, create_slice, read_slice, resize_card

HERE = Path(__file__).resolve().parent
# guests run as scripts, and import their modules by plain names
sys.path.insert(0, str(HERE))
PROGRAMS = HERE / "programs"
T4_MIB = 15360
MIB = 1 << 20
# What a tenant may do wherever user namespaces are allowed.
HIDDEN = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc")


class GuestError(Exception):
    """A guest's code raised; `code` is the CUresult, if it was one."""

    def __init__(self, text: str, code: int | None) -> None:
        super().__init__(text)
        self.code = code


@dataclass
class Guest:
    """A Python process that runs what it is told, one piece after the other."""

    process: subprocess.Popen[str]

    def begin(self, code: str) -> None:
        """Let it run without waiting for the end; `finish` does."""
        assert self.process.stdin
        self.process.stdin.write(json.dumps(code) + "\n")
        self.process.stdin.flush()

    def finish(self) -> Any:
        """The value of an expression, or None of a statement.

        Raises:
            GuestError: it raised.
        """
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            self.process.kill()
            raise AssertionError(f"The guest answers no more, {self.process.wait()}: {self.stderr()}")
        answer = json.loads(line)
        if "error" in answer:
            raise GuestError(answer["error"], answer["code"])
        return answer["value"]

    def __call__(self, code: str) -> Any:
        """Both."""
        self.begin(code)
        return self.finish()

    def refused(self, code: str) -> int | None:
        """The CUresult with which `code` failed; None if it went well."""
        self.begin(code)
        return self.failure()

    def failure(self) -> int | None:
        """The CUresult with which the code begun fails; None if it goes well."""
        try:
            self.finish()
        except GuestError as error:
            return error.code
        return None

    @property
    def pid(self) -> int:
        return self.process.pid

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stderr(self) -> str:
        """All it wrote to stderr; ends it."""
        assert self.process.stdin
        assert self.process.stderr
        self.process.stdin.close()
        return self.process.stderr.read()

    def close(self) -> None:
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream:
                stream.close()
        self.process.kill()
        self.process.wait()


@dataclass
class Slice:
    """A slice directory on a machine."""

    machine: Machine
    directory: Path
    uuids: Sequence[str]

    @property
    def environment(self) -> dict[str, str]:
        return {"HAMI_SLICE_DIR": str(self.directory)}

    def guest(self, **environment: str) -> Guest:
        return self.machine.guest(**{**self.environment, **environment})

    def hidden_guest(self) -> Guest:
        """One in a PID namespace of its own, with a /proc that shows nobody else, as its PID 1."""
        return self.machine.guest(prefix=HIDDEN, **self.environment)

    def view(self) -> SliceView:
        return read_slice(self.directory)

    def used(self, card: int = 0) -> int:
        return self.view().cards[card].used

    def resize(self, mib: int, card: int = 0) -> None:
        resize_card(self.directory, uuid=CardUuid(self.uuids[card]), vram=Mib(mib))


@dataclass
class Machine:
    """Simulated cards that nobody else uses, and the libraries to meet them."""

    limiter: Path
    sim: Path
    folder: Path
    profile: str = "t4"
    cards: int = 1
    guests: list[Guest] = field(default_factory=list)

    @property
    def raw_environment(self) -> dict[str, str]:
        """Without the limiter."""
        return {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
            "LD_LIBRARY_PATH": str(self.sim),
            "HAMI_SIM_DIR": str(self.folder / "sim"),
            "HAMI_SIM_PROFILE": self.profile,
            "HAMI_SIM_CARDS": str(self.cards),
        }

    @property
    def environment(self) -> dict[str, str]:
        return {**self.raw_environment, "LD_PRELOAD": str(self.limiter)}

    def _start(self, environment: dict[str, str], prefix: Sequence[str] = ()) -> Guest:
        process = subprocess.Popen(
            [*prefix, sys.executable, HERE / "guest.py"],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.guests.append(Guest(process))
        return self.guests[-1]

    def guest(self, *, prefix: Sequence[str] = (), **environment: str) -> Guest:
        """A process with the limiter preloaded, started by the program `prefix` if there is one."""
        return self._start({**self.environment, **environment}, prefix)

    def outsider(self) -> Guest:
        """A process without the limiter: sees the machine as it is."""
        return self._start(self.raw_environment)

    def run(self, *command: Path | str, check: bool = True, **environment: str) -> subprocess.CompletedProcess[str]:
        """A program with the limiter preloaded."""
        done = subprocess.run(
            list(map(str, command)),
            env={**self.environment, **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        if check and done.returncode:
            raise AssertionError(f"{command[0]} ended with {done.returncode}: {done.stdout}{done.stderr}")
        return done

    def uuids(self) -> list[str]:
        """Of all cards, in NVML's order."""
        outsider = self.outsider()
        return outsider("nvml_uuids()")

    def slice(
        self,
        *mib: int,
        cards: Sequence[int] | None = None,
        whole: bool = False,
        oom_killer: bool = False,
        name: str = "alice",
    ) -> Slice:
        """A slice of so much VRAM on each of `cards`, the first ones unless said otherwise."""
        known = self.uuids()
        uuids = [known[i] for i in (cards if cards is not None else range(len(mib)))]
        shares = tuple(CardShare(CardUuid(u), Mib(m), Percent(0), whole=whole) for u, m in zip(uuids, mib, strict=True))
        directory = self.folder / name
        create_slice(directory, name=f"{name}/", placement=Placement(shares, oom_killer=oom_killer))
        return Slice(self, directory, uuids)

    def true_use(self, pid: int, card: int = 0) -> int:
        """MiB that the driver says a process holds."""
        outsider = self.outsider()
        return outsider(
            f"sum(p.usedGpuMemory for p in nvml().nvmlDeviceGetComputeRunningProcesses("
            f"nvml().nvmlDeviceGetHandleByIndex({card})) if p.pid == {pid}) // MIB"
        )

    def peak(self, card: int = 0) -> int:
        """The most MiB that were ever taken on a card."""
        outsider = self.outsider()
        outsider("libcuda().hamisim_peak.restype = c_uint64")
        return outsider(f"libcuda().hamisim_peak({card})") // MIB


@pytest.fixture
def make_machine(native) -> Iterator[Callable[..., Machine]]:
    made: list[Machine] = []

    def make(*, cards: int = 1, profile: str = "t4", limiter: Path | None = None) -> Machine:
        folder = Path(tempfile.mkdtemp(prefix="hami-test-", dir="/dev/shm"))
        made.append(Machine(limiter or native.limiter, native.sim, folder, profile, cards))
        return made[-1]

    yield make
    for machine in made:
        for guest in machine.guests:
            guest.close()
        shutil.rmtree(machine.folder, ignore_errors=True)


@pytest.fixture
def machine(make_machine) -> Machine:
    """One simulated T4 of 15360 MiB; a context on it takes 104."""
    return make_machine()
