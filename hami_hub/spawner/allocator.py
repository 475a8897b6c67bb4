"""Slices for servers: keeps the line of those who wait, the ledger, and the slice directories in step.

The async shell over `core.ledger` and `core.line`, which decide.  One for each hub; it lives in the hub's event loop
and is called from nowhere else.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from ..cards import NoCardsError
from ..core.cards import Card, CardState
from ..core.language import later, say
from ..core.ledger import Ledger
from ..core.line import Turn, offers_from_behind, seen_from_behind, serve, why_waiting
from ..core.messages import describe_placement, waited_in_vain, why_no_room
from ..core.offers import Offer, offers
from ..core.placement import NoRoom
from ..core.profiles import Profile
from ..core.slices import Placement, SliceId, SliceRequest
from ..slicepage import PageError, create_slice, read_placement, remove_slice
from .leftovers import end_leftovers
from .slice_root import SliceRoot, SliceRootError, unwritable

# What NVML says of the cards is good for so long; those who wait ask again as often.
_CARDS_AGE = 5.0
# A driver that hangs must not hang the hub.
_CARDS_PATIENCE = 5.0
# A server's end is not worth a word before so long, nor worth waiting for after so long.
_ENDING_SECONDS = 1.0
_ENDING_PATIENCE = 8.0

# None: the holder's last server is still ending.
OnWait = Callable[[Turn | None], None]


class NoRoomError(RuntimeError):
    """There is no room for a slice.  The message is for the person who asked.

    Attributes:
        never: it can't be had by waiting either.
    """

    def __init__(self, message: str, *, never: bool) -> None:
        super().__init__(message)
        self.never = never


@dataclass(frozen=True, slots=True)
class PlacedSlice:
    """A slice that somebody holds, and where its pages are."""

    holder: SliceId
    directory: Path
    placement: Placement


@dataclass(eq=False, slots=True)
class _Waiter:
    request: SliceRequest
    on_wait: OnWait
    placed: asyncio.Future[Placement]
    told: Turn | None = field(default=None)


class Allocator:
    """The slices of one hub.

    Args:
        root: where slice directories are kept.
        read_cards: asks NVML; may be slow, is called in a thread.
        log: for admins.
        order: in which those who wait are served, given them in order of arrival.
        ends: Unix time when slices end by their time limits.
    """

    def __init__(
        self,
        root: SliceRoot,
        read_cards: Callable[[], tuple[Card, ...]],
        log: logging.Logger,
        *,
        order: Callable[[Sequence[SliceId]], Iterable[SliceId]] = iter,
        ends: Callable[[], Mapping[SliceId, float]] = dict,
    ) -> None:
        self.root = root
        self._order, self._ends = order, ends
        self.problem = ""  # why no card can be had, a sentence to be said; "" if cards can be asked
        self._read_cards = read_cards
        self._log = log
        self._ledger = Ledger(())
        self._held: dict[SliceId, PlacedSlice] = {}
        self._line: dict[SliceId, _Waiter] = {}
        self._ending: dict[Path, asyncio.Task[None]] = {}
        self._former: dict[SliceId, asyncio.Task[None]] = {}
        self._reading: asyncio.Future[tuple[Card, ...]] | None = None
        self._read_next = 0.0
        self._answered = False  # whether the driver has said what cards there are, or why it can't

    @property
    def cards(self) -> tuple[Card, ...]:
        """Every card that is known."""
        return self._ledger.cards

    @property
    def states(self) -> tuple[CardState, ...]:
        """Every card with what slices hold of it."""
        return self._ledger.states()

    @property
    def states_for_newcomer(self) -> tuple[CardState, ...]:
        """The same, with the cards that those in line wait for shown as taken."""
        return seen_from_behind(self.states, self._requests())

    def offers(self, profiles: Iterable[Profile], groups: Collection[str]) -> tuple[Offer, ...]:
        """What each profile would come to for a newcomer who is in `groups`."""
        return offers_from_behind(offers(profiles, self.states, groups), self.states, self._requests())

    def describe(self, placed: PlacedSlice) -> str:
        """What the holder got, in a few words; "" for a slice without a card."""
        return describe_placement(placed.placement, self.states)

    async def acquire(
        self,
        holder: SliceId,
        request: SliceRequest | None,
        *,
        tenant: tuple[int, int] | None,
        patience: float,
        on_wait: OnWait,
    ) -> PlacedSlice:
        """A slice for `holder`, waited for in line if need be.  Cancelled, it leaves nothing behind.

        Args:
            holder: must hold nothing and not be in line.
            request: None for a slice that no card may be used in.
            tenant: uid and gid that its processes will have; None: the hub's.
            patience: seconds to wait for room.
            on_wait: called with the turn at first and whenever it changes, in the task of whoever brought that about.

        Raises:
            NoRoomError: it can never fit, or didn't in time.
            SliceRootError: its directory can't be written.
        """
        if holder in self._held or holder in self._line:
            raise RuntimeError(f"{holder} has a slice or waits for one already")
        self.root.open()
        await self._former_gone(holder, on_wait)
        placement = Placement(()) if request is None else await self._place(holder, request, patience, on_wait)
        self._ledger.restore(holder, placement)
        placed = PlacedSlice(holder, self.root.new_directory(holder), placement)
        try:
            create_slice(
                placed.directory,
                name=holder,
                placement=placement,
                tenant=tenant,
                ring=self.root.ring,
                mounted=self.root.mounted,
            )
        except (OSError, PageError) as error:
            self._forget(holder)
            text = unwritable(self.root.path, error) if isinstance(error, OSError) else str(error)
            raise SliceRootError(text) from None
        self._held[holder] = placed
        return placed

    def refuse_if_never(self, request: SliceRequest) -> None:
        """See whether waiting for a slice could lead to anything, as far as the cards are known.

        Raises:
            NoRoomError: it can't, or nobody can say.
        """
        if not self._answered:
            raise NoRoomError(say(self.problem), never=False)
        verdict = self._ledger.try_place(request)
        if isinstance(verdict, NoRoom) and verdict.never:
            raise NoRoomError(why_no_room(verdict), never=True)

    def restore(self, placed: PlacedSlice) -> None:
        """Take into the books what a running server is known to hold, after a restart of the hub."""
        self._held[placed.holder] = placed
        self._ledger.restore(placed.holder, placed.placement)

    def release(self, placed: PlacedSlice, end: Callable[[], Awaitable[None]] | None = None) -> asyncio.Task[None]:
        """Give a slice back.  Its processes are ended first, and until they are gone it counts.

        Args:
            placed: may have been given back already.
            end: more to be done before the slice is free.

        Returns:
            Done when the slice is free.  It goes on if the caller is cancelled.
        """
        if self._held.get(placed.holder) == placed:
            del self._held[placed.holder]
            # The holder may start another server at once, while the old one's processes end.
            self._ledger.release(placed.holder)
        elif placed.directory in self._ending:
            return self._ending[placed.directory]
        elif not placed.directory.exists():
            return asyncio.ensure_future(asyncio.sleep(0))
        self._ledger.restore(_ending_id(placed.directory), placed.placement)
        task = asyncio.ensure_future(self._end(placed.directory, end))
        self._ending[placed.directory] = task
        self._former[placed.holder] = task
        task.add_done_callback(lambda done: self._gone(placed.holder, done))
        return task

    def clear_strays(self) -> None:
        """Give back the slices that nobody here holds, left by a hub that died.  First restore those that somebody has.

        Raises:
            SliceRootError: the slices' folder can't be used.
        """
        self.root.open()
        known = {placed.directory for placed in self._held.values()} | set(self._ending)
        for directory in self.root.directories():
            if directory in known:
                continue
            try:
                placement = read_placement(directory)
            except PageError as error:
                self._log.warning("%s Its processes are ended and it is removed.", error)
                placement = Placement(())
            self._log.info("Giving back the slice %s, which no running server has.", directory.name)
            self.release(PlacedSlice(_ending_id(directory), directory, placement))

    async def refresh(self) -> None:
        """Ask for the cards again if what is known is old.  What fails is kept, as out of order."""
        loop = asyncio.get_running_loop()
        if self._reading is None:
            if loop.time() < self._read_next:
                return
            self._reading = asyncio.ensure_future(asyncio.to_thread(self._read_cards))
            self._reading.add_done_callback(self._take_cards)
        _, hanging = await asyncio.wait({self._reading}, timeout=_CARDS_PATIENCE)
        if hanging:
            self.problem = later(
                "The driver doesn't say which cards there are. Run `nvidia-smi` to see whether it hangs."
            )

    async def _former_gone(self, holder: SliceId, on_wait: OnWait) -> None:
        """A server's next start waits until all of its last one is gone, whose unit or home it may share."""
        former = self._former.get(holder)
        if former is None:
            return
        _, ending = await asyncio.wait({former}, timeout=_ENDING_SECONDS)
        if ending:
            on_wait(None)
            _, ending = await asyncio.wait({former}, timeout=_ENDING_PATIENCE)
        if ending:
            raise NoRoomError(
                say("Your last server has processes that don't end. Try again later, or ask an admin to end them."),
                never=False,
            )

    async def _place(self, holder: SliceId, request: SliceRequest, patience: float, on_wait: OnWait) -> Placement:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + patience
        await self.refresh()
        self.refuse_if_never(request)
        waiter = self._line[holder] = _Waiter(request, on_wait, loop.create_future())
        try:
            self._serve()
            while not waiter.placed.done():
                left = deadline - loop.time()
                if left <= 0:
                    reason = why_waiting(waiter.told, time.time()) if waiter.told else ""
                    raise NoRoomError(waited_in_vain(request, patience, reason), never=False)
                await asyncio.wait({waiter.placed}, timeout=min(left, _CARDS_AGE))
                if not waiter.placed.done():
                    await self.refresh()
            return waiter.placed.result()
        except BaseException:
            self._forget(holder)
            raise
        finally:
            self._line.pop(holder, None)

    def _serve(self) -> None:
        """Whoever's turn it is gets their slice; the others are told where they stand, if that has changed."""
        here = tuple(holder for holder, waiter in self._line.items() if not waiter.placed.done())
        waiting = {holder: self._line[holder].request for holder in self._order(here)}
        for holder, answer in serve(self._ledger, waiting, self._ends()).items():
            waiter = self._line[holder]
            if isinstance(answer, Placement):
                waiter.placed.set_result(answer)
            elif answer != waiter.told:
                waiter.told = answer
                waiter.on_wait(answer)

    def _forget(self, holder: SliceId) -> None:
        self._line.pop(holder, None)
        self._ledger.release(holder)
        self._serve()

    async def _end(self, directory: Path, end: Callable[[], Awaitable[None]] | None) -> None:
        # Cancelled only when the hub ends: then the directory stays, for the next hub to count and clear.
        for each in (end, partial(end_leftovers, directory, self._log)):
            try:
                if each is not None:
                    await each()
            except Exception:
                self._log.exception("Ending what is left of the slice %s failed.", directory.name)
        remove_slice(directory, ring=self.root.ring)
        self._ending.pop(directory, None)
        self._forget(_ending_id(directory))

    def _gone(self, holder: SliceId, task: asyncio.Task[None]) -> None:
        if self._former.get(holder) is task:
            del self._former[holder]

    def _take_cards(self, reading: asyncio.Future[tuple[Card, ...]]) -> None:
        self._reading, self._answered = None, True
        self._read_next = asyncio.get_running_loop().time() + _CARDS_AGE
        if reading.cancelled():
            return
        error = reading.exception()
        if error is None:
            self.problem, cards = "", reading.result()
        else:
            problem = later("The cards can't be asked. Run `hami-hub doctor`.")
            if isinstance(error, NoCardsError):
                problem = str(error)
            else:
                self._log.error("Asking for the cards failed.", exc_info=error)
            if problem != self.problem:
                self._log.warning("No GPU can be offered. %s", problem)
            self.problem, cards = problem, tuple(replace(card, healthy=False) for card in self._ledger.cards)
        if cards != self._ledger.cards:
            self._ledger.update_cards(cards)
        self._serve()

    def _requests(self) -> tuple[SliceRequest, ...]:
        return tuple(waiter.request for waiter in self._line.values() if not waiter.placed.done())


def _ending_id(directory: Path) -> SliceId:
    return SliceId(f"{directory.name} (ending)")
