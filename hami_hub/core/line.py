"""Who waits for room, and who may go ahead.  Decides only; `fairness` says in which order, `spawner.allocator` waits.

Who is first is served first: nobody is passed over for a card that would do for them, so that a whole card comes free
for the one who waits for it.  Those behind may start on cards that nobody before them could use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from .cards import Card, CardState, CardUuid
from .language import later, say
from .ledger import Ledger
from .messages import frees_next, promised_to_others, why_no_room
from .offers import Availability, Offer
from .placement import NoRoom, shortfall
from .slices import Placement, SliceId, SliceRequest
from .units import Mib

_SENTENCES = later("{a} {b}")


@dataclass(frozen=True, slots=True)
class Frees:
    """A slice that its server's time limit frees: how much VRAM, and by when, in Unix time."""

    vram: Mib
    until: float


@dataclass(frozen=True, slots=True)
class Turn:
    """One that still waits.  `why_waiting` says it.

    Attributes:
        position: in line, from 1.
        no_room: why no card will do; None: one would, and is promised to those ahead.
        frees: the next that comes free by its time limit, of what would help.
    """

    position: int
    no_room: NoRoom | None
    frees: Frees | None = None


def why_waiting(turn: Turn, now: float) -> str:
    """Why somebody waits, and until when at the longest if that is known: sentences for them."""
    why = promised_to_others(turn.position - 1) if turn.no_room is None else why_no_room(turn.no_room)
    return with_frees(why, turn.frees, now)


def with_frees(why: str, frees: Frees | None, now: float) -> str:
    """`why` somebody waits, and by when what would help comes free, if that is known."""
    if frees is None:
        return why
    return say(_SENTENCES, a=why, b=frees_next(frees.vram, max(0.0, frees.until - now)))


def serve(
    ledger: Ledger, waiting: Mapping[SliceId, SliceRequest], ends: Mapping[SliceId, float] | None = None
) -> dict[SliceId, Placement | Turn]:
    """Reserve in `ledger` for everybody whose turn it is; the others learn where they stand.

    Args:
        ledger: gets the new slices.
        waiting: who goes first comes first.
        ends: Unix time when slices end by their time limits, of those that have one.
    """
    answers: dict[SliceId, Placement | Turn] = {}
    ahead: list[SliceRequest] = []
    for holder, request in waiting.items():
        verdict = ledger.reserve(holder, _leaving(request, claimed_cards(ahead, ledger.cards)))
        if isinstance(verdict, Placement):
            answers[holder] = verdict
            continue
        ahead.append(request)
        why = ledger.try_place(request)
        no_room = why if isinstance(why, NoRoom) else None
        answers[holder] = Turn(len(ahead), no_room, next_freed(request, [ledger.cards], ledger.holders, ends or {}))
    return answers


def claimed_cards(waiting: Iterable[SliceRequest], cards: Iterable[Card]) -> frozenset[CardUuid]:
    """The cards that would do for somebody in line, were they empty."""
    requests = tuple(waiting)
    return frozenset(
        card.uuid for card in cards if any(shortfall(request, CardState(card=card)) is None for request in requests)
    )


def seen_from_behind(states: Sequence[CardState], waiting: Sequence[SliceRequest]) -> tuple[CardState, ...]:
    """The cards as they are for a newcomer: what the line claims is taken."""
    claimed = claimed_cards(waiting, (state.card for state in states))
    return tuple(replace(state, exclusive=True) if state.card.uuid in claimed else state for state in states)


def offers_from_behind(
    offers: Iterable[Offer], states: Sequence[CardState], waiting: Sequence[SliceRequest]
) -> tuple[Offer, ...]:
    """`offers` as they stand for a newcomer: what fits only on cards that the line claims waits as well."""
    claimed = claimed_cards(waiting, (state.card for state in states))
    return tuple(_behind(offer, claimed, states, len(waiting)) for offer in offers)


def _behind(offer: Offer, claimed: frozenset[CardUuid], states: Sequence[CardState], ahead: int) -> Offer:
    request = offer.profile.request
    if offer.availability is not Availability.NOW or request is None:
        return offer
    free = [state for state in states if state.card.uuid not in claimed and shortfall(request, state) is None]
    if len(free) >= request.cards:
        return offer
    return replace(offer, availability=Availability.WAITS, text=promised_to_others(ahead))


def next_freed(
    request: SliceRequest,
    machines: Iterable[Iterable[Card]],
    holders: Mapping[SliceId, Placement],
    ends: Mapping[SliceId, float],
) -> Frees | None:
    """The next slice that a time limit frees on a card which would do for `request`, were it empty.

    Args:
        request: what somebody waits for.
        machines: cards, those of one machine together: a slice of several is had on one.
        holders: who holds what, also on other cards.
        ends: Unix time when slices end by their time limits, of those that have one.
    """
    claims = (claimed_cards((request,), cards) for cards in machines)
    would_do = frozenset().union(*(claim for claim in claims if len(claim) >= request.cards))
    found = [
        Frees(share.vram, ends[holder])
        for holder, placement in holders.items()
        if holder in ends
        for share in placement.shares
        if share.uuid in would_do
    ]
    return min(found, key=lambda each: (each.until, -each.vram), default=None)


def _leaving(request: SliceRequest, cards: frozenset[CardUuid]) -> SliceRequest:
    wishes = replace(request.wishes, not_uuids=(*request.wishes.not_uuids, *sorted(cards)))
    return replace(request, wishes=wishes)
