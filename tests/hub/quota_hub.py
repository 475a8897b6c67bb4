"""What the tests of quotas read of a real hub besides what it answers: the journal."""

from __future__ import annotations

import time
from collections.abc import Callable

from hub_process import Hub

from hami_hub.core.history import Start
from hami_hub.journal import JournalError, Reader


class QuotaHub(Hub):
    """A hub, and its journal."""

    def journal(self, until: Callable[[list[Start]], bool] = lambda starts: True, *, since: float = 0.0) -> list[Start]:
        """The journal's starts that were asked for `since`, oldest first, as soon as `until` holds of them."""
        reader = Reader(f"sqlite:///{self.folder}/hami-hub.sqlite")
        found: list[Start] = []

        def holds() -> bool:
            try:
                found[:] = [each for each in reversed(reader.starts(0, time.time() + 60)) if each.asked_at >= since]
            except JournalError:
                found.clear()
            return until(found)

        self._until(holds, lambda: f"The journal has {found}")
        return found
