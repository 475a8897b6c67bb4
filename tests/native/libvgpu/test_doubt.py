"""Nobody is refused for what counts too high only for the moment: on its way from one place of the ledger to another,
or as an estimate for a call that is under way."""

from __future__ import annotations

import ctypes
import mmap
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from guest_calls import MIB, OUT_OF_MEMORY

from hami_hub.slicepage import layout

from .conftest import PROGRAMS, Guest, Machine, Slice
from .test_ledger import LEDGER, SOURCES, run
from .test_members import eventually

LIMIT = 1000
CONTEXT = 104
RULES = re.findall(r"RULE\((\w+_\w+)\)", (PROGRAMS / "doubt_rules.c").read_text())


@pytest.mark.parametrize("rule", RULES)
def test_rule(native, rule: str):
    generated = f"-I{native.folder / 'libvgpu' / 'generated'}"
    run(native.compile(PROGRAMS / "doubt_rules.c", SOURCES / "doubt.c", *LEDGER, flags=(generated,)), rule)


@contextmanager
def amid_a_move(place: Slice, pid: int, *, mib: int, moving: bool = True) -> Iterator[None]:
    """As if a process stood between two instructions of its ledger: so much of what it holds stands there twice."""
    with (place.directory / layout.USAGE_FILE).open("r+b") as file:
        page = mmap.mmap(file.fileno(), ctypes.sizeof(layout.Usage))
    usage = layout.Usage.from_buffer(page)
    slot = next(slot for slot in usage.processes if slot.owner >> 32 == pid)
    # others may look at any moment: what moves is said before it does
    slot.moving += mib * MIB if moving else 0
    slot.held[0] += mib * MIB
    try:
        yield
    finally:
        # of a dead one everything has been cleared
        if slot.owner >> 32 == pid:
            slot.held[0] -= mib * MIB
            slot.moving -= mib * MIB if moving else 0
        del slot, usage
        page.close()


@pytest.fixture
def place(machine: Machine) -> Slice:
    """A slice with 1000 MiB."""
    return machine.slice(LIMIT)


def started(place: Slice) -> Guest:
    """A process with a context."""
    guest = place.guest()
    guest("start()")
    return guest


def failure_amid_a_move(place: Slice, mover: Guest, mib: int, other: Guest, code: str) -> int | None:
    """The CUresult with which `code` fails that begins amid the move and ends after it; None if it goes well."""
    with amid_a_move(place, mover.pid, mib=mib):
        other.begin(code)
        time.sleep(0.05)
    return other.failure()


def test_an_allocation_waits_for_who_is_amid_a_move(place: Slice):
    mover, other = started(place), started(place)
    assert failure_amid_a_move(place, mover, 300, other, "alloc(700)") is None
    assert place.view().cards[0].refusals == 0


def test_what_is_made_already_is_not_undone_for_who_is_amid_a_move(place: Slice):
    mover, other = started(place), started(place)
    assert failure_amid_a_move(place, mover, 750, other, "cuModuleLoadData(200)") is None
    assert place.view().cards[0].overshoots == 0
    assert place.used() == 2 * CONTEXT + 200


def test_a_context_waits_for_who_is_amid_a_move(place: Slice):
    assert failure_amid_a_move(place, started(place), 850, place.guest(), "start()") is None


def test_who_was_killed_amid_a_move_stands_in_nobodys_way(place: Slice):
    mover, other = started(place), started(place)
    with amid_a_move(place, mover.pid, mib=300):
        mover.kill()
        assert other.refused("alloc(700)") is None
    assert place.used() == CONTEXT + 700


def test_what_is_really_held_is_refused(place: Slice):
    holder, other = started(place), started(place)
    with amid_a_move(place, holder.pid, mib=300, moving=False):
        assert other.refused("alloc(700)") == OUT_OF_MEMORY
    with amid_a_move(place, holder.pid, mib=300):
        assert other.refused("alloc(800)") == OUT_OF_MEMORY
    other("alloc(700)")


def test_memory_that_needs_no_context_waits_for_the_slices_first(place: Slice):
    first, other = place.guest(HAMI_SIM_CONTEXT_MS="500"), place.guest()
    other("init()")
    first.begin("start()")
    assert eventually(lambda: place.used() > 0)
    other("handle = physical(100)")
    first.finish()
    assert place.used() == CONTEXT + 100


def test_small_allocations_of_one_never_take_the_last_block_from_another(native, machine: Machine, place: Slice):
    """Each may need a block of 2 MiB until its address is known."""
    other = started(place)
    program = native.compile(PROGRAMS / "small_churn.c", flags=(f"-L{native.sim}", "-l:libcuda.so.1"))
    with subprocess.Popen(
        [program], env={**machine.environment, **place.environment}, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as small:
        assert small.stdin
        assert small.stdout
        assert small.stdout.readline() == b"ready\n"
        other(f"alloc({LIMIT - 2 * CONTEXT - 2 - 2})")
        failures = [other.refused("free(alloc(2))") for _ in range(300)]
        small.stdin.close()
    assert failures == [None] * 300
    assert small.returncode == 0
