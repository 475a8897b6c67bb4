"""What each group has had of the cards, old use counting less: for the order of those who wait.

What ended before this hub began is read from the journal once; then the journal's news are enough.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping

from ..core.history import Start, past_use
from ..journal import Journal, JournalError

# After so many half-lives a thousandth is left.
_HALF_LIVES = 10


class PastUse:
    """Past use by group.

    Args:
        journal: is watched.
        half_life: seconds after which use counts half.
        log: for admins.
        clock: Unix time.
    """

    def __init__(
        self, journal: Journal, half_life: float, log: logging.Logger, clock: Callable[[], float] = time.time
    ) -> None:
        self._journal, self._half_life, self._log, self._clock = journal, half_life, log, clock
        self._began = self._at = clock()
        self._ended: dict[str, float] = {}  # as it counts at `_at`
        journal.watch(self._heard)

    async def load(self) -> None:
        """Read what was before; without a journal nothing was."""
        try:
            before = self._began - _HALF_LIVES * self._half_life
            starts = await asyncio.to_thread(self._journal.starts, before, self._began)
        except JournalError as error:
            self._log.debug("Past use is not known. %s", error)
            return
        ended = [start for start in starts if start.ended_at is not None and start.ended_at <= self._began]
        self._add(past_use(ended, self._now(), self._half_life))

    def by_group(self) -> dict[str, float]:
        """GiB-hours that each group has had, as they count now."""
        now = self._now()
        total = dict(self._ended)
        for group, hours in past_use(self._journal.open_now(), now, self._half_life).items():
            total[group] = total.get(group, 0.0) + hours
        return total

    def _heard(self, before: Start | None, after: Start) -> None:
        if after.ended_at is not None and (before is None or before.ended_at is None):
            self._add(past_use((after,), max(self._now(), after.ended_at), self._half_life))

    def _add(self, use: Mapping[str, float]) -> None:
        for group, hours in use.items():
            self._ended[group] = self._ended.get(group, 0.0) + hours

    def _now(self) -> float:
        """Now, to which what has ended is brought."""
        now = max(self._at, self._clock())
        left = 2.0 ** ((self._at - now) / self._half_life)
        self._ended = {group: hours * left for group, hours in self._ended.items()}
        self._at = now
        return now
