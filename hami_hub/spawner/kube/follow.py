"""From a start's pod to its person and its books: what is told while it comes up, and what it is charged.

What a look at the pod comes to is decided in `watch`; looking is `own_pod`'s, asking why it waits `waits`'.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from ...core.cards import CardState
from ...core.language import in_english
from ...core.messages import describe_placement
from ..attempt import Attempt
from ..news import WAITING, News
from .own_pod import OwnPod
from .stage import Json
from .waits import WhyWaiting
from .watch import Patience, PodWatch
from .words import PROGRESS, sentence


class Follower:
    """Follows the pod of one start.

    Args:
        attempt: is charged for what the pod gets.
        cards: of the cluster, as they were last told of.
        whose: the server, for the log.
    """

    def __init__(
        self,
        own: OwnPod,
        attempt: Attempt,
        news: News,
        cards: Callable[[], Sequence[CardState]],
        log: logging.Logger,
        whose: str,
    ) -> None:
        self._own, self._attempt, self._news, self._cards = own, attempt, news, cards
        self._log, self._whose = log, whose

    async def until_running(self, runs: Callable[[Json], bool], waits: WhyWaiting | None, patience: Patience) -> Json:
        """The pod, as soon as it `runs`.

        Args:
            runs: whether a pod is ready to be asked for pages.
            waits: None where the GPU scheduler has no say.
            patience: when it is given up.

        Raises:
            GpuSpawnError: it won't.
            NoAnswerError: it takes too long.
        """

        def tell(key: str, text: str) -> None:
            self._tell(key, text, watch)

        watch = PodWatch(lambda: self._own.look(runs), waits.ask if waits is not None else None, tell, patience)
        return await watch.until_running()

    def runs(self) -> None:
        """It runs, whoever has seen that."""
        self._note_placed()
        self._news.tell(PROGRESS["running"], self._placed_words("has-slice") or sentence("running"))

    def _tell(self, key: str, text: str, watch: PodWatch) -> None:
        if key == "placed-plain":
            text = self._placed_words("placed") or text
        facts: dict[str, Any] = {}
        if not self._note_placed():
            self._attempt.waits(watch.place)
            facts = {"state": WAITING, "position": watch.place, "frees_at": watch.frees_at}
        if key.startswith("waits"):
            self._log.info("%s waits. %s", self._whose, in_english(text))
        self._news.tell(PROGRESS.get(key, 50), text, **facts)

    def _note_placed(self) -> bool:
        """Whether the pod has its place; then it is charged for what it got."""
        if not self._own.has_node():
            return False
        self._attempt.placed(self._own.placement())
        return True

    def _placed_words(self, key: str) -> str:
        placement = self._own.placement()
        if placement is None or not placement.shares:
            return ""
        return sentence(key, slice=describe_placement(placement, self._cards()))
