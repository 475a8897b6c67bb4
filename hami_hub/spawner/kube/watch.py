"""Following a pod from its creation until its server runs, or can't any more; whoever waits is told what goes on.

What a pod's state means is `stage`'s; what is done when it is over is `spawner`'s.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from ...core.line import Frees, with_frees
from ...core.messages import in_line
from ..errors import GpuSpawnError, Reason
from ..gpu_slices import too_slow
from .cluster import Waiting
from .stage import Json, Stage, stage_of
from .words import reason_of, sentence

# Looking is free: the hub is sent every change of its pods and keeps them in memory.
_LOOK_SECONDS = 0.2
_ASK_SECONDS = 1.0
# A pod that the API server has made but never shows.
_UNSEEN_SECONDS = 15.0
# Patience of none: the scheduler may still have so long for its first answer.
_FIRST_ANSWER_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Seen:
    """What is known of the pod.

    Attributes:
        created: the API server has made it.
        pod: None: not made yet, not seen yet, or gone.
        running: it is ready to be asked for pages.
    """

    created: bool
    pod: Json | None = None
    events: Sequence[Json] = ()
    running: bool = False


@dataclass(frozen=True, slots=True)
class Patience:
    """In seconds: for a place, for the start once it has one, and for both."""

    wait: float
    start: float
    total: float


class PodNeverSeenError(GpuSpawnError):
    """The hub's view of the cluster is stuck: a pod that was made doesn't show in it."""

    def __init__(self) -> None:
        super().__init__(sentence("never-seen"), reason=reason_of("never-seen"))


class PodWatch:
    """Follows one pod.

    Args:
        look: what is known now.
        ask: why the pod waits; None where nobody has a say.
        tell: called with a key of `words.SENTENCES` and a sentence, at first and whenever it changes.
    """

    def __init__(
        self,
        look: Callable[[], Seen],
        ask: Callable[[], Awaitable[Waiting | None]] | None,
        tell: Callable[[str, str], None],
        patience: Patience,
    ) -> None:
        self._look, self._ask, self._tell, self._patience = look, ask, tell, patience
        self._begun = self._now()
        self._created = self._placed = 0.0
        self._was_there = False
        self._told = ""
        self._told_of: tuple[str, Frees | None] = "", None
        self._asking: asyncio.Task[Waiting | None] | None = None
        self._ask_next = 0.0
        self._said: Waiting | None = None

    @property
    def place(self) -> int:
        """In the scheduler's queue, from 1; 0: not known."""
        return self._said.place if self._said is not None else 0

    @property
    def frees_at(self) -> float | None:
        """Unix time by which a slice comes free that would help; None: nobody knows."""
        return self._said.frees.until if self._said is not None and self._said.frees is not None else None

    async def until_running(self) -> Json:
        """The pod, as soon as it runs.

        Raises:
            GpuSpawnError: it won't.
            NoAnswerError: it takes too long.
        """
        try:
            while True:
                seen = self._look()
                if seen.pod is not None and seen.running:
                    return seen.pod
                self._judge(seen)
                await asyncio.sleep(_LOOK_SECONDS)
        finally:
            if self._asking is not None:
                self._asking.cancel()

    def _judge(self, seen: Seen) -> None:
        now = self._now()
        if now - self._begun > self._patience.total:
            raise too_slow(self._patience.total, self._told)
        if not seen.created:
            return
        self._created = self._created or now
        if seen.pod is None:
            if self._was_there:
                raise over(Stage("deleted", over=True))
            if now - self._created > _UNSEEN_SECONDS:
                raise PodNeverSeenError
            return
        self._was_there = True
        stage = stage_of(seen.pod, seen.events)
        if stage.over:
            raise over(stage)
        if stage.placed:
            self._judge_start(stage)
        else:
            self._judge_wait(stage)

    def _judge_start(self, stage: Stage) -> None:
        self._placed = self._placed or self._now()
        if self._now() - self._placed > self._patience.start:
            raise too_slow(self._patience.start, stage.text)
        self._say(stage.key, stage.text)

    def _judge_wait(self, stage: Stage) -> None:
        self._ask_the_scheduler()
        said = self._said
        if said is not None and said.never:
            raise GpuSpawnError(said.reason or stage.text, reason=Reason.NEVER_FITS)
        text = stage.text
        if said is not None and said.reason:
            text = in_line(said.place, said.reason) if said.place else said.reason
        waited = self._now() - self._created
        answered = stage.key != "looking-for-place" or said is not None
        if waited > self._patience.wait and (answered or waited > _FIRST_ANSWER_SECONDS):
            why = stage.values.get("why", stage.text)
            if said is not None and said.reason:
                why = with_frees(said.reason, said.frees, time.time())
            raise over(Stage("no-place", {"seconds": f"{self._patience.wait:g}", "why": why}, over=True))
        self._say(stage.key, text, said.frees if said is not None else None)

    def _ask_the_scheduler(self) -> None:
        if self._asking is not None and self._asking.done():
            self._said = self._asking.result()
            self._asking = None
        if self._ask is not None and self._asking is None and self._now() >= self._ask_next:
            self._ask_next = self._now() + _ASK_SECONDS
            self._asking = asyncio.ensure_future(self._ask())

    def _say(self, key: str, text: str, frees: Frees | None = None) -> None:
        # That time goes by is no news.
        if (text, frees) != self._told_of:
            self._told_of = text, frees
            self._told = with_frees(text, frees, time.time())
            self._tell(key, self._told)

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


def over(stage: Stage) -> GpuSpawnError:
    """The error that says so."""
    return GpuSpawnError(stage.text, reason=reason_of(stage.key))
