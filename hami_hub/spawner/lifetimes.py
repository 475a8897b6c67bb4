"""Waits until a server's time is over.  When that is, `hami_hub.core.lifetimes` says; the spawner stops the server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from ..core.lifetimes import End, look


async def until_over(
    until: float | None,
    idle_timeout: int | None,
    last_used: Callable[[], float],
    clock: Callable[[], float] = time.time,
) -> End:
    """Return when, and why, a server's time is over.

    Args:
        until: Unix time; None: no limit.
        idle_timeout: seconds; None: no limit.
        last_used: Unix time when the server was last used.
        clock: Unix time.
    """
    while True:
        used = last_used() if idle_timeout is not None else 0.0
        found = look(clock(), until=until, idle_timeout=idle_timeout, last_used=used)
        if isinstance(found, End):
            return found
        await (asyncio.Event().wait() if found is None else asyncio.sleep(found))
