"""The slice, from wish to placement: the one object that passes through everything."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import NewType

from .cards import WHOLE_CORES, Card, CardUuid
from .units import AmountError, Mib, Percent

SliceId = NewType("SliceId", str)  # "alice/" or "alice/named-server": who holds the slice


class CorePolicy(str, Enum):
    """GPU_CORE_UTILIZATION_POLICY: how the core share is kept."""

    DEFAULT = "default"  # elastic: idle time is lent, the share is there when it is wanted
    FORCE = "force"  # a hard cap, also on an idle card
    DISABLE = "disable"  # no core limit


class Priority(IntEnum):
    """`nvidia.com/priority`: who waits when two slices want the card at once."""

    HIGH = 0
    LOW = 1


class CardPolicy(str, Enum):
    """`hami.io/gpu-scheduler-policy`: which of the cards that fit is taken."""

    BINPACK = "binpack"  # the fullest, so that whole cards stay free
    SPREAD = "spread"  # the emptiest
    FGD = "fgd"  # where the rest stays most useful to the slices that usually come; alone on a machine: binpack


class NodePolicy(str, Enum):
    """`hami.io/node-scheduler-policy`: which of the nodes that fit is taken."""

    FGD = "fgd"
    BINPACK = "binpack"
    SPREAD = "spread"


@dataclass(frozen=True, slots=True)
class CardWishes:
    """Which cards will do.  Models match as case-insensitive parts of the name, UUIDs exactly; empty: any."""

    models: tuple[str, ...] = ()
    not_models: tuple[str, ...] = ()
    uuids: tuple[CardUuid, ...] = ()
    not_uuids: tuple[CardUuid, ...] = ()

    def allow(self, card: Card) -> bool:
        """Whether `card` is one that will do."""
        model = card.model.lower()
        return (
            (not self.models or any(m.lower() in model for m in self.models))
            and not any(m.lower() in model for m in self.not_models)
            and (not self.uuids or card.uuid in self.uuids)
            and card.uuid not in self.not_uuids
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceRequest:
    """What is asked for.

    Attributes:
        cards: how many different cards.
        vram: MiB of each card, or None.
        vram_percent: percent of each card's VRAM, used when `vram` is None.
        cores: percent of each card's time; 0: no share is promised and none is enforced.
        oom_killer: see `Placement`.
        empty_card: only a card without slices will do, though others may join later: HAMi's card policy "mutex".

    With neither `vram` nor `vram_percent`, or with all the cores, the card is for this slice alone.
    """

    cards: int = 1
    vram: Mib | None = None
    vram_percent: Percent | None = None
    cores: Percent = Percent(0)
    priority: Priority = Priority.LOW
    policy: CorePolicy = CorePolicy.DEFAULT
    card_policy: CardPolicy = CardPolicy.BINPACK
    wishes: CardWishes = field(default_factory=CardWishes)
    oom_killer: bool = False
    empty_card: bool = False

    def __post_init__(self) -> None:
        if self.cards < 1:
            raise AmountError(f"{self.cards} cards are not a slice. Ask for at least 1.")
        if self.vram is not None and self.vram < 1:
            raise AmountError(f"{self.vram} MiB of VRAM is not a slice. Ask for at least 1 MiB.")
        if self.vram_percent is not None and not 1 <= self.vram_percent <= 100:
            raise AmountError(f"{self.vram_percent} % of a card's VRAM is not a slice. Ask for 1 to 100 %.")
        if not 0 <= self.cores <= WHOLE_CORES:
            raise AmountError(f"{self.cores} % of a card's cores can't be had. Ask for 0 to 100 %.")

    @property
    def whole(self) -> bool:
        """Whether all of the VRAM is asked for, by naming no amount or 100 %."""
        return self.vram is None and self.vram_percent in (None, 100)

    @property
    def exclusive(self) -> bool:
        """Whether the card is to be for this slice alone."""
        return self.whole or self.cores == WHOLE_CORES

    def vram_of(self, card: Card) -> Mib:
        """What the request comes to on `card`; percentages round down."""
        if self.vram is not None:
            return self.vram
        return Mib(card.vram * (self.vram_percent or 100) // 100)


@dataclass(frozen=True, slots=True)
class CardShare:
    """One card's part of a placed slice.

    Attributes:
        exclusive: no other slice goes to this card.
        whole: all of the card's VRAM too: nothing is left for the limiter to enforce.
    """

    uuid: CardUuid
    vram: Mib
    cores: Percent
    exclusive: bool = False
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Placement:
    """A slice that has its place: which cards, how much of each, and how the limiter is to treat it.

    Attributes:
        node: name of the Kubernetes node; empty on one machine.
        oom_killer: a process that is found over its VRAM, after the fact, is ended.
    """

    shares: tuple[CardShare, ...]
    priority: Priority = Priority.LOW
    policy: CorePolicy = CorePolicy.DEFAULT
    node: str = ""
    oom_killer: bool = False
