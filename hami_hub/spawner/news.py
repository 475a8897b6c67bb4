"""What a starting server's person is told, for as many open progress pages as there are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any


class News:
    """The messages of one start, from the first to the end of it."""

    def __init__(self) -> None:
        self._told: list[dict[str, Any]] = []
        self._more = asyncio.Event()
        self._over = False

    def tell(self, progress: int, message: str) -> None:
        """Add a message; `progress` is percent of the way, as JupyterHub's bar shows it."""
        self._told.append({"progress": progress, "message": message})
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
