"""The journal as the service reads it: never on the event loop, and never twice for the same question at once."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar
from weakref import WeakValueDictionary

from ..core.history import Start, Use, UsedBy, use
from ..journal import JournalError, NoJournalError, Reader

_OWN_SECONDS = 1.0
_STARTS_SECONDS = 3.0  # whoever searches asks the same again and again
_USE_SECONDS = 30.0
_MOST_ROWS = 50_000

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Found:
    """Starts of some time, newest first; `more`: there are older ones that nobody counted."""

    starts: tuple[Start, ...]
    more: bool


class Records:
    """What the journal says.

    Args:
        reader: the journal.
        clock: Unix time.

    Attributes:
        problem: why it can't be read; empty if it can.
        none_yet: there is none, which is no problem as long as the hub is well and has started nothing.
    """

    def __init__(self, reader: Reader, clock: Callable[[], float] = time.time) -> None:
        self._reader, self._clock = reader, clock
        self._open: tuple[Start, ...] = ()
        self._answers: dict[object, tuple[float, object]] = {}
        self._locks: WeakValueDictionary[object, asyncio.Lock] = WeakValueDictionary()  # of what is asked now
        self.problem, self.none_yet = "", False

    async def open_starts(self) -> tuple[Start, ...]:
        """The open ones as they are now; those that were known last while the journal can't be read.  Never raises."""
        try:
            self._open = await asyncio.to_thread(self._reader.open_starts)
            self.problem, self.none_yet = "", False
        except JournalError as error:
            self.problem, self.none_yet = str(error), isinstance(error, NoJournalError)
        return self._open

    async def starts(self, t0: float, t1: float) -> Found:
        """Those that were open between `t0` and `t1`.

        Raises:
            JournalError: the journal can't be read.
        """
        rows = await self._once(
            ("starts", t0, t1), _STARTS_SECONDS, lambda: self._reader.starts(t0, t1, limit=_MOST_ROWS + 1)
        )
        return Found(rows[:_MOST_ROWS], len(rows) > _MOST_ROWS)

    async def starts_of(self, user: str, t0: float, t1: float) -> tuple[Start, ...]:
        """One person's starts that were open between `t0` and `t1`, newest first.

        Raises:
            JournalError: the journal can't be read.
        """
        return await self._once(
            ("starts of", user, t0, t1), _OWN_SECONDS, lambda: self._reader.starts(t0, t1, user=user)
        )

    async def use(self, t0: float, t1: float, by: UsedBy) -> tuple[Use, ...]:
        """Who used how much between `t0` and `t1`, at most half a minute old.

        Raises:
            JournalError: the journal can't be read.
        """
        now = self._clock()
        return await self._once(
            ("use", t0, t1, by),
            _USE_SECONDS,
            lambda: use(self._reader.starts(t0, t1), t0, t1, by=by, now=now),
        )

    async def _once(self, key: object, seconds: float, read: Callable[[], _T]) -> _T:
        """What `read` gives, in a thread; asked again `seconds` after that was known, however long it took."""
        async with self._locks.setdefault(key, asyncio.Lock()):
            good_until, answer = self._answers.get(key, (-math.inf, None))
            if time.monotonic() >= good_until:
                answer = await asyncio.to_thread(read)
                now = time.monotonic()
                self._answers[key] = (now + seconds, answer)
                self._tidy(now)
            return answer  # type: ignore[return-value]  # what was kept under this key is what `read` gives

    def _tidy(self, now: float) -> None:
        for key in [key for key, (good_until, _) in self._answers.items() if good_until < now]:
            del self._answers[key]
