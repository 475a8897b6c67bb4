"""`GpuSlicesMixin`: what every spawner of ours does, over whichever spawner starts the servers.

It asks what the person wants (`form`), judges it (`core.profiles`), starts the server on a slice, tells what goes on
meanwhile, and says in words why something could not be had.  Who pays, and what is written down of it, is `booked`'s.
Where slices come from is for its two halves to say: `machine` gives them itself, `kube` asks a cluster for them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

from jupyterhub.spawner import Spawner
from jupyterhub.utils import maybe_future
from traitlets import default

from ..core.language import say
from ..core.profiles import Choice, ChoiceError, choose, not_options
from .answering import NoAnswerError, until_answering
from .attempt import Attempt
from .booked import Booked, note_failure
from .cancelling import cancel_url
from .errors import GpuSpawnError, Reason, uncount
from .form import FormContext, ShowForm, parse_form, read_link, render_form
from .form.waiting import WaitingView, waiting_view
from .news import News

STATE = "hami"
_POLL_SECONDS = 1.0
_BEGIN_SECONDS = 0.1
_SPARE_SECONDS = 30  # the hub's own deadline never comes before ours, which has words


class GpuSlicesMixin(Booked, Spawner):  # type: ignore[misc]
    """Starts each server on its slice.  Put one of its halves before the spawner's class."""

    start_timeout: int  # seconds, Spawner's

    own_start_timeout = 0  # what the admin set it to
    _news: News | None = None
    _unfinished = False  # the hub died while it started
    _choosing = False  # from the beginning of a start until the spawner's own
    _stretched: int | None = None
    _undoing: asyncio.Future[None] | None = None
    _linked: dict[str, str] | None = None  # what a link picks, until the form has shown it

    # --- for the halves -----------------------------------------------------------------------------------------

    async def whats_on_offer(self) -> FormContext:
        """What the form is made from, for this person, now.

        Raises:
            GpuSpawnError: nothing can be offered.
        """
        raise NotImplementedError

    async def get_slice(self, news: News) -> None:
        """See to it that what was `chosen` can be had, waiting for it if that has to come before the server.

        Raises:
            Exception: it can't be; see `explain`.
        """
        raise NotImplementedError

    async def start_on_slice(self, news: News) -> Any:
        """Start the server on the slice; return its URL when it answers."""
        raise NotImplementedError

    def server_runs(self) -> None:
        """The start is over, and went well."""

    async def end_start(self) -> None:
        """Leave nothing running of a start that came to nothing."""

    async def give_back(self) -> None:
        """Give back what the server, which is gone, held."""

    async def server_ended(self) -> None:
        """Return when the server has ended."""
        while await self.their_poll() is None:  # noqa: ASYNC110  there is nothing to be woken by
            await asyncio.sleep(_POLL_SECONDS)

    async def exit_status(self) -> object:
        """What the server, which has ended, ended with."""
        return await self.their_poll()

    def why_ended(self, status: object) -> GpuSpawnError:
        """What to tell the person whose server ended while it started."""
        return GpuSpawnError(
            say(
                "Your server ended while it was starting ({status}). Start it again; "
                "if that doesn't help, ask an admin to look into the hub's log.",
                status=say("exit status {code}", code=status),
            ),
            reason=Reason.SERVER_ENDED,
        )

    def slice_state(self) -> dict[str, Any] | None:
        """What has to be known of a running server's slice after a restart of the hub; None: nothing runs."""
        raise NotImplementedError

    def restore_slice(self, saved: Any) -> None:
        """Take up the slice of a running server from what `slice_state` said, perhaps in another version."""
        raise NotImplementedError

    # --- the spawner below, for the halves: their own `super()` is this class --------------------------------------

    def their_start(self) -> Awaitable[Any]:
        """The spawner's own start."""
        started: Awaitable[Any] = super().start()
        return started

    async def their_poll(self) -> int | None:
        """The spawner's own poll."""
        status: int | None = await super().poll()
        return status

    async def their_stop(self, *, now: bool) -> None:
        """The spawner's own stop."""
        await super().stop(now)

    # --- what is offered ----------------------------------------------------------------------------------------

    @default("options_form")
    def _default_options_form(self) -> Any:
        return type(self)._slices_form

    @default("options_from_form")
    def _default_options_from_form(self) -> Callable[..., dict[str, str]]:
        return parse_form

    @default("apply_user_options")
    def _default_apply_user_options(self) -> Callable[[Spawner, dict[str, Any]], None]:
        # They are judged and used in `start`; without this the hub warns that nobody does.
        return lambda spawner, user_options: None

    def options_from_query(self, query_data: Mapping[str, list[str]]) -> dict[str, str]:
        """What a link like /hub/spawn?opt-profile=gpu-other&opt-vram=3GiB asks for."""
        link = read_link(query_data)
        if not link.starts:
            self._linked = link.options
            raise ShowForm
        return link.options

    async def _slices_form(self) -> str:
        with self.in_their_language():
            try:
                context = await self.whats_on_offer()
                linked, self._linked = self._linked, None
                return render_form(replace(context, language=self.language(), linked=bool(linked)))
            except GpuSpawnError as error:
                return f'<div class="alert alert-warning" role="alert">{error.jupyterhub_html_message}</div>'

    def last_choice(self) -> dict[str, str]:
        """What a link picks, else the options of the last start, as the form shows them; they may be stale."""
        if self._linked:
            return self._linked
        chosen = self.user_options if isinstance(self.user_options, dict) else {}
        return {str(key): str(value) for key, value in chosen.items() if value is not None}

    # --- from start to stop -------------------------------------------------------------------------------------

    def start(self) -> Any:
        """Start the server on a slice, waiting for room if need be."""
        if self.start_timeout != self._stretched:
            self.own_start_timeout = self.start_timeout
        with contextlib.suppress(GpuSpawnError):
            # The hub reads it when this has returned.  Waiting for room and for the first answer come on top.
            more = self.slices.wait_timeout + self.http_timeout + _SPARE_SECONDS
            self.start_timeout = self._stretched = int(self.own_start_timeout + more)
        self._news = News()
        return self._start_or_explain(self._news)

    async def _start_or_explain(self, news: News) -> Any:
        # Whoever asks for the server is spoken to in their language, in all that is begun from here.
        with self.in_their_language():
            return await self._start_attempt(news)

    async def _start_attempt(self, news: News) -> Any:
        self._choosing, self._unfinished = True, False
        attempt = None
        try:
            attempt = self.begin_attempt()
            await self.get_slice(news)
            self._choosing = False
            url = await self.start_on_slice(news)
            self.attempt_runs()
            self.server_runs()
            return url
        except asyncio.CancelledError as error:
            self._choosing = False
            self._came_to_nothing(attempt, error)
            # The hub gives a cancelled start a second to end, then takes the server for a running one.
            raise
        except Exception as error:
            self._choosing = False
            explained = self.explain(error)
            await asyncio.shield(self._came_to_nothing(attempt, explained))
            if isinstance(explained, GpuSpawnError):
                uncount(self)
            if explained is error:
                raise
            raise explained from None
        finally:
            news.close()

    def _came_to_nothing(self, attempt: Attempt | None, why: BaseException) -> asyncio.Future[None]:
        if attempt is not None:
            note_failure(attempt, why)
        self._undoing = asyncio.ensure_future(self._undo(attempt))
        return self._undoing

    def chosen(self) -> Choice:
        """What the person's options come to.

        Raises:
            ChoiceError: they can't be granted.
        """
        options = self.user_options
        if not isinstance(options, dict):
            raise ChoiceError(not_options(), reason="bad-option")
        return choose(self.slices.offered, options, self.group_names())

    async def until_serving(self, url: Any) -> None:
        """Return when the server at `url` answers.

        Raises:
            GpuSpawnError: it ended before.
            NoAnswerError: it takes too long.
        """
        ended = asyncio.ensure_future(self.server_ended())
        answer = asyncio.ensure_future(until_answering(url, self._base_url(), timeout=self.http_timeout))
        try:
            await asyncio.wait({ended, answer}, return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                raise self.why_ended(await self.exit_status())
            answer.result()
        finally:
            ended.cancel()
            answer.cancel()

    def _base_url(self) -> str | None:
        # With certificates of the hub's own only the hub can ask.
        return self.server.base_url if self.server and not self.internal_ssl else None

    async def stop(self, now: bool = False) -> None:
        """Stop the server, and give its slice back."""
        self._choosing = False
        try:
            await super().stop(now)
        finally:
            await self.give_back()
        # What could not be stopped is charged until it is gone: then the hub has its state cleared.
        self.settle_up()

    async def poll(self) -> int | None:
        """None while the server runs, or waits for room."""
        if self._choosing:
            return None
        if self._unfinished:
            return 1
        status: int | None = await super().poll()
        return status

    def add_poll_callback(self, callback: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        """Have the hub told of the server's end, and again at its next poll if that fails: it asks no more then."""

        async def tell() -> None:
            if self.server is None:
                return  # it knows
            try:
                await maybe_future(callback(*args, **kwargs))
            except Exception:
                if self.server is not None:
                    self.add_poll_callback(callback, *args, **kwargs)
                    self.start_polling()
                raise

        super().add_poll_callback(tell)

    async def _undo(self, attempt: Attempt | None) -> None:
        try:
            await self.end_start()
        except Exception:
            self.log.exception("Stopping the server of %s, which did not start, failed.", self._log_name)
        try:
            await self.give_back()
        finally:
            self.attempt_undone(attempt)

    # --- over a restart of the hub ------------------------------------------------------------------------------

    def get_state(self) -> dict[str, Any]:
        """The spawner's own state, and the slice with who pays for it."""
        ours = self.slice_state()
        return {**super().get_state(), STATE: None if ours is None else {**ours, **self.attempt_state()}}

    def load_state(self, state: dict[str, Any]) -> None:
        """Take up a server that ran on while the hub was away, with its slice."""
        super().load_state(state)
        if self.orm_spawner is None or self.orm_spawner.server is None:
            return  # what is saved of a server that has been stopped since is nobody's slice
        with contextlib.suppress(GpuSpawnError):  # wrong settings are told at each start
            self.clear_up()
        if state and STATE not in state:
            return  # started before this spawner was the hub's
        # State is kept when a start is over.  What runs of one that was not is ended.
        self._unfinished = not state or state[STATE] is None
        if not self._unfinished:
            self.restore_attempt(state[STATE])
            self.restore_slice(state[STATE])

    def clear_up(self) -> None:
        """Have what an earlier hub left open closed, also where none of it runs on and nobody starts anything."""
        _ = self.slices.books

    def clear_state(self) -> None:
        """Forget the server; it is gone."""
        super().clear_state()
        self.settle_up()

    # --- small things -------------------------------------------------------------------------------------------

    async def progress(self) -> AsyncIterator[dict[str, Any]]:
        """What the person is told while the server starts."""
        # A page may come before `start`: an admin's hooks come before that too.
        while self._news is None:  # noqa: ASYNC110  there is nothing to be woken by
            await asyncio.sleep(_BEGIN_SECONDS)
        async for message in self._news.follow():
            yield message

    def waiting_page(self) -> WaitingView:
        """What the page of a start that takes a while shows."""
        with self.in_their_language():
            return waiting_view(self._news, self.language(), cancel_url(self.handler, self.user, self.name))

    def explain(self, error: BaseException) -> BaseException:
        """`error` in words for the person, if it was to be foreseen."""
        if isinstance(error, ChoiceError):
            return GpuSpawnError(str(error), reason=Reason(f"hami-{error.reason}"))
        if isinstance(error, NoAnswerError):
            return GpuSpawnError(str(error), reason=Reason.SERVER_SILENT)
        return error


def too_slow(seconds: float, doing: str = "") -> NoAnswerError:
    """A server did not start in time; `doing` is a sentence about what it was busy with, if that is known."""
    if doing:
        return NoAnswerError(
            say(
                "Your server did not start within {seconds} seconds. {doing} Start it again; if that doesn't help, ask "
                "an admin to look into the hub's log.",
                seconds=f"{seconds:g}",
                doing=doing,
            )
        )
    return NoAnswerError(
        say(
            "Your server did not start within {seconds} seconds. Start it again; if that doesn't help, ask an admin to "
            "look into the hub's log.",
            seconds=f"{seconds:g}",
        )
    )
