"""What the slices on this node hold, read from their pages, beside what NVML says is in use on each card.

The difference is memory that no slice answers for: of a process that the limiter isn't in, or of a slice that lies.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hami_hub.core.units import Mib, format_vram
from hami_hub.slicepage import CardView, PageError, SliceView, read_slice

from .cdi import Owner
from .health import Condition
from .slices import NodeSlices

# A context is made before it is charged, and a page is read a moment after NVML was asked.
_LOOKS_BEFORE_TELLING = 3


@dataclass(frozen=True, slots=True)
class SliceUse:
    """A container's slice and what its page says."""

    owner: Owner
    view: SliceView


def read_uses(slices: NodeSlices) -> tuple[SliceUse, ...]:
    """All slices whose pages can be read; one that can't is left out, as its container can't use a card either."""
    uses = []
    for owner in slices.owners():
        try:
            uses.append(SliceUse(owner, read_slice(slices.directory(owner), same_pid_namespace=False)))
        except PageError:
            continue
    return tuple(uses)


def held_by_card(uses: Iterable[SliceUse]) -> Mapping[str, Sequence[CardView]]:
    """The slices' views of each card."""
    found: dict[str, list[CardView]] = defaultdict(list)
    for use in uses:
        for card in use.view.cards:
            found[card.uuid].append(card)
    return found


def unaccounted(conditions: Iterable[Condition], uses: Iterable[SliceUse]) -> Mapping[str, Mib]:
    """MiB of each card that no slice answers for.  A card that one slice has whole keeps no account: it isn't in it."""
    held = held_by_card(uses)
    found: dict[str, Mib] = {}
    for condition in conditions:
        uuid, used = condition.card.uuid, condition.reading.used
        views = held.get(uuid, ())
        if used is None or condition.reading.mig or any(view.whole for view in views):
            continue
        found[uuid] = Mib(max(0, used - sum(view.used for view in views)))
    return found


class Suspicion:
    """Says once when memory stays unaccounted for.

    Args:
        threshold: MiB; 0: never says anything.
    """

    def __init__(self, threshold: int) -> None:
        self._threshold = threshold
        self._looks: dict[str, int] = {}

    def see(self, amounts: Mapping[str, Mib]) -> tuple[str, ...]:
        """What is to be told after this look."""
        told = []
        for uuid, amount in amounts.items():
            above = self._threshold > 0 and amount >= self._threshold
            self._looks[uuid] = self._looks.get(uuid, 0) + 1 if above else 0
            if self._looks[uuid] == _LOOKS_BEFORE_TELLING:
                told.append(
                    f"{format_vram(amount)} of the card {uuid} are used by processes that no slice answers for: ones "
                    "outside of Kubernetes, or that got around the limiter. Look at `nvidia-smi` on the node."
                )
        return tuple(told)
