"""What the simulated card has done, as an onlooker without the limiter sees it: card 0, in ns of the whole card.

A machine with much other work may give a process little of the processor, and so of the card, and wake an onlooker
late.  So nothing here says how much was done by a certain time: work is waited for, and the time that it took is never
taken for less than it was.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from ctypes import c_int, c_uint, c_uint64

from guest_calls import libcuda

PATIENCE = 120  # seconds


def _number(name: str, *arguments: object) -> int:
    hook = getattr(libcuda(), name)
    hook.restype = c_uint64
    return int(hook(*arguments))


def _clock() -> int:
    return _number("hamisim_clock")


def busy() -> int:
    """By all processes there ever were."""
    return _number("hamisim_busy", c_uint(0))


def work_of(pid: int) -> int:
    """By one process that lives."""
    return _number("hamisim_busy_for", c_uint(0), c_int(pid))


def _until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, f"The card has done {busy()} ns in all, and after {PATIENCE} s no more."
        time.sleep(0.002)


def await_work(ns: int, *pids: int) -> None:
    """Until the card has done so much more for each of these processes."""
    wanted = {pid: work_of(pid) + ns for pid in pids}
    _until(lambda: all(work_of(pid) >= ns for pid, ns in wanted.items()))


def percent_while_it_does(ns: int) -> float:
    """Of the card that its processes have, until it has done so much more; never too much."""
    began, before = _clock(), busy()
    _until(lambda: busy() >= before + ns)
    done = busy() - before
    return 100 * done / (_clock() - began)


def await_rate(pid: int, percent: float) -> None:
    """Until a process has had so much of the card for a tenth of a second."""

    def has_it() -> bool:
        began, before = _clock(), work_of(pid)
        time.sleep(0.1)
        done = work_of(pid) - before
        return 100 * done >= percent * (_clock() - began)

    _until(has_it)
