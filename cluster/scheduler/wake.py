"""A slice that comes free starts who waits for it, at once.

kube-scheduler tries a refused pod again when it sees a pod go.  It asks within the same millisecond, and our own
watch may bring that news a little later: answering "no" then would be the last word for minutes.  Two things help:

* a refusal waits a moment for news before it is given (`Patience`), within bounds, since kube-scheduler asks for one
  pod after another and a thousand who wait must not hold up each other;
* who was refused shortly before room came free, and was not asked about since, is shown to kube-scheduler again
  (`Waker`): one write to the pod's status, which is an event to it.  So is whoever waits for a reservation that was
  given up.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import datetime, timezone

import msgspec

from cluster.apiserver import STRATEGIC_MERGE_PATCH, ApiRefused, ApiServer, ApiUnreachable
from hami_hub.core.nodes import FleetPlacement
from hami_hub.core.pods import PodView

from .books import Books

_log = logging.getLogger(__name__)
_NEWS_WITHIN = 0.025
_WAITS_SAVED, _WAITS_A_SECOND = 10.0, 10.0
_OURS_MAY_LAG = 2.0
_ASKED_AGAIN_WITHIN = 0.25
_MOST_WOKEN, _MOST_TRIED = 8, 64


class Patience:
    """How long a refusal may wait for news.  At most a quarter of the time goes into waiting."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._saved, self._at = _WAITS_SAVED, clock()

    def seconds(self) -> float:
        """How long this refusal may wait; 0: answer now."""
        now = self._clock()
        self._saved, self._at = min(_WAITS_SAVED, self._saved + (now - self._at) * _WAITS_A_SECOND), now
        if self._saved < 1:
            return 0.0
        self._saved -= 1
        return _NEWS_WITHIN


class Waker:
    """Finds the pods that room came free for without their being asked about, and has them asked about again."""

    def __init__(
        self, books: Books, api: ApiServer, *, woken: Callable[[], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._books, self._api, self._woken, self._clock = books, api, woken, clock
        self._freed_at: float | None = None
        self._anybody = False
        self._some = asyncio.Event()
        books.freed.append(self.freed)

    def freed(self, silent: bool) -> None:
        """Room may have come free; `silent`: by nothing that kube-scheduler saw."""
        self._freed_at = self._freed_at or self._clock()
        self._anybody |= silent
        self._some.set()

    async def run(self) -> None:
        """Look after each release, a moment later; never returns."""
        while True:
            await self._some.wait()
            await asyncio.sleep(_ASKED_AGAIN_WITHIN)
            self._some.clear()
            for view in self.sleepers():
                await self._wake(view)

    def sleepers(self) -> list[PodView]:
        """Who would find room now and doesn't know; the books of what was freed are closed with it."""
        freed_at, anybody = self._freed_at, self._anybody
        self._freed_at, self._anybody = None, False
        if freed_at is None:
            return []
        refused = self._books.refused
        stale = [
            view
            for view in self._books.queue()
            if view.uid in refused and (anybody or freed_at - _OURS_MAY_LAG < refused[view.uid].at <= freed_at)
        ]
        fitting = (v for v in stale[:_MOST_TRIED] if isinstance(self._books.fleet.try_place(v), FleetPlacement))
        return [view for view, _ in zip(fitting, range(_MOST_WOKEN), strict=False)]

    async def _wake(self, view: PodView) -> None:
        at = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        condition = {"type": "PodScheduled", "status": "False", "lastProbeTime": at}
        body = msgspec.json.encode({"metadata": {"uid": view.uid}, "status": {"conditions": [condition]}})
        path = f"/api/v1/namespaces/{view.namespace}/pods/{view.name}/status"
        try:
            await self._api.request("PATCH", path, body, content_type=STRATEGIC_MERGE_PATCH)
            self._woken()
        except (ApiRefused, ApiUnreachable) as error:
            _log.info("%s/%s couldn't be woken: %s", view.namespace, view.name, error)
