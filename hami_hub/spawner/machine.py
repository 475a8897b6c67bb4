"""`MachineSlicesMixin`: slices of this machine's own cards, given by the hub itself.

The one-machine half of `GpuSlicesMixin`.  It gets a slice from the hub's allocator or waits in line for one, starts the
server on the slice directory, and gives the slice back when the server is gone, however that came.  How a server meets
its slice, and how its end is noticed, is for the small classes in `local`, `systemd` and `docker` to say.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

from ..core.language import in_english, say
from ..core.line import Turn, why_waiting
from ..core.messages import in_line
from ..core.state import StateError, placement_from_json, placement_to_json
from ..native import NativeMissingError
from ..slicepage import PageError, read_slice
from . import processes
from .allocator import NoRoomError, PlacedSlice
from .attempt import Attempt
from .environment import slice_environment
from .errors import GpuSpawnError, Reason
from .form import FormContext
from .gpu_slices import GpuSlicesMixin, too_slow
from .leftovers import note_server
from .news import WAITING, News
from .processes import ProcessMark
from .slice_root import SliceRootError

_POLL_SECONDS = 1.0
_STATUS_SECONDS = 5.0  # so long whoever manages a server may take to say what it ended with
_UNKNOWN_STATUS = 0  # JupyterHub's


class MachineSlicesMixin(GpuSlicesMixin):
    """Starts each server on a slice of this machine.  `class Mine(MachineSlicesMixin, Theirs)`."""

    _placed: PlacedSlice | None = None
    _server_process: ProcessMark | None = None
    _watch: asyncio.Task[None] | None = None
    _last_status: asyncio.Task[Any] | None = None  # what the server, which has ended, ended with
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

    # --- what is offered ----------------------------------------------------------------------------------------

    async def whats_on_offer(self) -> FormContext:
        """The machine's cards, as somebody who comes now finds them."""
        slices, allocator = self.slices, self.slices.allocator
        await allocator.refresh()
        chosen = self.last_choice()
        offers, budgets, bills = self.affordable(
            allocator.offers(slices.offered, self.group_names()), allocator.cards, chosen
        )
        return FormContext(
            cards=allocator.states_for_newcomer,
            offers=offers,
            chosen=chosen,
            budgets=budgets,
            bills=bills,
            problem=slices.setup_problem() or say(allocator.problem),
        )

    # --- from start to stop -------------------------------------------------------------------------------------

    async def get_slice(self, news: News) -> None:
        """Get a slice from the allocator, waiting in line if need be."""
        slices, choice, attempt = self.slices, self.chosen(), self._attempt
        assert attempt is not None
        self._stop_watching()
        attempt.wishes(self.asked(choice, ()))
        slices.limiter()  # without it a server would have the whole card
        self.prepare()
        if choice.request is not None:
            await slices.allocator.refresh()
            slices.allocator.refuse_if_never(choice.request)
        self.pay(self.asked(choice, slices.allocator.cards), choice.group, choice.profile.max_lifetime)
        self._placed = await slices.allocator.acquire(
            self.holder(),
            choice.request,
            tenant=self.tenant(),
            patience=slices.wait_timeout,
            on_wait=lambda turn: self._tell_turn(news, attempt, turn),
        )
        attempt.placed(self._placed.placement)
        given = slices.allocator.describe(self._placed)
        self.log.info("%s gets %s.", self._log_name, in_english(given) or "no GPU")
        has_slice = say("You have {slice}. Your server is starting.", slice=given) if given else ""
        news.tell(50, has_slice or say("Your server is starting."))

    def _tell_turn(self, news: News, attempt: Attempt, turn: Turn | None) -> None:
        # Called in the task of whoever changed the line, which speaks its own person's language.
        with self.in_their_language():
            if turn is None:
                news.tell(10, say("Your last server is still ending."))
                return
            why = why_waiting(turn, time.time())
            words = in_line(turn.position, why)
        attempt.waits(turn.position, in_english(why))
        self.log.info("%s waits for a slice. %s", self._log_name, in_english(words))
        frees_at = turn.frees.until if turn.frees is not None else None
        news.tell(10, words, state=WAITING, position=turn.position, frees_at=frees_at)

    async def start_on_slice(self, news: News) -> Any:
        """Start the server, and leave word of which process it is."""
        url = await _within(self.own_start_timeout, self.their_start())
        self._server_process = await self.find_server()
        if self._server_process is not None and self._placed is not None:
            note_server(self._placed.directory, self._server_process)
        await self.until_serving(url)
        return url

    def server_runs(self) -> None:
        """From now on its end is noticed."""
        self._stop_watching()
        self._watch = asyncio.ensure_future(self._watch_server())

    async def stop(self, now: bool = False) -> None:
        """Stop the server, end what it leaves behind, and give its slice back."""
        self._stop_watching()
        await super().stop(now)

    async def end_start(self) -> None:
        """Stop what may have begun to run."""
        self._stop_watching()
        if self._placed is not None and await self.poll() is None:
            await self.their_stop(now=True)

    async def give_back(self) -> None:
        """Give the slice back, and return when it is free.  That goes on if whoever waits here is cancelled."""
        self._begin_release()
        if self._giving_back is not None:
            await asyncio.shield(self._giving_back)

    def until_free(self) -> asyncio.Future[None] | None:
        """Done when the slice is."""
        return self._giving_back

    def _begin_release(self) -> None:
        placed, self._placed = self._placed, None
        if placed is not None:
            self._giving_back = self.slices.allocator.release(placed, self.end_server)
            if (attempt := self._attempt) is not None:
                self._giving_back.add_done_callback(lambda _: attempt.over())

    def last_used(self) -> float:
        """Work on the card counts too, as far as the slice has a core share: else nobody notes it."""
        placed = self._placed
        if placed is None or not placed.placement.shares:
            return super().last_used()
        try:
            launched = max(card.last_launch for card in read_slice(placed.directory).cards)
        except (PageError, OSError, ValueError):
            return super().last_used()
        ago = max(0.0, time.monotonic() - launched)
        return max(super().last_used(), time.time() - ago if launched else 0.0)

    # --- noticing a server's end --------------------------------------------------------------------------------

    async def poll(self) -> int | None:
        """None while the server runs, or waits for room.

        Where its process is known, that decides: who manages it hears of its end later, or doesn't answer.
        """
        if self._server_process is None:
            return await super().poll()
        if processes.runs(self._server_process):
            return None
        asked = self._ask_last_status()
        await asyncio.wait({asked}, timeout=_STATUS_SECONDS)
        return asked.result() if asked.done() else _UNKNOWN_STATUS

    def _ask_last_status(self) -> asyncio.Task[Any]:
        # Asked once: what could tell is removed soon.
        if self._last_status is None:
            self._last_status = asyncio.ensure_future(self._status_of_the_ended())
        return self._last_status

    async def _status_of_the_ended(self) -> Any:
        try:
            status = await self.their_poll()
        except Exception as error:
            self.log.warning("Nobody says what the server of %s ended with: %r", self._log_name, error)
            return _UNKNOWN_STATUS
        return _UNKNOWN_STATUS if status is None else status

    async def server_ended(self) -> None:
        """Return when the server's process has ended."""
        if self._server_process is not None:
            await processes.ended(self._server_process)
        else:
            await super().server_ended()

    def _stop_watching(self) -> None:
        if self._watch is not None and self._watch is not asyncio.current_task():
            self._watch.cancel()
        self._watch = None

    async def _watch_server(self) -> None:
        """The hub asks every 30 seconds whether a server still runs; whoever waits for its slice should not."""
        await self.server_ended()
        self.log.info("The server of %s has ended.", self._log_name)
        if self._server_process is not None:
            self._ask_last_status()
        self._begin_release()
        self.settle_up()
        # What the hub is told while it is busy with this server it forgets.
        while self.pending:  # noqa: ASYNC110  there is nothing to be woken by
            await asyncio.sleep(_POLL_SECONDS)
        if self.ready:
            await self.poll_and_notify()

    # --- over a restart of the hub ------------------------------------------------------------------------------

    def slice_state(self) -> dict[str, Any] | None:
        """Where the slice is, what it comes to and whose it is."""
        if self._placed is None:
            return None
        return {
            "directory": str(self._placed.directory),
            "placement": placement_to_json(self._placed.placement),
            "server": [self._server_process.pid, self._server_process.started] if self._server_process else None,
        }

    def restore_slice(self, saved: Any) -> None:
        """Tell the allocator, and watch the server again."""
        try:
            placed = PlacedSlice(self.holder(), Path(saved["directory"]), placement_from_json(saved["placement"]))
            self._server_process = ProcessMark(*map(int, saved["server"])) if saved["server"] else None
        except (StateError, KeyError, TypeError, ValueError) as error:
            self.log.error("The slice of %s is not known any more: %s", self._log_name, error)
            return
        with contextlib.suppress(GpuSpawnError):  # wrong settings: no slice is given to anybody, so none is doubly
            self.slices.allocator.restore(placed)
            self._placed = placed
            self.server_runs()

    def clear_up(self) -> None:
        """That, and have slices that are nobody's given back."""
        _ = self.slices.allocator

    def clear_state(self) -> None:
        """Forget the server; it is gone, so its slice is given back."""
        self._server_process = self._last_status = None
        if self.server is None:  # else the hub has still to be told: a local spawner's poll forgets the server too
            self._stop_watching()
        self._begin_release()
        super().clear_state()

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

    def explain(self, error: BaseException) -> BaseException:
        """`error` in words for the person, if it was to be foreseen."""
        if isinstance(error, NoRoomError):
            return GpuSpawnError(str(error), reason=Reason.NEVER_FITS if error.never else Reason.NO_ROOM)
        if isinstance(error, (SliceRootError, NativeMissingError)):
            self.log.error("No server can be started on a slice. %s", error)
            return GpuSpawnError(say("No server can be started now. {why}", why=str(error)), reason=Reason.SETUP)
        return super().explain(error)


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
    raise too_slow(seconds)
