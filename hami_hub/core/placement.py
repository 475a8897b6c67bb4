"""Which cards a slice goes to, or by how much each card falls short.  Decides only; `ledger` keeps the books."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from .cards import WHOLE_CORES, Card, CardState, CardUuid
from .slices import CardPolicy, CardShare, Placement, SliceRequest


class Lack(str, Enum):
    """What a card lacks for a request, in the order in which it is judged."""

    HEALTH = "health"
    CORDON = "cordon"  # an admin keeps new slices away from it
    WISH = "wish"  # the request excludes this model or UUID
    SIZE = "size"  # more is asked for than the card has in all
    EMPTY = "empty"  # the card is wanted for one slice alone, and others are on it
    TAKEN = "taken"  # one slice has the card for itself
    SLICES = "slices"
    VRAM = "vram"
    CORES = "cores"


@dataclass(frozen=True, slots=True)
class Shortfall:
    """Why one card won't do.  `asked` and `free` are MiB, percent or slices, as `lack` says."""

    uuid: CardUuid
    model: str
    lack: Lack
    asked: int = 0
    free: int = 0


@dataclass(frozen=True, slots=True)
class NoRoom:
    """The request doesn't fit.

    Attributes:
        request: what was asked.
        never: it would not fit on these cards even if nobody held anything of them.
        shortfalls: one for each card that won't do now, or, when `never`, that wouldn't do empty either.
        fitting: how many cards would do; fewer than asked.
    """

    request: SliceRequest
    shortfalls: tuple[Shortfall, ...]
    never: bool
    fitting: int = 0


def place(request: SliceRequest, states: Sequence[CardState], *, repairable: bool = False) -> Placement | NoRoom:
    """The placement of `request` on the cards as they are, without changing anything.

    Of the cards that fit, binpack takes those with the least free VRAM, spread those with the most; ties go to
    the lowest index.

    Args:
        request: what is asked for.
        states: the cards.
        repairable: a card that is out of order or closed is no reason to say never.
    """
    fitting = [state for state in states if shortfall(request, state) is None]
    if len(fitting) < request.cards:
        return _no_room(request, states, repairable)
    sign = -1 if request.card_policy is CardPolicy.SPREAD else 1
    fitting.sort(key=lambda state: (sign * state.free_vram, state.card.index))
    shares = tuple(share_of(request, state.card) for state in fitting[: request.cards])
    return placement_of(request, shares)


def placement_of(request: SliceRequest, shares: tuple[CardShare, ...], node: str = "") -> Placement:
    """`request`, placed on `shares`."""
    return Placement(
        shares=shares, priority=request.priority, policy=request.policy, node=node, oom_killer=request.oom_killer
    )


def share_of(request: SliceRequest, card: Card) -> CardShare:
    """What `request` takes of `card`."""
    return CardShare(
        uuid=card.uuid,
        vram=request.vram_of(card),
        cores=WHOLE_CORES if request.whole else request.cores,
        exclusive=request.exclusive,
        whole=request.whole,
    )


def shortfall(request: SliceRequest, state: CardState) -> Shortfall | None:
    """What `state`'s card lacks for `request`; None if it fits."""
    card, vram = state.card, request.vram_of(state.card)

    def lacks(lack: Lack, asked: int = 0, free: int = 0) -> Shortfall:
        return Shortfall(uuid=card.uuid, model=card.model, lack=lack, asked=asked, free=free)

    if not card.healthy:
        return lacks(Lack.HEALTH)
    if card.cordoned:
        return lacks(Lack.CORDON)
    if not request.wishes.allow(card):
        return lacks(Lack.WISH)
    if vram > card.vram:
        return lacks(Lack.SIZE, vram, card.vram)
    if state.exclusive:
        return lacks(Lack.TAKEN)
    if (request.exclusive or request.empty_card) and state.slices:
        return lacks(Lack.EMPTY, free=state.slices)
    if state.free_slices < 1:
        return lacks(Lack.SLICES, 1, 0)
    if vram > state.free_vram:
        return lacks(Lack.VRAM, vram, state.free_vram)
    # A slice without a share of its own would get nothing on a card whose time is all promised.
    if max(request.cores, 1) > state.free_cores:
        return lacks(Lack.CORES, request.cores, state.free_cores)
    return None


def _no_room(request: SliceRequest, states: Sequence[CardState], repairable: bool) -> NoRoom:
    now = [shortfall(request, state) for state in states]
    cards = [replace(s.card, healthy=True, cordoned=False) if repairable else s.card for s in states]
    empty = [shortfall(request, CardState(card=card)) for card in cards]
    never = empty.count(None) < request.cards
    judged = empty if never else now
    return NoRoom(
        request=request,
        shortfalls=tuple(lack for lack in judged if lack is not None),
        never=never,
        fitting=judged.count(None),
    )
