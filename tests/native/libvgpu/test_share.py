"""The core share as it is shipped, in real processes on a simulated card: every route is held, none is disturbed.

How well shares hold and who goes first is `test_turns`'s, in simulated time.  Here a slow machine may make a process
get less than its share, never more: so a cap is judged by the time that the card really took for its work, and what
isn't held is waited for (`guest_card`).
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from bench.share.ground import WORKER
from hami_hub.core.cards import CardUuid
from hami_hub.core.slices import CardShare, CorePolicy, Placement
from hami_hub.core.units import Mib, Percent
from hami_hub.slicepage import create_slice, layout, read_slice

from .conftest import PROGRAMS, Guest, Machine

MS = 1_000_000
SAVED = 50 * MS  # and more than what a slice may have saved before it began
LONG = 500 * MS


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
    """A process that keeps the card busy in its way for so many seconds, and prints what was done."""
    options = [f"{key}={value}" for key, value in does.items()]
    environment = {**machine.environment, "HAMI_SLICE_DIR": str(directory)}
    return subprocess.Popen([worker, *options], env=environment, stdout=subprocess.PIPE, text=True)


@contextmanager
def at_work(machine: Machine, worker: Path, directory: Path, **does: Any) -> Iterator[subprocess.Popen[str]]:
    """The same as long as it is looked at; it must not end by itself."""
    with start(machine, worker, directory, seconds=600, **does) as process:
        try:
            yield process
            assert process.poll() is None
        finally:
            process.kill()


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
    directory, card = make_slice(machine, 30), machine.outsider()
    began = time.monotonic()
    with at_work(machine, worker, directory, ns=200_000, **ROUTES[route]) as process:
        card(f"await_work({SAVED}, {process.pid})")
        got = card(f"percent_while_it_does({LONG})")
        assert got < 34
    usage = read_slice(directory, same_pid_namespace=False).cards[0]
    # the machine itself may hold it more than its cap does
    assert usage.throttled_seconds > 0 or got < 20
    assert 0.1 < usage.used_seconds < 0.36 * (time.monotonic() - began)


@pytest.mark.parametrize("route", ["memset", "copy"])
def test_memory_work_goes_through(machine: Machine, worker: Path, route: str):
    process = start(machine, worker, make_slice(machine, 30), route=route, bytes=1 << 20, seconds=2)
    assert json.loads(process.communicate(timeout=120)[0])["done"][-1] > 0
    assert process.returncode == 0


def test_the_cap_is_the_slices_not_the_processes(machine: Machine, worker: Path):
    directory, card = make_slice(machine, 30), machine.outsider()
    with ExitStack() as stack:
        pids = [stack.enter_context(at_work(machine, worker, directory, ns=200_000)).pid for _ in range(3)]
        card(f"await_work({SAVED}, *{pids})")
        assert card(f"percent_while_it_does({LONG})") < 35
        # the others weren't merely held up by one of them
        card(f"await_work({SAVED}, *{pids})")


@pytest.mark.parametrize(("cores", "policy"), [(30, "default"), (0, "force"), (100, "force"), (30, "disable")])
def test_nothing_holds_who_is_alone_or_has_no_cap(machine: Machine, worker: Path, cores: int, policy: str):
    directory = make_slice(machine, cores, policy=policy)
    with at_work(machine, worker, directory, ns=MS) as process:
        machine.outsider()(f"await_rate({process.pid}, 60)")
    assert read_slice(directory, same_pid_namespace=False).cards[0].throttled_seconds == 0


def has_work_on_the_card(directory: Path) -> bool:
    """By the page that its neighbours read."""
    page = layout.Turns.from_buffer_copy((directory / "turns").read_bytes())
    return any(lane.sent != lane.done for member in page.members[: page.member_high] for lane in member.lanes)


def stop_at_work(process: subprocess.Popen[str], directory: Path, card: Guest) -> None:
    """Stop it with work on the card, but not with the simulated card's own lock, which no real card has."""
    while True:
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        card.begin("busy()")
        if select.select([card.process.stdout], [], [], 5)[0] and has_work_on_the_card(directory):
            card.finish()
            return
        process.send_signal(signal.SIGCONT)
        card.finish()
        card(f"await_work({MS}, {process.pid})")


def test_a_stopped_neighbour_holds_nobody_up(machine: Machine, worker: Path):
    card = machine.outsider()
    slices = [make_slice(machine, 50, policy="default", name=name) for name in ("a", "b")]
    with ExitStack() as stack:
        stopped, other = (stack.enter_context(at_work(machine, worker, place, ns=300_000)) for place in slices)
        card(f"await_work({20 * MS}, {stopped.pid}, {other.pid})")
        stop_at_work(stopped, slices[0], card)
        card(f"await_work({2 * SAVED}, {other.pid})")  # its turn at that moment is over
        # held up, it would have one kernel in every 25 ms
        card(f"await_rate({other.pid}, 15)")


def test_a_killed_process_frees_its_place(machine: Machine, worker: Path):
    directory, card = make_slice(machine, 30), machine.outsider()
    for _ in range(3):
        with at_work(machine, worker, directory, ns=300_000) as process:
            card(f"await_work({5 * MS}, {process.pid})")
    with at_work(machine, worker, directory, ns=300_000) as process:
        card(f"await_work({SAVED}, {process.pid})")
        # held up by the dead, it would have one kernel in every 10 ms
        card(f"await_rate({process.pid}, 15)")


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
