"""The card's engine, by a clock that the test moves: shares and times are exact, whatever the machine is doing."""

from __future__ import annotations

import pytest

from .conftest import Guest, Machine

MS = 1_000_000


@pytest.fixture
def manual(machine: Machine) -> Machine:
    machine.environment["HAMI_SIM_CLOCK"] = "manual"
    return machine


def worker(machine: Machine) -> Guest:
    guest = machine.guest()
    guest("init(); f = spinner()")
    return guest


def busy(guest: Guest) -> int:
    return guest("cuda.hamisim_busy_for(0, 0)")


def test_nothing_happens_while_time_stands(manual: Machine) -> None:
    a = worker(manual)
    a(f"spin(f, {MS})")
    assert busy(a) == 0
    assert a("cuda.cuStreamQuery(None)") == 600
    a(f"cuda.hamisim_advance({MS - 1})")
    assert busy(a) == MS - 1
    assert a("cuda.cuStreamQuery(None)") == 600
    a("cuda.hamisim_advance(1)")
    assert busy(a) == MS
    a("cu('CtxSynchronize')")


def test_one_process_has_the_card_to_itself(manual: Machine) -> None:
    a = worker(manual)
    a(f"spin(f, {100 * MS}); cuda.hamisim_advance({40 * MS})")
    assert busy(a) == 40 * MS
    a(f"cuda.hamisim_advance({100 * MS})")
    assert busy(a) == 100 * MS
    assert a("cuda.hamisim_busy(0)") == 100 * MS


def test_processes_take_turns_of_2_ms(manual: Machine) -> None:
    a, b, c = workers = [worker(manual) for _ in range(3)]
    for guest in workers:
        guest(f"spin(f, {100 * MS})")
    a(f"cuda.hamisim_advance({60 * MS})")
    assert [busy(guest) for guest in workers] == [20 * MS] * 3
    b(f"cuda.hamisim_advance({MS})")
    assert sorted(busy(guest) for guest in workers) == [20 * MS, 20 * MS, 21 * MS]
    c(f"cuda.hamisim_advance({300 * MS})")
    assert [busy(guest) for guest in workers] == [100 * MS] * 3


def test_many_small_kernels_share_like_few_big_ones(manual: Machine) -> None:
    a, b = worker(manual), worker(manual)
    a(f"spin(f, {100 * MS})")
    b(f"[spin(f, {MS // 10}) for _ in range(1000)] and None")
    a(f"cuda.hamisim_advance({100 * MS})")
    assert (busy(a), busy(b)) == (50 * MS, 50 * MS)


def test_time_that_a_process_does_not_use_goes_to_the_others(manual: Machine) -> None:
    a, b = worker(manual), worker(manual)
    a(f"spin(f, {100 * MS})")
    b(f"spin(f, {5 * MS})")
    a(f"cuda.hamisim_advance({50 * MS})")
    assert (busy(a), busy(b)) == (45 * MS, 5 * MS)


def test_a_dead_process_takes_no_more_turns(manual: Machine) -> None:
    a, b = worker(manual), worker(manual)
    a(f"spin(f, {100 * MS})")
    b(f"spin(f, {100 * MS})")
    a(f"cuda.hamisim_advance({20 * MS})")
    assert (busy(a), busy(b)) == (10 * MS, 10 * MS)
    b.kill()
    a("cuda.hamisim_used(0)")  # somebody looks, and clears it away
    a(f"cuda.hamisim_advance({30 * MS})")
    assert busy(a) == 40 * MS


def test_events_carry_the_time_of_the_card(manual: Machine) -> None:
    a, b = worker(manual), worker(manual)
    a("e = [ctypes.c_void_p() for _ in range(3)]; [cu('EventCreate', ctypes.byref(x), 0) for x in e] and None")
    a(f"cu('EventRecord', e[0], None); spin(f, {10 * MS}); cu('EventRecord', e[1], None)")
    a(f"spin(f, {10 * MS}); cu('EventRecord', e[2], None)")
    b(f"spin(f, {50 * MS})")
    a(f"cuda.hamisim_advance({100 * MS}); cu('CtxSynchronize')")
    a("ms = ctypes.c_float()")
    times = []
    for first, second in ((0, 1), (1, 2)):
        a(f"cu('EventElapsedTime_v2', ctypes.byref(ms), e[{first}], e[{second}])")
        times.append(a("ms.value"))
    # alternating slices of 2 ms: the fifth of a's ends at 18 ms, the tenth at 38 ms
    assert times == [18.0, 20.0]


def test_cards_work_apart(manual: Machine) -> None:
    manual.environment["HAMI_SIM_CARDS"] = "2"
    a, b = manual.guest(), manual.guest()
    for index, guest in enumerate((a, b)):
        guest(f"init({index}); f = spinner(); spin(f, {50 * MS})")
    a(f"cuda.hamisim_advance({30 * MS})")
    assert a("[cuda.hamisim_busy(0), cuda.hamisim_busy(1)]") == [30 * MS, 30 * MS]


def test_the_clock_of_a_running_card_cannot_be_moved(machine: Machine) -> None:
    guest = machine.guest()
    assert guest("cuda.hamisim_advance(1)") == -1
    assert guest("cuda.hamisim_clock()") > 0
