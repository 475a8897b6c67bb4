"""What there is to see of cards and slices at one moment, wherever it was looked up: `machine` and `cluster` look."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ..core.cards import Card, CardUuid
from ..core.inventory import QueuedPod
from ..core.units import Mib


@dataclass(frozen=True, slots=True, kw_only=True)
class CardSeen:
    """A card.

    Attributes:
        node: Kubernetes' name of its node; "" on one machine.
    """

    card: Card
    node: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceSeen:
    """One card's part of a slice.

    Attributes:
        holder: the slice's name, "alice/"; in a cluster "namespace/pod".
        cores: percent of the card's time.
        exclusive: no other slice goes to the card.
        used: what it really holds; None: not known.
        since: Unix time; None: not known.
    """

    holder: str
    card: CardUuid
    vram: Mib
    cores: int
    exclusive: bool = False
    used: Mib | None = None
    since: float | None = None


@dataclass(frozen=True, slots=True)
class Sight:
    """All of it.

    Attributes:
        problems: sentences about what can't be seen.
    """

    cards: tuple[CardSeen, ...] = ()
    slices: tuple[SliceSeen, ...] = ()
    waiting: tuple[QueuedPod, ...] = ()
    problems: tuple[str, ...] = ()


class Eyes(Protocol):
    """Whoever can look."""

    async def look(self) -> Sight:
        """What there is now.  Never raises: what can't be seen is among the problems."""
