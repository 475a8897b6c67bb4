"""What usually comes: the slices that are asked for most, with how often.  `fleet` keeps room useful for these.

Counted from the pods themselves, the past weighing less and less, and begun with a mix that an admin's profiles or a
default give.  Integers only: weights are counts, shares are parts of `PARTS`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .slices import SliceRequest
from .units import Mib, Percent

PARTS = 1000
# The rare ones are left out: the most frequent count until they make up so much, and no more than so many.
_COVERED_PERCENT = 95
_MOST_SHAPES = 40
_ONE = 1 << 12
# After so many pods all counts shrink to 31/32: a pod's weight is halved about every 5,600 pods.
_DECAY_EVERY = 256
# Before that, the first pods may already show that the beginning was wrong.
_FIRST_LOOKS = (16, 32, 64, 128)
# The beginning counts like so many pods.
_SEED_PODS = 64


@dataclass(frozen=True, slots=True)
class Shape:
    """A slice as far as room is concerned.  Fields as in `SliceRequest`; `cpu` in thousandths."""

    cards: int
    vram: Mib | None
    vram_percent: Percent | None
    cores: Percent
    models: tuple[str, ...]
    cpu: int

    @classmethod
    def of(cls, request: SliceRequest, cpu: int = 0) -> Shape:
        """The shape of `request` in a pod that requests so much CPU."""
        return cls(request.cards, request.vram, request.vram_percent, request.cores, request.wishes.models, cpu)


def default_mix() -> tuple[tuple[Shape, int], ...]:
    """What notebooks ask for where nothing is known: mostly small slices, some whole cards."""
    return (
        (Shape.of(SliceRequest(vram=Mib(2048))), 2),
        (Shape.of(SliceRequest(vram=Mib(4096), cores=Percent(25))), 4),
        (Shape.of(SliceRequest(vram=Mib(8192), cores=Percent(50))), 2),
        (Shape.of(SliceRequest()), 2),
    )


class TypicalPods:
    """Counts what is asked for.

    Attributes:
        revision: changes when the answer of `shares` may have changed enough to be asked for again.
    """

    def __init__(self, mix: Iterable[tuple[Shape, int]] | None = None) -> None:
        """`mix`: shapes with how often each comes, to begin with; None: the default mix."""
        seeds = tuple(default_mix() if mix is None else mix)
        total = sum(weight for _, weight in seeds) or 1
        self._counts: dict[Shape, int] = {}
        for shape, weight in seeds:
            self._counts[shape] = self._counts.get(shape, 0) + max(1, weight * _SEED_PODS * _ONE // total)
        self._observed = 0
        self.revision = 0

    def observe(self, request: SliceRequest, cpu: int = 0) -> None:
        """A container that asks for `request` came, in a pod that requests so much CPU."""
        shape = Shape.of(request, cpu)
        self._counts[shape] = self._counts.get(shape, 0) + _ONE
        self._observed += 1
        if self._observed % _DECAY_EVERY == 0:
            self._counts = {known: count * 31 // 32 for known, count in self._counts.items() if count >= _ONE // 2}
            self.revision += 1
        elif self._observed in _FIRST_LOOKS:
            self.revision += 1

    def shares(self) -> tuple[tuple[Shape, int], ...]:
        """The most frequent shapes, each with its part of `PARTS`."""
        ranked = sorted(self._counts.items(), key=lambda item: (-item[1], repr(item[0])))
        total = sum(self._counts.values())
        kept: list[tuple[Shape, int]] = []
        covered = 0
        for shape, count in ranked[:_MOST_SHAPES]:
            kept.append((shape, count))
            covered += count
            if covered * 100 >= total * _COVERED_PERCENT:
                break
        return tuple((shape, max(1, count * PARTS // covered)) for shape, count in kept)
