"""ACTIVE_OOM_KILLER: who takes more than the slice has, unforeseen and not to be undone, is ended; nobody else is."""

from __future__ import annotations

import signal

import pytest
from guest_calls import OUT_OF_MEMORY

from .conftest import HIDDEN, Machine

LIMIT = 1000
CONTEXT = 104


def test_who_exceeds_is_ended(machine: Machine):
    place = machine.slice(LIMIT, oom_killer=True)
    guest = place.guest()
    guest("start(); escape(1200)")
    guest.begin("alloc(10)")
    assert guest.process.stdout.readline() == ""
    assert guest.process.wait(60) == -signal.SIGKILL
    said = guest.process.stderr.read()
    assert said.startswith("hami: This process is ended, because it took its slice to 1304 MiB of VRAM and 1000 MiB")
    assert said.count("\n") == 1
    assert place.view().cards[0].refusals == 1


def test_the_others_live_on(machine: Machine):
    place = machine.slice(LIMIT, oom_killer=True)
    neighbour, guest = place.guest(), place.guest()
    neighbour("start(); alloc(300)")
    guest("start(); escape(900)")
    # which the limiter finds when it looks at the driver's figure, several times a second
    guest.begin("[(free(alloc(10)), __import__('time').sleep(0.05)) for _ in range(200)]")
    assert guest.process.wait(60) == -signal.SIGKILL
    neighbour("alloc(400)")
    assert neighbour("info()") == [LIMIT - CONTEXT - 700, LIMIT]


def test_a_neighbour_that_is_refused_is_not_the_one(machine: Machine):
    place = machine.slice(LIMIT, oom_killer=True)
    neighbour, guest = place.guest(), place.guest()
    neighbour("start(); alloc(300)")
    guest("start(); escape(900); info()")
    assert neighbour.refused("alloc(600)") == OUT_OF_MEMORY
    assert neighbour("1 + 1") == 2


def test_nobody_is_ended_without_the_flag(machine: Machine):
    place = machine.slice(LIMIT)
    guest = place.guest()
    guest("start(); escape(1200)")
    assert guest.refused("alloc(10)") == OUT_OF_MEMORY
    assert guest.refused("take('cuModuleLoadData', 100)") == OUT_OF_MEMORY
    guest("escape(-1200); alloc(800)")
    assert guest.stderr() == ""


def test_what_can_be_undone_is_undone(machine: Machine):
    place = machine.slice(LIMIT, oom_killer=True)
    guest = place.guest()
    guest("start(); alloc(700)")
    for way in ("cuModuleLoadData", "cuKernelGetFunction", "cuLaunchKernel"):
        assert guest.refused(f"take({way!r}, 500)") == OUT_OF_MEMORY
    assert guest.refused("alloc(500)") == OUT_OF_MEMORY
    assert place.view().cards[0].overshoots == 3
    assert guest("info()") == [LIMIT - CONTEXT - 700, LIMIT]


def test_a_slice_that_was_made_smaller_ends_nobody(machine: Machine):
    place = machine.slice(LIMIT, oom_killer=True)
    guest = place.guest()
    guest("start(); p = alloc(700)")
    place.resize(400)
    assert guest.refused("alloc(10)") == OUT_OF_MEMORY
    assert guest.refused("take('cuModuleLoadData', 100)") == OUT_OF_MEMORY
    guest("free(p); alloc(200)")


def test_the_first_process_of_a_pid_namespace_is_ended_too(machine: Machine):
    """Its own SIGKILL spares it."""
    place = machine.slice(LIMIT, oom_killer=True)
    guest = machine.guest(prefix=HIDDEN, **place.environment)
    try:
        guest("os.getpid()")
    except AssertionError:
        pytest.skip("this system allows no user namespaces")
    guest("start(); escape(1200)")
    guest.begin("alloc(10)")
    assert guest.process.wait(60) == 128 + signal.SIGKILL


@pytest.mark.parametrize(
    ("value", "ended"), [(None, True), ("true", True), ("1", True), ("false", False), ("0", False)]
)
def test_hamis_variable(machine: Machine, value: str | None, ended: bool):
    """On unless it is turned off, where the limits come from the environment."""
    variables = {"CUDA_DEVICE_MEMORY_LIMIT": "1000m", "CUDA_DEVICE_MEMORY_SHARED_CACHE": str(machine.folder / "cache")}
    guest = machine.guest(**variables, **({} if value is None else {"ACTIVE_OOM_KILLER": value}))
    guest("start(); escape(1200)")
    guest.begin("alloc(10)")
    if ended:
        assert guest.process.wait(60) == -signal.SIGKILL
    else:
        assert guest.failure() == OUT_OF_MEMORY
