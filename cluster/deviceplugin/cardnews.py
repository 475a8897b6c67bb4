"""What the cards' thread saw, taken into the event loop: health follows, and is told."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping

from hami_hub.core.units import Mib

from .health import NodeCards, Reading
from .slices import NodeSlices
from .usage import Suspicion, read_uses, unaccounted

_log = logging.getLogger(__name__)


class CardNews:
    """The cards' thread calls this; everything happens in the loop that it was made in.

    Args:
        cards: what follows is kept there.
        slices: what answers for memory in use.
        threshold: MiB of a card with no slice that answers for them, from which on they are told.
        changed: called after each look and each error.
        tell: an event: reason, text, whether it is a warning.
        count_xid: called for each XID.

    Attributes:
        problem: why no cards are known; "" as soon as some are.
        unaccounted: MiB of each card that no slice answers for.
    """

    def __init__(
        self,
        cards: NodeCards,
        slices: NodeSlices,
        *,
        threshold: int,
        changed: Callable[[], None],
        tell: Callable[[str, str, bool], None],
        count_xid: Callable[[str, int], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._cards, self._slices, self._suspicion = cards, slices, Suspicion(threshold)
        self._changed, self._tell, self._count_xid = changed, tell, count_xid
        self.problem = "The cards of this node were not asked for yet."
        self.unaccounted: Mapping[str, Mib] = {}

    def readings(self, readings: tuple[Reading, ...]) -> None:
        """See `nvml.CardSink`."""
        self._soon(lambda: self._take(readings))

    def xid(self, uuid: str, code: int) -> None:
        """See `nvml.CardSink`."""
        self._soon(lambda: self._take_xid(uuid, code))

    def no_cards(self, why: str) -> None:
        """See `nvml.CardSink`."""
        self._soon(lambda: self._take((), why))

    def _take(self, readings: tuple[Reading, ...], why: str = "NVML lists no card on this node.") -> None:
        problem = "" if readings else why
        if problem and problem != self.problem:
            _log.warning("%s", problem)
        self.problem = problem
        before = self._cards.ill()
        self._cards.see(readings, time.monotonic())
        self._tell_changes(before)
        self.unaccounted = unaccounted(self._cards.conditions, read_uses(self._slices))
        for text in self._suspicion.see(self.unaccounted):
            self._tell("UnaccountedMemory", text, True)
        self._changed()

    def _take_xid(self, uuid: str, code: int) -> None:
        self._count_xid(uuid, code)
        before = self._cards.ill()
        if self._cards.xid(uuid, code, time.monotonic()):
            self._tell_changes(before)
            self._changed()

    def _tell_changes(self, before: Mapping[str, str]) -> None:
        after = self._cards.ill()
        for uuid in sorted(after.keys() - before.keys()):
            self._tell(
                "CardOutOfOrder",
                f"The card {uuid} takes no new slices: {after[uuid]}. Slices that run on it are left alone. "
                "It is tried again.",
                True,
            )
        for uuid in sorted(before.keys() - after.keys()):
            self._tell("CardRecovered", f"The card {uuid} takes slices again.", False)

    def _soon(self, work: Callable[[], None]) -> None:
        # The thread outlives the loop by a moment when the plugin ends.
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(work)
