"""`GpuSlicesMixin`: what every spawner of ours does, over whichever spawner starts the servers.

It asks what the person wants (`form`), judges it (`core.profiles`), gets a slice or waits for one (`allocator`), starts
the server on it and gives the slice back when the server is gone, however that came.  How a server meets its slice,
and how its end is noticed, is for the small classes in `local` and `systemd` to say.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from jupyterhub.spawner import Spawner
from traitlets import TraitError, default

from ..core.profiles import Choice, ChoiceError, choose
from ..core.slices import SliceId
from ..core.state import StateError, placement_from_json, placement_to_json
from ..native import NativeMissingError
from . import processes
from .allocator import NoRoomError, PlacedSlice
from .answering import NoAnswerError, until_answering
from .config import GpuSlices
from .environment import slice_environment
from .errors import GpuSpawnError, Reason, uncount
from .form import FormContext, parse_form, render_form
from .leftovers import note_server
from .news import News
from .processes import ProcessMark
from .slice_root import SliceRootError

_STATE = "hami"
_POLL_SECONDS = 1.0
_SPARE_SECONDS = 30  # the hub's own deadline never comes before ours, which has words


class GpuSlicesMixin(Spawner):  # type: ignore[misc]
    """Starts each server on its slice.  Put it before the spawner's class: `class Mine(GpuSlicesMixin, Theirs)`."""

    start_timeout: int  # seconds, Spawner's

    _placed: PlacedSlice | None = None
    _news: News | None = None
    _unfinished = False  # the hub died while it started
    _choosing = False  # from the beginning of a start until the spawner's own
    _server_process: ProcessMark | None = None
    _own_start_timeout = 0
    _stretched: int | None = None
    _watch: asyncio.Task[None] | None = None
    _undoing: asyncio.Future[None] | None = None
    _giving_back: asyncio.Future[None] | None = None

    # --- for subclasses -----------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """What has to be done before a slice is asked for.

        Raises:
            GpuSpawnError: it can't be, so the server isn't started.
        """

    def tenant(self) -> tuple[int, int] | None:
        """Uid and gid that the server's processes have; None: the hub's own.

        Raises:
            GpuSpawnError: the person has no account here.
        """
        return None

    def preload(self) -> Path | None:
        """The limiter, for LD_PRELOAD; None if it is preloaded otherwise."""
        return self.slices.limiter()

    def slice_directory(self, placed: PlacedSlice) -> Path:
        """The slice directory as the server sees it."""
        return placed.directory

    async def find_server(self) -> ProcessMark | None:
        """The server's process, once it runs; None: its end is noticed by asking `poll`."""
        return None

    async def end_server(self) -> None:
        """End what the spawner's own `stop` leaves, before the slice is given back."""

    async def exit_status(self) -> object:
        """What the server, which has ended, ended with."""
        return await super().poll()

    def why_ended(self, status: object) -> GpuSpawnError:
        """What to tell the person whose server ended while it started."""
        return GpuSpawnError(
            f"Your server ended while it was starting (exit status {status}). Start it again; "
            "if that doesn't help, ask an admin to look into the hub's log.",
            reason=Reason.SERVER_ENDED,
        )

    # --- what is offered ----------------------------------------------------------------------------------------

    @property
    def slices(self) -> GpuSlices:
        """The hub's settings and allocator.

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
    def _default_options_form(self) -> Callable[[Spawner], Any]:
        return type(self)._render_options_form

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

    async def _render_options_form(self) -> str:
        try:
            slices, allocator = self.slices, self.slices.allocator
        except GpuSpawnError as error:
            return f'<div class="alert alert-warning" role="alert">{error.jupyterhub_html_message}</div>'
        await allocator.refresh()
        chosen = self.user_options if isinstance(self.user_options, dict) else {}
        return render_form(
            FormContext(
                cards=allocator.states_for_newcomer,
                offers=allocator.offers(slices.offered, self._groups()),
                chosen={str(key): str(value) for key, value in chosen.items() if value is not None},
                problem=slices.setup_problem() or allocator.problem,
            )
        )

    def _groups(self) -> list[str]:
        return [group.name for group in self.user.groups]

    # --- from start to stop -------------------------------------------------------------------------------------

    def start(self) -> Any:
        """Start the server on a slice, waiting for room if need be."""
        if self.start_timeout != self._stretched:
            self._own_start_timeout = self.start_timeout
        with contextlib.suppress(GpuSpawnError):
            # The hub reads it when this has returned.  Waiting for room and for the first answer come on top.
            more = self.slices.wait_timeout + self.http_timeout + _SPARE_SECONDS
            self.start_timeout = self._stretched = int(self._own_start_timeout + more)
        self._news = News()
        return self._start_or_explain(self._news)

    async def _start_or_explain(self, news: News) -> Any:
        self._choosing, self._unfinished = True, False
        try:
            self._placed = await self._get_slice(news)
            self._choosing = False
            url = await self._start_on_slice()
            self._start_watching()
            return url
        except asyncio.CancelledError:
            self._choosing = False
            # The hub gives a cancelled start a second to end, then takes the server for a running one.
            self._undoing = asyncio.ensure_future(self._undo())
            raise
        except Exception as error:
            self._choosing = False
            self._undoing = asyncio.ensure_future(self._undo())
            await asyncio.shield(self._undoing)
            explained = self.explain(error)
            if isinstance(explained, GpuSpawnError) and self.handler is not None:
                uncount(self.handler.settings)
            if explained is error:
                raise
            raise explained from None
        finally:
            news.close()

    async def _get_slice(self, news: News) -> PlacedSlice:
        slices, choice = self.slices, self._choose()
        slices.limiter()  # without it a server would have the whole card
        self.prepare()

        def tell(words: str) -> None:
            self.log.info("%s waits for a slice. %s", self._log_name, words)
            news.tell(10, words)

        placed = await slices.allocator.acquire(
            self._holder(), choice.request, tenant=self.tenant(), patience=slices.wait_timeout, on_wait=tell
        )
        given = slices.allocator.describe(placed)
        self.log.info("%s gets %s.", self._log_name, given or "no GPU")
        news.tell(50, f"You have {given}. Your server is starting." if given else "Your server is starting.")
        return placed

    def _choose(self) -> Choice:
        options = self.user_options
        if not isinstance(options, dict):
            raise ChoiceError('The options of a server are a dictionary like {"profile": "cpu"}.', reason="bad-option")
        return choose(self.slices.offered, options, self._groups())

    async def _start_on_slice(self) -> Any:
        url = await _within(self._own_start_timeout, super().start())
        self._server_process = await self.find_server()
        if self._server_process is not None and self._placed is not None:
            note_server(self._placed.directory, self._server_process)
        ended = asyncio.ensure_future(self._server_ended())
        answer = asyncio.ensure_future(until_answering(url, self._base_url(), timeout=self.http_timeout))
        try:
            await asyncio.wait({ended, answer}, return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                raise self.why_ended(await self.exit_status())
            answer.result()
        finally:
            ended.cancel()
            answer.cancel()
        return url

    def _base_url(self) -> str | None:
        # With certificates of the hub's own only the hub can ask.
        return self.server.base_url if self.server and not self.internal_ssl else None

    async def stop(self, now: bool = False) -> None:
        """Stop the server, end what it leaves behind, and give its slice back."""
        self._stop_watching()
        self._choosing = False
        try:
            await super().stop(now)
        finally:
            await self._release()

    async def poll(self) -> int | None:
        """None while the server runs, or waits for room."""
        if self._choosing:
            return None
        if self._unfinished:
            return 1
        status: int | None = await super().poll()
        return status

    async def _undo(self) -> None:
        """Leave nothing of a start that came to nothing."""
        self._stop_watching()
        if self._placed is not None:
            try:
                if await super().poll() is None:
                    await super().stop(now=True)
            except Exception:
                self.log.exception("Stopping the server of %s, which did not start, failed.", self._log_name)
        await self._release()

    async def _release(self) -> None:
        """Give the slice back, and return when it is free.  That goes on if whoever waits here is cancelled."""
        self._begin_release()
        if self._giving_back is not None:
            await asyncio.shield(self._giving_back)

    def _begin_release(self) -> None:
        placed, self._placed = self._placed, None
        if placed is not None:
            self._giving_back = self.slices.allocator.release(placed, self.end_server)

    # --- noticing a server's end --------------------------------------------------------------------------------

    async def _server_ended(self) -> None:
        if self._server_process is not None:
            await processes.ended(self._server_process)
            return
        while await super().poll() is None:  # noqa: ASYNC110  there is nothing to be woken by
            await asyncio.sleep(_POLL_SECONDS)

    def _start_watching(self) -> None:
        self._stop_watching()
        self._watch = asyncio.ensure_future(self._watch_server())

    def _stop_watching(self) -> None:
        if self._watch is not None and self._watch is not asyncio.current_task():
            self._watch.cancel()
        self._watch = None

    async def _watch_server(self) -> None:
        """The hub asks every 30 seconds whether a server still runs; whoever waits for its slice should not."""
        await self._server_ended()
        self.log.info("The server of %s has ended.", self._log_name)
        self._begin_release()
        # What the hub is told while it is busy with this server it forgets.
        while self.pending:  # noqa: ASYNC110  there is nothing to be woken by
            await asyncio.sleep(_POLL_SECONDS)
        if self.ready:
            await self.poll_and_notify()

    # --- over a restart of the hub ------------------------------------------------------------------------------

    def get_state(self) -> dict[str, Any]:
        """The spawner's own state, and the slice."""
        state: dict[str, Any] = {**super().get_state(), _STATE: None}
        if self._placed is not None:
            state[_STATE] = {
                "directory": str(self._placed.directory),
                "placement": placement_to_json(self._placed.placement),
                "server": [self._server_process.pid, self._server_process.started] if self._server_process else None,
            }
        return state

    def load_state(self, state: dict[str, Any]) -> None:
        """Take up a server that ran on while the hub was away, with its slice."""
        super().load_state(state)
        if self.orm_spawner is None or self.orm_spawner.server is None:
            return  # what is saved of a server that has been stopped since is nobody's slice
        if state and _STATE not in state:
            return  # started before this spawner was the hub's
        # State is kept when a start is over.  What runs of one that was not is ended with the strays.
        self._unfinished = not state or state[_STATE] is None
        if self._unfinished:
            return
        try:
            saved = state[_STATE]
            placed = PlacedSlice(self._holder(), Path(saved["directory"]), placement_from_json(saved["placement"]))
            self._server_process = ProcessMark(*map(int, saved["server"])) if saved["server"] else None
        except (StateError, KeyError, TypeError, ValueError) as error:
            self.log.error("The slice of %s is not known any more: %s", self._log_name, error)
            return
        with contextlib.suppress(GpuSpawnError):  # wrong settings: no slice is given to anybody, so none is doubly
            self.slices.allocator.restore(placed)
            self._placed = placed
            self._start_watching()

    def clear_state(self) -> None:
        """Forget the server; it is gone, so its slice is given back."""
        super().clear_state()
        self._server_process = None
        self._stop_watching()
        self._begin_release()

    # --- small things -------------------------------------------------------------------------------------------

    def get_env(self) -> dict[str, str]:
        """The server's environment, with its slice."""
        env: dict[str, str] = super().get_env()
        if self._placed is None:
            return env
        return slice_environment(
            env,
            self._placed.placement,
            directory=self.slice_directory(self._placed),
            preload=self.preload(),
        )

    async def progress(self) -> AsyncIterator[dict[str, Any]]:
        """What the person is told while the server starts."""
        if self._news is not None:
            async for message in self._news.follow():
                yield message

    def _holder(self) -> SliceId:
        return SliceId(f"{self.user.name}/{self.name}")

    def explain(self, error: BaseException) -> BaseException:
        """`error` in words for the person, if it was to be foreseen."""
        if isinstance(error, ChoiceError):
            return GpuSpawnError(str(error), reason=Reason(f"hami-{error.reason}"))
        if isinstance(error, NoRoomError):
            return GpuSpawnError(str(error), reason=Reason.NEVER_FITS if error.never else Reason.NO_ROOM)
        if isinstance(error, (SliceRootError, NativeMissingError)):
            self.log.error("No server can be started on a slice. %s", error)
            return GpuSpawnError(f"No server can be started now. {error}", reason=Reason.SETUP)
        if isinstance(error, NoAnswerError):
            return GpuSpawnError(str(error), reason=Reason.SERVER_SILENT)
        return error


async def _within(seconds: float, starting: Awaitable[Any]) -> Any:
    """What `starting` comes to, if it does so in time; it never runs on.

    Raises:
        NoAnswerError: it took too long.
    """
    task = asyncio.ensure_future(starting)
    try:
        await asyncio.wait({task}, timeout=seconds)
        if task.done():
            return task.result()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
    raise NoAnswerError(
        f"Your server did not start within {seconds:g} seconds. Start it again; "
        "if that doesn't help, ask an admin to look into the hub's log."
    )
