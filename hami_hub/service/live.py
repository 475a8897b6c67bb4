"""Looks at everything while somebody looks at the page, at most every two seconds however many they are."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..core.history import Start
from ..core.language import speaking
from ..slicepage import name_on_page
from .hubapi import Hub
from .model import World, page
from .records import Records
from .revisions import Revisions
from .sight import Eyes

PERIOD = 2.0


class Live:
    """What goes on now.

    Args:
        eyes: look at the cards.
        records: the journal.
        hub: for groups.
        default_quota: as `c.GpuSlices.default_quota`.
        clock: Unix time.
    """

    def __init__(
        self,
        eyes: Eyes,
        records: Records,
        hub: Hub,
        *,
        default_quota: Mapping[str, Any],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._eyes, self._records, self._hub = eyes, records, hub
        self._default_quota = default_quota
        self._clock = clock
        self._lock = asyncio.Lock()
        self._world = World()
        self._world_until = 0.0
        self._changed = False  # by somebody here, since the last look began
        self._revisions = Revisions()
        self._told: World | None = None  # of which the newest revision is
        self._at = 0.0

    async def world(self) -> World:
        """What there is, at most two seconds old."""
        async with self._lock:
            if self._changed or time.monotonic() >= self._world_until:
                self._changed, self._world_until = False, 0.0
                with speaking(None):  # for everybody, whoever asks
                    self._world = await self._look()
                self._at = self._clock()
                self._world_until = time.monotonic() + PERIOD
        return self._world

    async def since(self, revision: str) -> dict[str, Any]:
        """What has changed since `revision`; "": everything.  See `Revisions.since`."""
        world = await self.world()
        if world is not self._told:
            self._revisions.add(page(world))
            self._told = world
        return {"at": round(self._at, 1), **self._revisions.since(revision)}

    def look_again(self) -> None:
        """Something was changed here: who asks next sees it."""
        self._hub.forget_groups()
        self._changed = True

    async def _look(self) -> World:
        sight, groups = await asyncio.gather(self._eyes.look(), self._hub.groups())
        starts = await self._records.open_starts()  # last, to know whose all that is that was seen
        records = self._records
        problems = [records.problem] if records.problem and (self._hub.problem or not records.none_yet) else []
        if self._hub.problem:
            problems.append(f"{self._hub.problem} What you see is what the journal and the cards say; groups are old.")
        return World(
            sight=sight,
            starts=starts,
            groups=groups,
            default_quota=self._default_quota,
            names=_names((*self._world.starts, *starts)),  # a slice may be seen a moment longer than its start
            problems=tuple(problems),
        )


def _names(starts: Iterable[Start]) -> dict[str, str]:
    return {start.pod or name_on_page(start.server_of): start.server_of for start in starts}
