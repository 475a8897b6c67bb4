"""Who waits for room, in order of arrival, and who may go ahead.  Decides only; `spawner.allocator` does the waiting.

First come, first served: nobody is passed over for a card that would do for them, so that a whole card comes free for
the one who waits for it.  Those behind may start on cards that nobody before them could use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from .cards import Card, CardState, CardUuid
from .ledger import Ledger
from .messages import promised_to_others, why_no_room
from .offers import Availability, Offer
from .placement import NoRoom, shortfall
from .slices import Placement, SliceId, SliceRequest


@dataclass(frozen=True, slots=True)
class Turn:
    """One that still waits: `position` counts from 1, `reason` is a sentence for the person."""

    position: int
    reason: str


def serve(ledger: Ledger, waiting: Mapping[SliceId, SliceRequest]) -> dict[SliceId, Placement | Turn]:
    """Reserve in `ledger` for everybody whose turn it is; the others learn where they stand.

    Args:
        ledger: gets the new slices.
        waiting: in order of arrival.
    """
    answers: dict[SliceId, Placement | Turn] = {}
    ahead: list[SliceRequest] = []
    for holder, request in waiting.items():
        verdict = ledger.reserve(holder, _leaving(request, claimed_cards(ahead, ledger.cards)))
        if isinstance(verdict, Placement):
            answers[holder] = verdict
            continue
        ahead.append(request)
        answers[holder] = Turn(len(ahead), _reason(ledger, request, len(ahead) - 1))
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


def _reason(ledger: Ledger, request: SliceRequest, ahead: int) -> str:
    verdict = ledger.try_place(request)
    return why_no_room(verdict) if isinstance(verdict, NoRoom) else promised_to_others(ahead)


def _leaving(request: SliceRequest, cards: frozenset[CardUuid]) -> SliceRequest:
    wishes = replace(request.wishes, not_uuids=(*request.wishes.not_uuids, *sorted(cards)))
    return replace(request, wishes=wishes)
