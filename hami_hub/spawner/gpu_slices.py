"""`GpuSlicesMixin`: what every spawner of ours does, over whichever spawner starts the servers.

It asks what the person wants (`form`), judges it (`core.profiles`), starts the server on a slice, tells what goes on
meanwhile, and says in words why something could not be had.  Where slices come from is for its two halves to say:
`machine` gives them itself, `kube` asks a cluster for them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

from jupyterhub.spawner import Spawner
from traitlets import TraitError, default

from ..core.profiles import Choice, ChoiceError, choose
from ..core.slices import SliceId
from .answering import NoAnswerError, until_answering
from .config import GpuSlices
from .errors import GpuSpawnError, Reason, uncount
from .form import FormContext, parse_form, render_form
from .news import News

STATE = "hami"
_POLL_SECONDS = 1.0
_SPARE_SECONDS = 30  # the hub's own deadline never comes before ours, which has words


class GpuSlicesMixin(Spawner):  # type: ignore[misc]
    """Starts each server on its slice.  Put one of its halves before the spawner's class."""

    start_timeout: int  # seconds, Spawner's

    own_start_timeout = 0  # what the admin set it to
    _news: News | None = None
    _unfinished = False  # the hub died while it started
    _choosing = False  # from the beginning of a start until the spawner's own
    _stretched: int | None = None
    _undoing: asyncio.Future[None] | None = None

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
            f"Your server ended while it was starting (exit status {status}). Start it again; "
            "if that doesn't help, ask an admin to look into the hub's log.",
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

    @property
    def slices(self) -> GpuSlices:
        """The hub's settings.

        Raises:
            GpuSpawnError: the settings are wrong.
        """
        try:
            return GpuSlices.instance(config=self.config)
        except TraitError as error:
            self.log.error("The GPU slices are set up wrongly. %s", error)
            raise GpuSpawnError(
                "The hub's GPU profiles are set up wrongly. Ask an admin to look into the hub's log.",
                reason=Reason.SETUP,
            ) from None

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
        plain = {key: values[0] for key, values in query_data.items() if key in ("vram", "cores") and values}
        return {**parse_form(query_data), **plain}

    async def _slices_form(self) -> str:
        try:
            return render_form(await self.whats_on_offer())
        except GpuSpawnError as error:
            return f'<div class="alert alert-warning" role="alert">{error.jupyterhub_html_message}</div>'

    def last_choice(self) -> dict[str, str]:
        """The options of the last start, as the form shows them; they may be stale."""
        chosen = self.user_options if isinstance(self.user_options, dict) else {}
        return {str(key): str(value) for key, value in chosen.items() if value is not None}

    def group_names(self) -> list[str]:
        """The JupyterHub groups that the person is in."""
        return [group.name for group in self.user.groups]

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
        self._choosing, self._unfinished = True, False
        try:
            await self.get_slice(news)
            self._choosing = False
            url = await self.start_on_slice(news)
            self.server_runs()
            return url
        except asyncio.CancelledError:
            self._choosing = False
            # The hub gives a cancelled start a second to end, then takes the server for a running one.
            self._undoing = asyncio.ensure_future(self._undo())
            raise
        except Exception as error:
            self._choosing = False
            explained = self.explain(error)
            self._undoing = asyncio.ensure_future(self._undo())
            await asyncio.shield(self._undoing)
            if isinstance(explained, GpuSpawnError) and self.handler is not None:
                uncount(self.handler.settings)
            if explained is error:
                raise
            raise explained from None
        finally:
            news.close()

    def chosen(self) -> Choice:
        """What the person's options come to.

        Raises:
            ChoiceError: they can't be granted.
        """
        options = self.user_options
        if not isinstance(options, dict):
            raise ChoiceError('The options of a server are a dictionary like {"profile": "cpu"}.', reason="bad-option")
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

    async def poll(self) -> int | None:
        """None while the server runs, or waits for room."""
        if self._choosing:
            return None
        if self._unfinished:
            return 1
        status: int | None = await super().poll()
        return status

    async def _undo(self) -> None:
        try:
            await self.end_start()
        except Exception:
            self.log.exception("Stopping the server of %s, which did not start, failed.", self._log_name)
        await self.give_back()

    # --- over a restart of the hub ------------------------------------------------------------------------------

    def get_state(self) -> dict[str, Any]:
        """The spawner's own state, and the slice."""
        return {**super().get_state(), STATE: self.slice_state()}

    def load_state(self, state: dict[str, Any]) -> None:
        """Take up a server that ran on while the hub was away, with its slice."""
        super().load_state(state)
        if self.orm_spawner is None or self.orm_spawner.server is None:
            return  # what is saved of a server that has been stopped since is nobody's slice
        if state and STATE not in state:
            return  # started before this spawner was the hub's
        # State is kept when a start is over.  What runs of one that was not is ended.
        self._unfinished = not state or state[STATE] is None
        if not self._unfinished:
            self.restore_slice(state[STATE])

    # --- small things -------------------------------------------------------------------------------------------

    async def progress(self) -> AsyncIterator[dict[str, Any]]:
        """What the person is told while the server starts."""
        if self._news is not None:
            async for message in self._news.follow():
                yield message

    def holder(self) -> SliceId:
        """Who holds the slice."""
        return SliceId(f"{self.user.name}/{self.name}")

    def explain(self, error: BaseException) -> BaseException:
        """`error` in words for the person, if it was to be foreseen."""
        if isinstance(error, ChoiceError):
            return GpuSpawnError(str(error), reason=Reason(f"hami-{error.reason}"))
        if isinstance(error, NoAnswerError):
            return GpuSpawnError(str(error), reason=Reason.SERVER_SILENT)
        return error


def too_slow(seconds: float, doing: str = "") -> NoAnswerError:
    """A server did not start in time; `doing` is a sentence about what it was busy with, if that is known."""
    return NoAnswerError(
        f"Your server did not start within {seconds:g} seconds.{f' {doing}' if doing else ''} Start it again; "
        "if that doesn't help, ask an admin to look into the hub's log."
    )
