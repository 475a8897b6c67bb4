"""The core share as it is shipped, in real processes on a simulated card: every route is held, none is disturbed.

How well shares hold and who goes first is `test_turns`'s, in simulated time.  Here a slow machine may make a process
get less than its share, never more.
"""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from bench.share.ground import WORKER
from hami_hub.core.cards import CardUuid
from hami_hub.core.slices import CardShare, CorePolicy, Placement
from hami_hub.core.units import Mib, Percent
from hami_hub.slicepage import create_slice, read_slice

from .conftest import PROGRAMS, Machine

SECONDS = 2


def make_slice(machine: Machine, cores: int, *, policy: str = "force", name: str = "alice") -> Path:
    share = CardShare(CardUuid(machine.uuids()[0]), Mib(2000), Percent(cores))
    directory = machine.folder / "slices" / name
    placement = Placement((share,), policy=CorePolicy(policy))
    create_slice(directory, name=name, placement=placement, ring=machine.folder / "cards")
    return directory


@pytest.fixture(scope="module")
def worker(native) -> Path:
    return native.compile(*WORKER, flags=(f"-L{native.sim}", "-l:libcuda.so.1", "-Wl,--allow-shlib-undefined"))


def start(machine: Machine, worker: Path, directory: Path, **does: Any) -> subprocess.Popen[str]:
    options = [f"{key}={value}" for key, value in {"seconds": SECONDS, **does}.items()]
    environment = {**machine.environment, "HAMI_SLICE_DIR": str(directory)}
    return subprocess.Popen([worker, *options], env=environment, stdout=subprocess.PIPE, text=True)


def percent(process: subprocess.Popen[str]) -> float:
    """Of the card, while the process ran."""
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    done = json.loads(output)["done"]
    return 100 * done[-1] / (len(done) / 10 * 1e9)


ROUTES: dict[str, dict[str, Any]] = {
    "launch": {"route": "launch"},
    "per-thread stream": {"route": "ptsz"},
    "extended": {"route": "ex"},
    "cooperative": {"route": "cooperative"},
    "launch and wait": {"route": "sync"},
    "graph": {"route": "graph", "nodes": 20},
    "streams": {"streams": 8},
    "more streams than lanes": {"streams": 60},
    "threads": {"threads": 4, "streams": 3},
}


@pytest.mark.parametrize("route", ROUTES)
def test_every_route_is_held(machine: Machine, worker: Path, route: str):
    directory = make_slice(machine, 30)
    got = percent(start(machine, worker, directory, ns=200_000, **ROUTES[route]))
    assert 3 < got < 34
    card = read_slice(directory, same_pid_namespace=False).cards[0]
    assert card.throttled_seconds > 0
    assert 0.03 < card.used_seconds / SECONDS < 0.36


@pytest.mark.parametrize("route", ["memset", "copy"])
def test_memory_work_goes_through(machine: Machine, worker: Path, route: str):
    process = start(machine, worker, make_slice(machine, 30), route=route, bytes=1 << 20)
    assert json.loads(process.communicate(timeout=120)[0])["done"][-1] > 0
    assert process.returncode == 0


def test_the_cap_is_the_slices_not_the_processes(machine: Machine, worker: Path):
    directory = make_slice(machine, 30)
    processes = [start(machine, worker, directory, ns=200_000) for _ in range(3)]
    assert sum(percent(process) for process in processes) < 35


@pytest.mark.parametrize(("cores", "policy"), [(30, "default"), (0, "force"), (100, "force"), (30, "disable")])
def test_nothing_holds_who_is_alone_or_has_no_cap(machine: Machine, worker: Path, cores: int, policy: str):
    directory = make_slice(machine, cores, policy=policy)
    assert percent(start(machine, worker, directory, ns=1_000_000)) > 60


def test_a_stopped_neighbour_holds_nobody_up(machine: Machine, worker: Path):
    stopped = start(machine, worker, make_slice(machine, 50, policy="default", name="a"), ns=300_000, seconds=60)
    try:
        other = start(machine, worker, make_slice(machine, 50, policy="default", name="b"), ns=300_000, seconds=5)
        time.sleep(1)
        stopped.send_signal(signal.SIGSTOP)
        done = json.loads(other.communicate(timeout=120)[0])["done"]
        # held up, it would have one kernel in every 25 ms
        assert (done[-1] - done[-21]) / 2e7 > 15
    finally:
        stopped.kill()
        stopped.communicate()


def test_a_killed_process_frees_its_place(machine: Machine, worker: Path):
    directory = make_slice(machine, 30)
    for _ in range(3):
        process = start(machine, worker, directory, ns=300_000, seconds=60)
        time.sleep(0.5)
        process.kill()
        process.communicate()
    assert percent(start(machine, worker, directory, ns=300_000)) > 3


def test_a_capture_holds_only_the_programs_nodes(machine: Machine, native):
    program = native.compile(PROGRAMS / "capture_share.c", flags=(f"-L{native.sim}", "-l:libcuda.so.1"))
    done = machine.run(program, HAMI_SLICE_DIR=str(make_slice(machine, 30)))
    assert done.stdout == "401 of 401\n"


THREADS: dict[str, dict[str, Any]] = {
    "kernels": {"threads": 4, "streams": 3, "ns": 100_000},
    "one stream": {"threads": 4, "route": "ptsz", "ns": 50_000},
    "waiting": {"threads": 4, "route": "sync", "ns": 20_000},
    "lanes come and go": {"threads": 3, "streams": 20, "ns": 100_000},
}


@pytest.mark.parametrize("policy", ["force", "default"])
@pytest.mark.parametrize("does", THREADS)
def test_threads_do_not_race(make_machine, native_thread, does: str, policy: str):
    machine = make_machine(limiter=native_thread.limiter)
    flags = ("-fsanitize=thread", f"-L{native_thread.sim}", "-l:libcuda.so.1", "-Wl,--allow-shlib-undefined")
    program = native_thread.compile(*WORKER, flags=flags)
    directories = [make_slice(machine, 30, policy=policy, name=name) for name in ("alice", "bob")]
    options = [f"{key}={value}" for key, value in {"seconds": 1, **THREADS[does]}.items()]
    environments = [{**machine.environment, "HAMI_SLICE_DIR": str(directory)} for directory in directories]
    processes = [
        subprocess.Popen(
            [program, *options], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        for environment in environments
    ]
    for process in processes:
        errors = process.communicate(timeout=120)[1]
        assert "libvgpu" not in errors, errors
