"""Processes that got around the limiter, on a simulated card: found from outside, told, ended where that is wished."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hami_hub.core.cards import CardUuid
from hami_hub.core.slices import CardShare, Placement
from hami_hub.core.units import Mib, Percent
from hami_hub.slicepage import create_slice
from hami_hub.slicepage.process import mark
from hami_hub.spawner.belonging import Belonging
from hami_hub.spawner.escapes import EscapeGuard
from hami_hub.spawner.leftovers import note_server
from tests.native.conftest import NativeBuild, build_native

# Takes as many MiB as it is told, and waits; `bare` leaves the limiter and the slice behind, as a static program would.
_HOLD = """
import ctypes, os, sys
how, mib = sys.argv[1], int(sys.argv[2])
if how == "bare":
    bare = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "HAMI_SLICE_DIR")}
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:-2], "inside", str(mib)], bare)
cuda = ctypes.CDLL("libcuda.so.1")
context, pointer = ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
print(cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(mib << 20)), flush=True)
sys.stdin.read()
"""
# A server: starts what it is told as children, and tells what they say.
_SERVER = """
import subprocess, sys
children = []
for line in sys.stdin:
    how, mib = line.split()
    command = [sys.executable, "-c", sys.argv[1], how, mib]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    children.append(child)
    print(child.pid, child.stdout.readline().decode().strip(), flush=True)
