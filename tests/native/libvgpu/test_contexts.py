"""Contexts are paid for before they are made: by all processes of a slice together, by the driver's own count."""

from __future__ import annotations

from pathlib import Path

import pytest
from guest_calls import OUT_OF_MEMORY

from .conftest import Machine
from .test_members import FORK, WAIT, eventually

LIMIT = 1000
CONTEXT = 104
SLOWLY = "50"  # HAMI_SIM_CONTEXT_MS: long enough for all others to come in between


@pytest.mark.parametrize("known", [False, True], ids=["the slice's first", "later ones"])
def test_processes_that_start_at_once_never_pass_the_limit(machine: Machine, known: bool):
    place = machine.slice(LIMIT)
    if known:
        first = place.guest()
        first("start()")
        first.kill()
    guests = [place.guest(HAMI_SIM_CONTEXT_MS=SLOWLY) for _ in range(12)]
    for guest in guests:
        guest("init()")
    for guest in guests:
        guest.begin("context()")
    failures = [guest.failure() for guest in guests]
    assert sorted(f or 0 for f in failures) == [0] * (LIMIT // CONTEXT) + [OUT_OF_MEMORY] * (12 - LIMIT // CONTEXT)
    assert machine.peak() == LIMIT // CONTEXT * CONTEXT
    assert place.used() == machine.peak()
    assert place.view().cards[0].peak <= LIMIT
    assert place.view().cards[0].overshoots == 0


def test_parent_and_child_that_forked_before_cuda(machine: Machine):
    place = machine.slice(150)
    parent = place.guest(HAMI_SIM_CONTEXT_MS=SLOWLY)
    parent(FORK.format(child="start()"))
    failures = sorted([parent.refused("start()") or 0, parent(WAIT)])
    # the child has ended, so its context may have made room for the parent's
    assert failures in ([0, OUT_OF_MEMORY], [0, 0])
    assert machine.peak() == CONTEXT
    assert place.view().cards[0].overshoots == 0


def test_one_that_dies_over_the_first_context_keeps_nobody_waiting(machine: Machine):
    place = machine.slice(LIMIT)
    victim, other = place.guest(HAMI_SIM_CONTEXT_MS="60000"), place.guest()
    victim.begin("start()")
    assert eventually(lambda: place.used() == LIMIT)
    other.begin("start()")
    victim.kill()
    assert other.failure() is None
    assert place.used() == CONTEXT


def test_a_slice_that_has_room_for_one_context_gets_it(make_machine):
    machine = make_machine(profile="h200")
    place = machine.slice(700)
    for _ in range(2):
        guest = place.guest()
        guest("start()")
        assert place.used() == 518 == machine.true_use(guest.pid)
        second = place.guest()
        assert second.refused("start()") == OUT_OF_MEMORY
        assert place.view().cards[0].peak == 518
        guest.kill()
        second.kill()
    assert machine.peak() == 518


def test_a_failed_first_context_leaves_nothing_reserved(machine: Machine):
    outsider = machine.outsider()
    outsider("start(); alloc(15360 - 2 * 104 + 52)")
    place = machine.slice(LIMIT)
    guest = place.guest()
    assert guest.refused("start()") == OUT_OF_MEMORY
    assert place.used() == 0
    outsider.kill()
    assert eventually(lambda: guest.refused("start()") is None)
    assert place.used() == CONTEXT


def test_threads_make_one_primary_context(machine: Machine):
    place = machine.slice(LIMIT)
    guest = place.guest(HAMI_SIM_CONTEXT_MS=SLOWLY)
    guest("import threading; init(); workers = [threading.Thread(target=context) for _ in range(6)]")
    guest("[w.start() for w in workers]; [w.join() for w in workers]")
    assert place.used() == CONTEXT
    guest("for _ in workers: cu('cuDevicePrimaryCtxRelease_v2', c_int(0))")
    assert place.used() == 0 == machine.true_use(guest.pid)


def test_a_process_begins_without_nvml(machine: Machine):
    """Starting NVML takes 14 ms on a real card.  The cost of a context is known, so it waits until more is at stake."""
    place = machine.slice(LIMIT)
    place.guest()("start()")
    guest = place.guest()
    guest("start(); alloc(100)")
    maps = Path(f"/proc/{guest.pid}/maps")
    assert "libnvidia-ml" not in maps.read_text()
    assert place.used() == 2 * CONTEXT + 100
    guest("alloc(300); __import__('time').sleep(0.15); alloc(1)")
    assert "libnvidia-ml" in maps.read_text()
    assert place.used() == 2 * CONTEXT + 402
