"""The slots that the kubelet counts: anonymous, one for each slice that the node's cards can be cut into.

Which slot is healthy is decided here.  A slot says nothing about a card: that is the scheduler's decision, read from
the pod (`owner`) when its container starts.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

_PREFIX = "slot-"


@dataclass(frozen=True, slots=True)
class Slot:
    """One slot as the kubelet is told of it."""

    name: str
    healthy: bool


def slot_name(number: int) -> str:
    """The name of the slot of that number: names sort as their numbers do."""
    return f"{_PREFIX}{number:04d}"


def offer_slots(
    *, total: int, ill: int, held_on_ill: Collection[str] = (), held_on_healthy: Collection[str] = ()
) -> tuple[Slot, ...]:
    """All slots, `ill` of them not healthy.

    The kubelet gives out healthy slots that nobody holds.  For as many of them to be left as the healthy cards take
    slices, the slots of slices on ill cards go first, then free ones, and those that run undisturbed last.

    Args:
        total: what all cards, ill or not, can be cut into.
        ill: what the ill cards among them can be cut into.
        held_on_ill: slots of running slices on ill cards.
        held_on_healthy: slots of the other running slices.
    """
    names = [slot_name(number) for number in range(total)]
    free = [name for name in names if name not in held_on_ill and name not in held_on_healthy]
    order = [name for name in names if name in held_on_ill] + free[::-1]
    order += [name for name in names[::-1] if name in held_on_healthy]
    out_of_order = set(order[:ill])
    return tuple(Slot(name, name not in out_of_order) for name in names)
