"""The answers to a pod that looks for room on several nodes.  Plain data: `fleet` finds them, `messages` says them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from .cards import CardUuid
from .placement import Lack
from .pods import ContainerAsk, PodUid
from .slices import Placement


@dataclass(frozen=True, slots=True)
class FleetPlacement:
    """The one node a pod goes to, and what each of its containers gets there."""

    node: str
    slices: Mapping[str, Placement]


class NodeLack(str, Enum):
    """What a whole node lacks, where each of its cards alone is not the reason."""

    NO_CARDS = "no-cards"  # it offers none, or is not known
    KUBELET_SLOTS = "kubelet-slots"  # pods that no scheduler of ours placed use them
    CARDS = "cards"  # fewer cards fit than are asked for
    TOGETHER = "together"  # each container would fit, all of them don't


@dataclass(frozen=True, slots=True)
class NearMiss:
    """The card that came nearest.  `asked` and `free` as in `Shortfall`."""

    node: str
    uuid: CardUuid
    model: str
    asked: int
    free: int


@dataclass(frozen=True, slots=True)
class CardsShort:
    """So many cards, on so many nodes, lack the same."""

    lack: Lack
    cards: int
    nodes: int
    nearest: NearMiss


@dataclass(frozen=True, slots=True)
class NodesShort:
    """So many nodes lack the same.  `nearest` is the best of them: of the `asked` cards or slots it has `free`."""

    lack: NodeLack
    nodes: int
    nearest: str = ""
    asked: int = 0
    free: int = 0


@dataclass(frozen=True, slots=True)
class FleetNoRoom:
    """No node has room for the pod.

    Attributes:
        asks: what the pod asks for.
        container: which of its containers falls short; the shortfalls are about that one.
        never: no card or node of the whole fleet would do even if nobody held anything of it.
        nodes: how many nodes were asked.
        cards: what cards lack, the most frequent first.
        short: what nodes lack.
    """

    asks: tuple[ContainerAsk, ...]
    container: str
    never: bool
    nodes: int
    cards: tuple[CardsShort, ...] = ()
    short: tuple[NodesShort, ...] = ()

    @property
    def reason(self) -> str:
        """A short fixed word for the most frequent lack, used as a metric's label."""
        if self.never:
            return "never"
        if self.cards:
            return self.cards[0].lack.value
        return self.short[0].lack.value if self.short else NodeLack.NO_CARDS.value


@dataclass(frozen=True, slots=True)
class Holding:
    """A pod that has slices on a node.

    Attributes:
        since: unix seconds; 0: not known.
        bound: False while the slices are only reserved for it.
    """

    uid: PodUid
    namespace: str
    name: str
    node: str
    slices: Mapping[str, Placement]
    since: int
    bound: bool
