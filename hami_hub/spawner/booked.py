"""`Booked`: what every spawner of ours writes down, whoever starts the servers.

Who pays for a server and what is told of it in the journal (`attempt`), how long it may run (`lifetimes`), and in which
language its person is spoken to.  What happens between start and stop is `gpu_slices`'.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from datetime import timezone
from typing import Any

from traitlets import TraitError

from ..core.budgets import Asked, Budget, Cause, Refused, asked_of
from ..core.cards import Card
from ..core.history import StartState
from ..core.language import in_english, say, speaking
from ..core.lifetimes import why_over
from ..core.offers import Offer, offers_within
from ..core.profiles import Choice
from ..core.quota_words import why_refused
from ..core.slices import SliceId
from ..core.state import StateError
from ..languages import best_language, translator
from .attempt import Attempt
from .charges import limits_anything
from .config import GpuSlices
from .errors import REFUSALS, GpuSpawnError, Reason, log_without_tracebacks
from .form import Bill, BudgetLine, bills, budget_lines
from .lifetimes import until_over

_PENDING_SECONDS = 1.0
_AGAIN_SECONDS = 60.0


class Booked:
    """Keeps the books of a server: its attempt, from the wish to the end.  A part of `GpuSlicesMixin`."""

    # Spawner's
    user: Any
    name: str
    config: Any
    handler: Any
    orm_spawner: Any
    log: logging.Logger
    pending: str | None
    ready: bool
    _log_name: str
    stop: Callable[..., Awaitable[None]]
    poll_and_notify: Callable[[], Awaitable[Any]]

    _attempt: Attempt | None = None
    _language = ""
    _clock: asyncio.Task[None] | None = None
    _stopping: asyncio.Task[None] | None = None

    @property
    def slices(self) -> GpuSlices:
        """The hub's settings.

        Raises:
            GpuSpawnError: the settings are wrong.
        """
        try:
            return GpuSlices.instance(config=self.config)
        except TraitError as error:
            log_without_tracebacks(self.log)
            self.log.error("The GPU slices are set up wrongly. %s", error)
            raise GpuSpawnError(
                say("The hub's GPU profiles are set up wrongly. Ask an admin to look into the hub's log."),
                reason=Reason.SETUP,
            ) from None

    # --- in whose language --------------------------------------------------------------------------------------

    def language(self) -> str:
        """What the person reads, as gettext names it: the hub's language if it has one, else their browser's."""
        try:
            if self.slices.language:
                return self.slices.language
        except GpuSpawnError:
            pass  # it is told where it matters
        # Only while the hub serves them is there a request; what was found holds for all of a start.
        request = getattr(self.handler, "request", None)
        if request is not None:
            self._language = best_language(request.headers.get("Accept-Language"))
        return self._language or best_language(None)

    def in_their_language(self) -> AbstractContextManager[None]:
        """Have what is said inside be in the person's language."""
        return speaking(translator(self.language()))

    # --- who pays -----------------------------------------------------------------------------------------------

    def holder(self) -> SliceId:
        """Who holds the slice."""
        return SliceId(f"{self.user.name}/{self.name}")

    def group_names(self) -> list[str]:
        """The JupyterHub groups that the person is in."""
        return [group.name for group in self.user.groups]

    def budgets(self) -> tuple[Budget, ...]:
        """What could pay for the person's servers, as it is this moment."""
        return self.slices.books.charges.budgets(self._groups())

    def affordable(
        self, offers: Iterable[Offer], cards: Iterable[Card], chosen: Mapping[str, str]
    ) -> tuple[tuple[Offer, ...], tuple[BudgetLine, ...], dict[str, Bill]]:
        """`offers` as they stand for the person, the budgets that could pay for them, and each one's bill."""
        offers, budgets, known = tuple(offers), self.budgets(), tuple(cards)
        if not limits_anything(budgets):
            return offers, (), {}
        user = self.user.name
        within = offers_within(offers, budgets, user, known, self._why_refused)
        profiles = [offer.profile for offer in within if offer.profile.open_to(self.group_names())]
        return (
            within,
            budget_lines(budgets, user, chosen.get("group", "")),
            bills(profiles, budgets, user, known, self._why_refused),
        )

    def asked(self, choice: Choice, cards: Iterable[Card]) -> Asked:
        """What a choice is charged: of `cards`, the biggest counts where it names no amount."""
        return asked_of(self.user.name, str(choice.profile.name), choice.request, cards)

    def pay(self, asked: Asked, wanted: str, profile_lifetime: int | None = None) -> None:
        """Have the start paid for.  Nothing is waited for, so nobody comes in between.

        Args:
            asked: what is to be started; nobody pays for a server without a GPU.
            wanted: the group that is to pay; "": whichever has most room.
            profile_lifetime: seconds; None: the profile says nothing.

        Raises:
            GpuSpawnError: nobody does.
        """
        assert self._attempt is not None
        refused = self._attempt.pay(asked, self._groups(), wanted, profile_lifetime)
        if refused is not None:
            raise GpuSpawnError(self._why_refused(refused), reason=_REASONS[refused.cause])

    def _why_refused(self, refused: Refused) -> str:
        return why_refused(refused, now=time.time(), show_holders=self.slices.show_holders)

    def _groups(self) -> list[tuple[str, Mapping[str, Any]]]:
        """The person's groups with their properties: an edit of an admin's counts at once."""
        found = ((group.name, group.properties) for group in self.user.groups)
        return [(name, properties if isinstance(properties, Mapping) else {}) for name, properties in found]

    # --- the attempt --------------------------------------------------------------------------------------------

    def begin_attempt(self) -> Attempt:
        """A start begins.

        Raises:
            GpuSpawnError: the settings are wrong.
        """
        self._attempt = None
        self._attempt = Attempt(self.slices.books, self.user.name, self.name, self.its_pod())
        return self._attempt

    def its_pod(self) -> str:
        """Where the server is a pod: "namespace/pod", also before there is one.  Else ""."""
        return ""

    def attempt_runs(self) -> None:
        """The start is over, and went well: from now on its end is looked for."""
        if self._attempt is not None:
            self._attempt.runs()
            self._begin_clock()

    def attempt_undone(self, attempt: Attempt | None) -> None:
        """All is given back, or is being given back, that a start which came to nothing had got."""
        if attempt is not None:
            attempt.starting = False
            self._settle(attempt)

    def settle_up(self) -> None:
        """The server is gone: as soon as its slice is free nothing is charged for it.  Once is enough."""
        self._stop_clock()
        # A start that is still on its way ends by itself.
        if self._attempt is not None and not self._attempt.starting:
            self._settle(self._attempt)

    def _settle(self, attempt: Attempt) -> None:
        free = self.until_free()
        if free is None or free.done():
            attempt.over()
        else:
            free.add_done_callback(lambda _: attempt.over())

    def until_free(self) -> asyncio.Future[None] | None:
        """Done when what the server held is free; None: it is, or there was nothing."""
        return None

    # --- how long it may run ------------------------------------------------------------------------------------

    def last_used(self) -> float:
        """Unix time when anybody last used the server, as far as is known."""
        active = self.orm_spawner.last_activity if self.orm_spawner is not None else None
        # The hub's database has UTC without saying so.
        return float(active.replace(tzinfo=timezone.utc).timestamp()) if active is not None else 0.0

    def _begin_clock(self) -> None:
        self._stop_clock()
        assert self._attempt is not None
        if self._attempt.start.until is not None or self._attempt.terms.idle_timeout is not None:
            self._clock = asyncio.ensure_future(self._end_in_time(self._attempt))

    def _stop_clock(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    async def _end_in_time(self, attempt: Attempt) -> None:
        end = await until_over(attempt.start.until, attempt.terms.idle_timeout, self._last_used_in(attempt))
        terms = attempt.terms
        words = in_english(why_over(end, max_lifetime=terms.max_lifetime, idle_timeout=terms.idle_timeout))
        self.log.info("%s: %s", self._log_name, in_english(words))
        # What is stopped stops its clock, which is not to stop this.
        self._stopping, self._clock = self._clock, None
        attempt.comes_to(StartState.ENDED, end.value, words)
        # What the hub is told while it is busy with this server it forgets.
        while self.pending:  # noqa: ASYNC110  there is nothing to be woken by
            await asyncio.sleep(_PENDING_SECONDS)
        while self._attempt is attempt and self.ready:
            try:
                await self.stop()
                await self.poll_and_notify()
                return
            except Exception:
                self.log.exception("%s could not be stopped, though its time is over.", self._log_name)
            await asyncio.sleep(_AGAIN_SECONDS)

    def _last_used_in(self, attempt: Attempt) -> Any:
        started = attempt.start.started_at or 0.0
        return lambda: max(started, self.last_used())

    # --- over a restart of the hub ------------------------------------------------------------------------------

    def attempt_state(self) -> dict[str, Any]:
        """What has to be known of a running server's attempt."""
        return self._attempt.to_state() if self._attempt is not None else {}

    def restore_attempt(self, saved: Any) -> None:
        """Take up the attempt of a running server."""
        if not isinstance(saved, Mapping) or "start" not in saved:
            return  # an older version's, which charged nobody
        try:
            self._attempt = Attempt.restored(self.slices.books, self.user.name, self.name, saved, self.its_pod())
        except (StateError, GpuSpawnError) as error:
            self.log.error("What %s is charged is not known any more: %s", self._log_name, error)
            return
        self._begin_clock()


def note_failure(attempt: Attempt, error: BaseException) -> None:
    """A start comes to nothing; `error` is in words if it was to be foreseen."""
    if isinstance(error, asyncio.CancelledError):
        attempt.comes_to(StartState.CANCELLED)
    elif isinstance(error, GpuSpawnError):
        refused = not attempt.accepted and error.reason in REFUSALS
        state = StartState.REFUSED if refused else StartState.FAILED
        attempt.comes_to(state, error.reason, in_english(error.jupyterhub_message))
    else:
        attempt.comes_to(StartState.FAILED, "hami-error", type(error).__name__)


_REASONS = {
    Cause.FAULT: Reason.QUOTA_FAULT,
    Cause.NOT_YOURS: Reason.NOT_ALLOWED,
    Cause.PROFILE: Reason.NOT_ALLOWED,
    Cause.SIZE_UNKNOWN: Reason.OVER_QUOTA,
    Cause.LIMIT: Reason.OVER_QUOTA,
}
