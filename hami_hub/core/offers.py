"""What each profile would come to right now, for one person: starts, waits and why, can't be had.

The form, the REST API and the dashboard show this; `profiles.choose` and `Ledger.reserve` enforce it, in a cluster its
scheduler.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from .budgets import Asked, Budget, Refused, affordable_vram, asked_of, payer
from .cards import Card, CardState, CardUuid
from .language import chained, later, say
from .messages import why_no_room
from .placement import Lack, NoRoom, place, shortfall
from .profiles import Profile
from .quota import Amount
from .slices import Placement, SliceRequest
from .units import Mib


class Availability(str, Enum):
    """What picking a profile leads to."""

    NOW = "now"
    WAITS = "waits"
    NEVER = "never"  # these cards can't hold it even when empty
    CLOSED = "closed"  # not open to this person
    UNKNOWN = "unknown"  # the cluster's scheduler can't be asked now
    OVER_QUOTA = "over-quota"  # no group of the person's pays for it now


@dataclass(frozen=True, slots=True)
class Offer:
    """A profile with what picking it leads to; `text` says why when it is not `NOW`.

    Attributes:
        charged: what it would be charged; where the amount is free, for what is preset.
        affordable: the most VRAM per card that a group of the person's would pay for now; None: no limit.
    """

    profile: Profile
    availability: Availability
    text: str = ""
    charged: Amount = Amount()
    affordable: Mib | None = None

    @property
    def selectable(self) -> bool:
        """Whether it makes sense to let the person pick it."""
        return self.availability in (Availability.NOW, Availability.WAITS, Availability.UNKNOWN)


def offers(profiles: Iterable[Profile], states: Sequence[CardState], groups: Collection[str] = ()) -> tuple[Offer, ...]:
    """Every profile, in the order of declaration, as it stands for a member of `groups`."""

    def no_room(request: SliceRequest) -> NoRoom | None:
        verdict = place(request, states)
        return verdict if isinstance(verdict, NoRoom) else None

    any_card = any(state.card.healthy and state.card.vram for state in states)
    return tuple(_offer(profile, groups, no_room, any_card, in_cluster=False) for profile in profiles)


def offers_on_nodes(
    profiles: Iterable[Profile], nodes: Mapping[str, Sequence[CardState]], groups: Collection[str] = ()
) -> tuple[Offer, ...]:
    """As `offers`, where the cards of one slice must be on one of `nodes`."""
    distinct = _distinct(nodes)

    def no_room(request: SliceRequest) -> NoRoom | None:
        return _no_room_on(request, nodes, distinct)

    any_card = any(state.card.vram for state in distinct)
    return tuple(_offer(profile, groups, no_room, any_card, in_cluster=True) for profile in profiles)


def unknown_offers(profiles: Iterable[Profile], groups: Collection[str] = ()) -> tuple[Offer, ...]:
    """As `offers`, where nobody can say what is free."""
    return tuple(
        Offer(profile, Availability.UNKNOWN)
        if profile.request is not None and profile.open_to(groups)
        else _offer(profile, groups, lambda request: None, False, in_cluster=True)
        for profile in profiles
    )


def offers_within(
    offered: Iterable[Offer],
    budgets: Sequence[Budget],
    user: str,
    cards: Collection[Card],
    why: Callable[[Refused], str],
) -> tuple[Offer, ...]:
    """`offered` as it stands for a person whose servers `budgets` pay for.

    Args:
        offered: as the cards allow it.
        budgets: see `budgets.payer`.
        user: their name.
        cards: of what is asked for by the card, the biggest counts.
        why: says a refusal.
    """
    return tuple(_within(offer, budgets, user, cards, why) for offer in offered)


def _offer(
    profile: Profile,
    groups: Collection[str],
    no_room: Callable[[SliceRequest], NoRoom | None],
    any_card: bool,
    *,
    in_cluster: bool,
) -> Offer:
    if not profile.open_to(groups):
        groups_text = chained(later("{a} or {b}"), sorted(profile.groups))
        return Offer(profile, Availability.CLOSED, say("Only for members of {groups}.", groups=groups_text))
    if profile.request is None:
        return Offer(profile, Availability.NOW)
    verdict = no_room(profile.request)
    if verdict is None:
        return Offer(profile, Availability.NOW)
    text = why_no_room(verdict, in_cluster=in_cluster)
    # Where the amount is free, a smaller one than the preset may still fit.
    if profile.bounds is not None and any_card:
        return Offer(profile, Availability.WAITS, text)
    return Offer(profile, Availability.NEVER if verdict.never else Availability.WAITS, text)


def _within(
    offer: Offer, budgets: Sequence[Budget], user: str, cards: Collection[Card], why: Callable[[Refused], str]
) -> Offer:
    profile = offer.profile
    if profile.request is None or offer.availability is Availability.CLOSED:
        return offer
    asked = asked_of(user, profile.name, profile.request, cards)
    offer = replace(offer, charged=asked.amount, affordable=_affordable(budgets, asked))
    # Where the amount is free, a smaller one than the preset may be paid.
    verdict = payer(budgets, _least(profile, asked))
    if offer.availability is Availability.NEVER or isinstance(verdict, Budget):
        return offer
    preset = payer(budgets, asked)
    return replace(
        offer, availability=Availability.OVER_QUOTA, text=why(preset if isinstance(preset, Refused) else verdict)
    )


def _least(profile: Profile, asked: Asked) -> Asked:
    if profile.bounds is None:
        return asked
    return replace(asked, vram=Mib(profile.bounds.min_vram * asked.cards), cores=0)


def _affordable(budgets: Iterable[Budget], asked: Asked) -> Mib | None:
    most = Mib(0)
    for budget in budgets:
        fits = affordable_vram(budget, asked)
        if fits is None:
            return None
        most = max(most, fits)
    return Mib(most // max(1, asked.cards))


def _no_room_on(
    request: SliceRequest, nodes: Mapping[str, Sequence[CardState]], distinct: Sequence[CardState]
) -> NoRoom | None:
    """Why no node has room: about all cards, or, for several of them, about the node that came nearest."""
    named = request.wishes.uuids or request.wishes.not_uuids
    if request.cards == 1:
        states = [state for states in nodes.values() for state in states] if named else distinct
        verdict = place(request, states, repairable=True)
        if isinstance(verdict, Placement):
            return None
        return verdict if distinct else replace(verdict, never=False)
    nearest: NoRoom | None = None
    for states in nodes.values():
        if sum(shortfall(request, state) is None for state in states) >= request.cards:
            return None
    for states in nodes.values():
        verdict = place(request, states, repairable=True)
        if isinstance(verdict, NoRoom) and (nearest is None or _nearness(verdict) > _nearness(nearest)):
            nearest = verdict
    # Without any node nothing is known: one may come.
    return nearest or NoRoom(request, (), never=False)


def _nearness(no_room: NoRoom) -> tuple[bool, int, int]:
    free = max((short.free for short in no_room.shortfalls if short.lack is Lack.VRAM), default=0)
    return not no_room.never, no_room.fitting, free


def _distinct(nodes: Mapping[str, Sequence[CardState]]) -> tuple[CardState, ...]:
    """One of each kind of card in each state: in a cluster of thousands there are not many."""
    nameless: dict[tuple[object, ...], CardState] = {}
    for states in nodes.values():
        for state in states:
            card = state.card
            key = (card.model, card.vram, card.split_count, card.healthy, card.cordoned,
                   state.used_vram, state.used_cores, state.slices, state.exclusive)  # fmt: skip
            nameless.setdefault(key, state)
    return tuple(
        replace(state, card=replace(state.card, uuid=CardUuid(f"{number}"), index=number))
        for number, state in enumerate(nameless.values())
    )
