"""One attempt to start a server, from the wish to the server's end: what it is charged, and its line in the journal.

Whatever way it takes, it ends once, in `over`, and then nothing is charged for it any more.  When that is due, the
spawners say.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..core.budgets import Asked, Refused
from ..core.history import Start, StartState, charge_of
from ..core.lifetimes import Terms, terms
from ..core.slices import Placement, SliceId
from ..core.state import StateError
from ..core.units import Mib
from ..journal import Journal
from .charges import Charges, Groups

_LONGEST = 100  # of a profile's name that somebody made up


@dataclass(frozen=True, slots=True)
class Books:
    """Where a hub's attempts are written down."""

    charges: Charges
    journal: Journal
    clock: Callable[[], float] = time.time


class Attempt:
    """One attempt of a person to start one server.

    Args:
        pod: as `Start.pod`.

    Attributes:
        terms: how long the server may run.
        starting: until its server runs, or all that it had got is given back.
    """

    def __init__(self, books: Books, user: str, server: str, pod: str = "") -> None:
        self._books = books
        self.terms = Terms()
        self.starting = True
        self._start = Start(
            id=uuid.uuid4().hex,
            user=user,
            server=server,
            group="",
            profile="",
            cards=0,
            vram=Mib(0),
            cores=0,
            asked_at=books.clock(),
            state=StartState.STARTING,
            pod=pod,
        )
        self._told = self._over = False
        self._outcome: dict[str, Any] = {"state": StartState.ENDED}

    @property
    def id(self) -> str:
        """Unique."""
        return self._start.id

    @property
    def start(self) -> Start:
        """What is known of it."""
        return self._start

    @property
    def accepted(self) -> bool:
        """Whether it is paid for."""
        return self._told

    # --- how it goes --------------------------------------------------------------------------------------------

    def wishes(self, asked: Asked) -> None:
        """What is asked for."""
        amount = asked.amount
        self._note(profile=asked.profile, cards=asked.cards, vram=amount.vram, cores=amount.cores)

    def pay(self, asked: Asked, groups: Groups, wanted: str, profile_lifetime: int | None) -> Refused | None:
        """Charge it to whoever pays, which begins its line in the journal; or why nobody does."""
        self.wishes(asked)
        quota = None
        if asked.cards:
            now = self._books.clock()
            verdict = self._books.charges.take(self.id, self._holder, groups, asked, wanted, now)
            if isinstance(verdict, Refused):
                self._note(group=verdict.group)
                return verdict
            quota = verdict.quota
            self._note(group=verdict.group)
        self.terms = terms(quota, profile_lifetime)
        self._told = True
        self._books.journal.opened(self._start)
        return None

    def becomes(self, pod: str) -> None:
        """The pod that is made for it, should that be another than was foreseen: as `Start.pod`."""
        if pod != self._start.pod:
            self._tell(pod=pod)

    def waits(self, position: int, why: str = "") -> None:
        """It is in line.

        Args:
            position: from 1.
            why: in English, where the hub itself keeps the line.
        """
        turn = {"state": StartState.WAITING, "position": position, "words": why}
        if any(getattr(self._start, name) != value for name, value in turn.items()):
            self._tell(**turn)

    def placed(self, placement: Placement | None) -> None:
        """It has its slice.  None: what it is isn't known, so the charge stays as it was."""
        if self._start.started_at is not None:
            return
        now = self._books.clock()
        fields: dict[str, Any] = {"state": StartState.STARTING, "position": 0, "words": "", "started_at": now}
        fields["until"] = self.terms.until(now)
        if placement is not None:
            shares = placement.shares
            fields["placed"] = tuple(str(share.uuid) for share in shares)
            fields["cards"] = len(shares)
            fields["vram"] = Mib(sum(share.vram for share in shares))
            fields["cores"] = sum(share.cores for share in shares)
        self._tell(**fields)
        held = self._start
        self._books.charges.settle(self.id, cards=held.cards, vram=held.vram, cores=held.cores, until=held.until)

    def runs(self) -> None:
        """Its server answers."""
        self.starting = False
        self.placed(None)
        self._tell(state=StartState.RUNNING)

    def comes_to(self, state: StartState, reason: str = "", words: str = "") -> None:
        """How it will have ended; the first that is said counts.

        Args:
            state: one that isn't open.
            reason: a label.
            words: in English.
        """
        if self._outcome == {"state": StartState.ENDED}:
            self._outcome = {"state": state, "reason": reason, "words": words}

    def over(self) -> None:
        """All that it held is given back."""
        if self._over:
            return
        self._over = True
        self._books.charges.release(self.id)
        fields = {**self._outcome, "ended_at": self._books.clock(), "position": 0}
        if self._told:
            self._tell(**fields)
        else:
            self._books.journal.opened(replace(self._start, **fields))

    # --- over a restart of the hub ------------------------------------------------------------------------------

    def to_state(self) -> dict[str, Any]:
        """What has to be known of it while its server runs."""
        start = self._start
        return {
            "start": start.id,
            "group": start.group,
            "charge": {
                "profile": start.profile,
                "cards": start.cards,
                "vram_mib": start.vram,
                "cores": start.cores,
                "since": start.asked_at,
                "started": start.started_at,
                "until": start.until,
                "max_lifetime": self.terms.max_lifetime,
                "idle_timeout": self.terms.idle_timeout,
                "placed": list(start.placed),
            },
        }

    @classmethod
    def restored(cls, books: Books, user: str, server: str, saved: Mapping[str, Any], pod: str = "") -> Attempt:
        """The attempt of a running server, as `to_state` wrote it; it is charged at once.

        Raises:
            StateError: it can't be read.
        """
        attempt = cls(books, user, server)
        try:
            charge = saved["charge"]
            attempt._start = Start(
                id=str(saved["start"]),
                user=user,
                server=server,
                group=str(saved["group"]),
                profile=str(charge["profile"]),
                cards=int(charge["cards"]),
                vram=Mib(int(charge["vram_mib"])),
                cores=int(charge["cores"]),
                asked_at=float(charge["since"]),
                state=StartState.RUNNING,
                started_at=_time(charge["started"]),
                until=_time(charge["until"]),
                placed=tuple(map(str, charge["placed"])),
                pod=pod,
            )
            attempt.terms = Terms(_seconds(charge["max_lifetime"]), _seconds(charge["idle_timeout"]))
        except (KeyError, TypeError, ValueError) as error:
            raise StateError(f"What a server is charged can't be read: {error!r}.") from None
        attempt._told, attempt.starting = True, False
        start = attempt._start
        if start.cards:
            books.charges.restore(start.id, charge_of(start))
        books.journal.restored(start)
        return attempt

    # --- small things -------------------------------------------------------------------------------------------

    @property
    def _holder(self) -> SliceId:
        return SliceId(self._start.server_of)

    def _note(self, **fields: Any) -> None:
        self._start = replace(
            self._start, **{**fields, "profile": fields.get("profile", self._start.profile)[:_LONGEST]}
        )

    def _tell(self, **fields: Any) -> None:
        self._start = replace(self._start, **fields)
        self._books.journal.changed(self.id, **fields)


def _time(value: Any) -> float | None:
    return None if value is None else float(value)


def _seconds(value: Any) -> int | None:
    return None if value is None else int(value)