"""


@pytest.fixture(scope="session")
def native() -> NativeBuild:
    """The native parts as they are shipped."""
    return build_native("native")


class Server:
    """A tenant's server in a slice."""

    def __init__(self, directory: Path, environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _SERVER, _HOLD],
            env=environment | {"HAMI_SLICE_DIR": str(directory)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        found = mark(self.process.pid)
        assert found is not None
        note_server(directory, found)

    def hold(self, how: str, mib: int) -> int:
        """The PID of a child that took so much."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{how} {mib}\n")
        self.process.stdin.flush()
        pid, answer = self.process.stdout.readline().split()
        assert answer == "0"
        return int(pid)


class Machine:
    """A simulated T4 with two slices of 2000 MiB, alice's and bob's."""

    def __init__(self, folder: Path, environment: dict[str, str], uuid: str) -> None:
        self.card = {name: value for name, value in environment.items() if name != "LD_PRELOAD"}
        self.directories: list[Path] = []
        self.servers: dict[str, Server] = {}
        for name in ("alice", "bob"):
            directory = folder / "slices" / name
            placement = Placement((CardShare(CardUuid(uuid), Mib(2000), Percent(0)),))
            create_slice(directory, name=f"{name}/", placement=placement)
            self.directories.append(directory)
            self.servers[name] = Server(directory, environment)

    @property
    def folder(self) -> Path:
        """Of the slices."""
        return self.directories[0].parent

    def guard(self, *, end: bool) -> EscapeGuard:
        return EscapeGuard(lambda: self.directories, end=end, log=logging.getLogger("hub"))


@pytest.fixture
def machine(native, monkeypatch) -> Iterator[Machine]:
    folder = Path(tempfile.mkdtemp(prefix="hami-escapes-", dir="/dev/shm"))
    card = {
        "LD_LIBRARY_PATH": str(native.sim),
        "HAMI_SIM_DIR": str(folder / "sim"),
        "HAMI_SIM_PROFILE": "t4",
    }
    # NVML is asked in processes of their own: in this one its library stays as it was first loaded.
    ask = [sys.executable, "-c", _UUID]
    base = {**os.environ, **card}
    uuid = subprocess.run(ask, env=base, capture_output=True, text=True, check=True).stdout.strip()
    made = Machine(folder, base | {"LD_PRELOAD": str(native.limiter)}, uuid)
    monkeypatch.setattr("hami_hub.spawner.escapes.read_card_processes", lambda: _processes(base))
    yield made
    for server in made.servers.values():
        os.killpg(server.process.pid, 9)
        server.process.wait()
    shutil.rmtree(folder)


_UUID = "import pynvml as n; n.nvmlInit(); print(n.nvmlDeviceGetUUID(n.nvmlDeviceGetHandleByIndex(0)))"
_READ = "from hami_hub.card_processes import read_card_processes as r; print(repr(r()))"


def _processes(environment: dict[str, str]) -> tuple[tuple[str, int, int], ...]:
    done = subprocess.run([sys.executable, "-c", _READ], env=environment, capture_output=True, text=True, check=True)
    return eval(done.stdout)


def looks(guard: EscapeGuard, times: int = 3) -> list[int]:
    """The PIDs that were told."""
    return [pid for _ in range(times) for escape in guard.look_once() for pid, _ in escape.processes]


def test_who_keeps_to_the_slice_is_never_told(machine: Machine, caplog):
    machine.servers["alice"].hold("inside", 1000)
    machine.servers["bob"].hold("inside", 1500)
    assert looks(machine.guard(end=True), 5) == []
    assert not caplog.records


def test_who_got_around_the_limiter_is_told(machine: Machine, caplog):
    machine.servers["alice"].hold("inside", 500)
    escaped = machine.servers["alice"].hold("bare", 5000)
    machine.servers["bob"].hold("inside", 1000)
    assert looks(machine.guard(end=False), 6) == [escaped]
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage().startswith("alice/ holds 5708 MiB of the card GPU-")
    assert f"process {escaped} got around the limiter." in record.getMessage()
    assert mark(escaped) is not None


def test_and_ended_where_that_is_wished(machine: Machine, caplog):
    kept = machine.servers["alice"].hold("inside", 500)
    escaped = machine.servers["alice"].hold("bare", 300)
    neighbour = machine.servers["bob"].hold("inside", 1000)
    assert looks(machine.guard(end=True)) == [escaped]
    assert caplog.records[0].getMessage().endswith("They are ended.")
    end = time.monotonic() + 60
    while mark(escaped) is not None and time.monotonic() < end:
        time.sleep(0.01)
    assert mark(escaped) is None
    assert mark(kept) is not None
    assert mark(neighbour) is not None


def test_a_program_of_nobodys_slice_is_left_alone(machine: Machine):
    """The admin's own, say."""
    command = [sys.executable, "-c", _HOLD, "inside", "5000"]
    with subprocess.Popen(command, env=machine.card, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as own:
        assert own.stdout.readline() == b"0\n"
        assert looks(machine.guard(end=True), 5) == []
        own.kill()


def smi(machine: Machine, *options: str) -> str:
    command = [sys.executable, "-m", "hami_hub.cli", "smi", "--escapes", *options]
    done = subprocess.run(command, env=machine.card, capture_output=True, text=True, check=False)
    return done.stdout or done.stderr


def test_the_command_tells_them_too(machine: Machine):
    machine.servers["alice"].hold("inside", 500)
    assert smi(machine, "--slices", str(machine.folder)) == (
        "2 slices: no process holds more than its slice answers for.\n"
    )
    escaped = machine.servers["alice"].hold("bare", 5000)
    said = smi(machine, "--slices", str(machine.folder))
    assert said.startswith("alice/ holds 5708 MiB of the card GPU-")
    assert said.endswith(f"process {escaped} got around the limiter.\n")


def test_the_command_says_what_it_needs(machine: Machine):
    missing = machine.folder / "nowhere"
    assert smi(machine, "--slices", str(missing)) == (
        f"Error: The slices in {missing} can't be read: No such file or directory. "
        "Run it as the hub's user, or name the hub's folder with --slices.\n"
    )


def test_a_process_belongs_to_the_family_of_its_server(machine: Machine):
    belonging = Belonging(machine.directories)
    child = machine.servers["bob"].hold("bare", 100)
    assert belonging.slice_of(child) == machine.directories[1]
    assert belonging.slice_of(os.getpid()) is None
    assert belonging.slice_of(1) is None
