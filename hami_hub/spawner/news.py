"""What a starting server's person is told, for as many open progress pages as there are."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

WAITING = "waiting"
STARTING = "starting"
# Of an event as the hub's progress stream hands it on: what is known besides the words.
FACTS = "hami"


class News:
    """The messages of one start, from the first to the end of it.

    Attributes:
        since: Unix time when the start was asked for.
        last: the newest message, as an event of the hub's progress stream; None before the first.
    """

    def __init__(self) -> None:
        self.since = time.time()
        self.last: dict[str, Any] | None = None
        self._told: list[dict[str, Any]] = []
        self._more = asyncio.Event()
        self._over = False

    def tell(
        self, progress: int, message: str, *, state: str = STARTING, position: int = 0, frees_at: float | None = None
    ) -> None:
        """Add a message.

        Args:
            progress: percent of the way, as JupyterHub's bar shows it.
            message: in the person's language.
            state: `WAITING` while in line, else `STARTING`.
            position: in line, from 1; 0: in none.
            frees_at: Unix time by which a slice comes free that would help; None: nobody knows.
        """
        facts = {"state": state, "position": position, "frees_at": frees_at}
        self.last = {"progress": progress, "message": message, FACTS: facts}
        self._told.append(self.last)
        self._wake()

    def close(self) -> None:
        """There won't be any more."""
        self._over = True
        self._wake()

    async def follow(self) -> AsyncIterator[dict[str, Any]]:
        """All messages so far, then each as it comes, until `close`."""
        seen = 0
        while True:
            more = self._more
            while seen < len(self._told):
                yield dict(self._told[seen])
                seen += 1
            if self._over:
                return
            if more is self._more:
                await more.wait()

    def _wake(self) -> None:
        woken, self._more = self._more, asyncio.Event()
        woken.set()
