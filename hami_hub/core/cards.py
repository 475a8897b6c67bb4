"""A card and what is taken of it.  Which cards there are is asked of NVML by `hami_hub.cards`."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import NewType

from .units import Mib, Percent

CardUuid = NewType("CardUuid", str)

# HAMi's devicePlugin.deviceSplitCount: how many slices one card is cut into at most.
DEFAULT_SPLIT_COUNT = 10
WHOLE_CORES = Percent(100)


@dataclass(frozen=True, slots=True)
class Card:
    """One physical card.

    Attributes:
        uuid: as NVML prints it, "GPU-…": the only key a card is known by.
        index: NVML's index, for people.
        model: NVML's name, "Tesla T4".
        vram: all of the card's memory.
        split_count: how many slices may share it.
        healthy: False after a fault; takes no new slice.
        numa: NUMA node of its slot; None: not known.
        cordoned: an admin keeps new slices away from it.
    """

    uuid: CardUuid
    index: int
    model: str
    vram: Mib
    split_count: int = DEFAULT_SPLIT_COUNT
    healthy: bool = True
    numa: int | None = None
    cordoned: bool = False


@dataclass(frozen=True, slots=True)
class CardState:
    """A card with the sum of what slices hold of it."""

    card: Card
    used_vram: Mib = Mib(0)
    used_cores: Percent = Percent(0)
    slices: int = 0
    exclusive: bool = field(default=False)

    @property
    def free_vram(self) -> Mib:
        """VRAM that a new slice may take; never negative, also after a card shrank."""
        return Mib(0) if self.exclusive else Mib(max(0, self.card.vram - self.used_vram))

    @property
    def free_cores(self) -> Percent:
        """Percent of the card's time that no slice has been promised."""
        return Percent(0) if self.exclusive else Percent(max(0, WHOLE_CORES - self.used_cores))

    @property
    def free_slices(self) -> int:
        """How many more slices the card may be cut into."""
        return 0 if self.exclusive else max(0, self.card.split_count - self.slices)


def scaled_vram(vram: Mib, scaling: str) -> Mib:
    """`vram` times `scaling` ("1.5"), rounded down: what a card counts as under HAMi's deviceMemoryScaling."""
    return Mib(int(vram * Fraction(scaling)))
