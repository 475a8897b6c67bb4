"""Waiting for what must come to pass, with a deadline, and with all that is known when it doesn't."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
# Seconds.  After a minute without an API server a client of Kubernetes may wait another minute before it asks again.
PATIENCE = 120.0


class Unfulfilled(AssertionError):
    """What was waited for did not happen in time."""


def until(
    look: Callable[[], T | None],
    what: str,
    *,
    seconds: float = PATIENCE,
    every: float = 0.05,
    explain: Callable[[], str] = lambda: "",
) -> T:
    """Call `look` until it gives something true, and return that.

    Args:
        what: says it in words, for the failure: "pod default/a is Running".
        seconds: the deadline; be generous, it is no measurement.
        every: pause between two looks, in seconds.
        explain: called on failure, for what helps to understand it.
    """
    end = time.monotonic() + seconds
    while True:
        if found := look():
            return found
        if time.monotonic() > end:
            raise Unfulfilled(f"After {seconds:g} s it still wasn't so that {what}.\n{explain()}")
        time.sleep(every)
