"""Which cards take new slices: what NVML was seen to say of each, and what follows.  Pure; `nvml` looks.

A card with an error is left out at once.  After a quarantine it is tried again: it comes back when NVML answers for it
and asks for no reset.  Each further error doubles the quarantine; a day without one forgets them.  Slices that run on
an ill card are left alone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from hami_hub.core.cards import Card, CardUuid

from .mig import MigDevice

_MOST_DOUBLINGS = 6
_FORGETS_AFTER = 86400.0


@dataclass(frozen=True, slots=True)
class Reading:
    """What NVML said of one card at one moment.

    Attributes:
        card: who it is, with all of its memory.
        problem: why it can't be used now; "": it can.
        used: MiB in use, by whomever; None: not said.
        busy: percent of the last moments in which it worked; None: not said.
        mig: whether it is cut by MIG, so that no slices are had of it.
        mig_devices: what it is cut into.
    """

    card: Card
    problem: str = ""
    used: int | None = None
    busy: int | None = None
    mig: bool = False
    mig_devices: tuple[MigDevice, ...] = ()


@dataclass(frozen=True, slots=True)
class Condition:
    """One card and how it does.

    Attributes:
        reading: the last that was good enough to tell who the card is.
        problem: why it takes no slice; "": it does.
        until: end of the quarantine.
        errors: in a row, for the length of the next quarantine.
        last_error: when.
    """

    reading: Reading
    problem: str = ""
    until: float = 0.0
    errors: int = 0
    last_error: float = 0.0

    @property
    def card(self) -> Card:
        """The card with its health."""
        return replace(self.reading.card, healthy=not self.problem)


class NodeCards:
    """All cards that this node was seen to have, in the order of their index.

    Args:
        quarantine: seconds that a card is left out after a first error.
        ignored: XIDs of errors that a program makes, not its card.
    """

    def __init__(self, *, quarantine: float, ignored: Collection[int]) -> None:
        self._quarantine, self._ignored = quarantine, frozenset(ignored)
        self._conditions: dict[str, Condition] = {}

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """Every card, whatever its health."""
        return tuple(sorted(self._conditions.values(), key=lambda each: (each.card.index, each.card.uuid)))

    @property
    def cards(self) -> tuple[Card, ...]:
        """The cards that slices may be had of, with their health."""
        return tuple(each.card for each in self.conditions if not each.reading.mig)

    @property
    def numbers(self) -> Mapping[CardUuid, str]:
        """NVML's index of each card, as specifications name it."""
        return {each.card.uuid: str(each.card.index) for each in self.conditions}

    def ill(self) -> Mapping[str, str]:
        """Why each card that takes no slice doesn't, by UUID."""
        return {each.card.uuid: each.problem for each in self.conditions if each.problem}

    def see(self, readings: Collection[Reading], now: float) -> None:
        """Take what NVML said of all cards.  One that it doesn't list any more is ill, not forgotten."""
        listed = {reading.card.uuid for reading in readings}
        for reading in readings:
            known = self._conditions.get(reading.card.uuid)
            if known is None:
                known = Condition(reading)
            # What can't be read now was read before.
            card = known.reading.card if reading.problem and known.reading.card.vram else reading.card
            known = replace(known, reading=replace(reading, card=card))
            self._conditions[reading.card.uuid] = self._judge(known, reading.problem, now)
        for uuid, known in self._conditions.items():
            if uuid not in listed:
                gone = replace(known, reading=replace(known.reading, used=None, busy=None))
                self._conditions[uuid] = self._judge(gone, "NVML doesn't list it any more", now)

    def xid(self, uuid: str, code: int, now: float) -> bool:
        """Take an XID of a card; whether it makes the card ill."""
        known = self._conditions.get(uuid)
        if known is None or code in self._ignored:
            return False
        self._conditions[uuid] = self._fall_ill(known, f"XID {code}", now)
        return True

    def _judge(self, known: Condition, problem: str, now: float) -> Condition:
        if problem:
            return replace(known, problem=problem) if known.problem else self._fall_ill(known, problem, now)
        if known.problem and now >= known.until:
            return replace(known, problem="")
        return known

    def _fall_ill(self, known: Condition, problem: str, now: float) -> Condition:
        errors = known.errors + 1 if now - known.last_error < _FORGETS_AFTER and known.errors else 1
        pause = self._quarantine * 2 ** min(errors - 1, _MOST_DOUBLINGS)
        return replace(known, problem=problem, until=now + pause, errors=errors, last_error=now)
