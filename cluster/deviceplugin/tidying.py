"""Removes what is left of containers that are gone, whenever the node's pods change and once a minute.  What is gone is
decided in `garbage`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from pathlib import Path

from cluster.watch import Watch

from . import library
from .garbage import Garbage, running_keys
from .library import Library
from .owner import Pod, Refused
from .pods import NodePods
from .slices import NodeSlices
from .starts import Kubelet

_log = logging.getLogger(__name__)
_LOOK_SECONDS = 60.0
_CROWD_SECONDS = 1.0


class Tidying:
    """The tidying up of one node.

    Args:
        slices: what is there.
        pods: what may still run.
        watch: of `pods`: nothing goes before their list was whole.
        kubelet: what still runs.
        library: versions that nobody mounts go too.
        garbage: decides.
    """

    def __init__(
        self,
        slices: NodeSlices,
        *,
        pods: NodePods,
        watch: Watch[Pod],
        kubelet: Kubelet,
        library: Library,
        garbage: Garbage,
    ) -> None:
        self._slices, self._pods, self._watch, self._kubelet = slices, pods, watch, kubelet
        self._library, self._garbage = library, garbage
        self._news = asyncio.Event()

    def wake(self) -> None:
        """The node's pods have changed."""
        self._news.set()

    async def run(self) -> None:
        """For as long as this isn't cancelled."""
        await self._watch.synced.wait()
        while True:
            self._news.clear()
            try:
                await self._once()
            except Refused as refusal:
                _log.info("Nothing is tidied up now. %s", refusal.text)
            except OSError as error:
                _log.warning("What is left of containers that are gone can't be removed: %s", error)
            await asyncio.sleep(_CROWD_SECONDS)  # changes come in crowds
            if not self._garbage.waiting:
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._news.wait(), _LOOK_SECONDS)

    async def _once(self) -> None:
        # An outdated list would show pods as gone whose containers have just begun.
        if (keys := self._slices.keys()) and self._watch.lost_since is None:
            running = running_keys(self._slices, await self._kubelet.assigned())
            ripe = self._garbage.ripe(keys, pods=self._pods.by_uid, running=running, now=time.monotonic())
            for key in sorted(ripe):
                self._slices.remove(key)
                _log.info("Removed what was left of %s", key)
        for path in self._remove_libraries():
            _log.info("Removed %s, which no container has mounted any more", path)

    def _remove_libraries(self) -> tuple[Path, ...]:
        return library.remove_old(self._library, mounted=self._slices.mounted())
