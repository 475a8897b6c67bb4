"""Members of a slice in PID namespaces of their own: their PIDs mean nothing to the others, and still they count."""

from __future__ import annotations

import os
import subprocess

import pytest
from guest_calls import OUT_OF_MEMORY

from hami_hub.slicepage import claimed_pids, read_slice

from .conftest import HIDDEN, PROGRAMS, Machine
from .test_members import FORK, eventually

LIMIT = 1000
CONTEXT = 104

pytestmark = pytest.mark.skipif(
    subprocess.run([*HIDDEN, "true"], capture_output=True, check=False).returncode != 0,
    reason="this system allows no user namespaces",
)


def test_each_counts_for_the_other(machine: Machine):
    place = machine.slice(LIMIT)
    hidden, seen = place.hidden_guest(), place.guest()
    hidden("start(); p = alloc(600)")
    seen("start()")
    assert seen.refused("alloc(600)") == OUT_OF_MEMORY
    hidden("free(p)")
    seen("p = alloc(600)")
    assert hidden.refused("alloc(600)") == OUT_OF_MEMORY
    assert seen("info()") == hidden("info()") == [LIMIT - 600 - 2 * CONTEXT, LIMIT]


def test_two_namespaces_count_for_each_other(machine: Machine):
    place = machine.slice(LIMIT)
    first, second = place.hidden_guest(), place.hidden_guest()
    first("start(); p = alloc(600)")
    second("start()")
    # both are PID 1 where they live
    assert first("os.getpid()") == second("os.getpid()") == 1
    assert second.refused("alloc(600)") == OUT_OF_MEMORY
    first("free(p)")
    second("alloc(600)")


def test_its_end_gives_the_share_back(machine: Machine):
    place = machine.slice(LIMIT)
    hidden, seen = place.hidden_guest(), place.guest()
    hidden("start(); alloc(600)")
    seen("start()")
    assert seen.refused("alloc(600)") == OUT_OF_MEMORY
    hidden.kill()
    assert eventually(lambda: seen.refused("alloc(600)") is None)


def test_it_sees_the_end_of_the_others(machine: Machine):
    place = machine.slice(LIMIT)
    hidden, seen = place.hidden_guest(), place.guest()
    seen("start(); alloc(600)")
    hidden("start()")
    assert hidden.refused("alloc(600)") == OUT_OF_MEMORY
    seen.kill()
    assert eventually(lambda: hidden.refused("alloc(600)") is None)


def test_a_child_that_lives_on_keeps_nothing(machine: Machine):
    """The parent's lock is not the child's, who got a copy of every descriptor."""
    place = machine.slice(LIMIT)
    parent, hidden = place.guest(), place.hidden_guest()
    parent("start(); alloc(600)")
    parent(FORK.format(child="__import__('time').sleep(600)"))
    child = parent("child")
    hidden("start()")
    assert hidden.refused("alloc(600)") == OUT_OF_MEMORY
    parent.kill()
    try:
        assert eventually(lambda: hidden.refused("alloc(600)") is None)
        os.kill(child, 0)
    finally:
        os.kill(child, 9)


def test_exec_keeps_its_place(machine: Machine):
    """Between the images the lock is gone: who looks then may clear the slot, and the new image takes another."""
    place = machine.slice(LIMIT)
    guest, hidden = place.guest(), place.hidden_guest()
    hidden("start()")
    for _ in range(5):
        guest("start(); alloc(600)")
        assert hidden.refused("alloc(600)") == OUT_OF_MEMORY
        assert len(place.view().processes) == 2
        guest("exec_again(answers)")
        guest("'the new image is there'")
        hidden("free(alloc(600))")


def test_who_closes_every_descriptor_still_counts_at_home(machine: Machine):
    """A daemon does so; in its own namespace its PID is enough."""
    place = machine.slice(LIMIT)
    daemon, other = place.guest(), place.guest()
    daemon("start(); alloc(600)")
    # the simulated card's own descriptors are spared: it knows the living by them
    daemon("""
for number in os.listdir('/proc/self/fd'):
    if os.path.realpath(f'/proc/self/fd/{number}').endswith('/usage'):
        os.close(int(number))
assert not any('/usage' in os.path.realpath(f'/proc/self/fd/{n}') for n in os.listdir('/proc/self/fd'))
""")
    other("start()")
    assert other.refused("alloc(600)") == OUT_OF_MEMORY
    daemon("free(alloc(10))")


def test_the_view_from_outside_counts_it(machine: Machine):
    place = machine.slice(LIMIT)
    hidden = place.hidden_guest()
    hidden("start(); alloc(600)")
    assert place.used() == 600 + CONTEXT
    assert read_slice(place.directory, same_pid_namespace=False).cards[0].used == 600 + CONTEXT
    # PID 1 of another namespace is nobody here, and nobody to be ended
    assert claimed_pids(place.directory) == frozenset()
    hidden.kill()
    assert eventually(lambda: place.used() == 0)
    assert read_slice(place.directory, same_pid_namespace=False).cards[0].used == 0


def test_racing_across_namespaces_never_passes_the_limit(machine: Machine, native):
    program = native.compile(PROGRAMS / "linked.c", flags=(f"-L{native.sim}", "-l:libcuda.so.1"))
    place = machine.slice(4000)
    running = [
        subprocess.Popen(
            [*(HIDDEN if i % 2 else ()), program, "1000"],
            env={**machine.environment, **place.environment},
            stdout=subprocess.PIPE,
        )
        for i in range(16)
    ]
    codes = [int(p.communicate()[0].split()[1]) for p in running]
    assert set(codes) <= {2}
    assert machine.peak() <= 4000
    assert eventually(lambda: place.used() == 0)
