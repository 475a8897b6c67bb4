"""What people are told.  Every sentence about room on the cards is made here, so that form, progress page, REST API and
log say the same.  Plain text; whoever puts it into a page escapes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .cards import CardState
from .placement import Lack, NoRoom, Shortfall
from .slices import Placement, SliceRequest
from .units import Mib, format_gib, format_vram


def describe_card(state: CardState) -> str:
    """One line about a card: "Tesla T4, 15 GiB, 11 GiB free"."""
    card = state.card
    if not card.healthy:
        return f"{card.model}, {format_gib(card.vram)}, out of order"
    if not state.slices:
        return f"{card.model}, {format_gib(card.vram)}, all free"
    if state.exclusive or not state.free_vram:
        return f"{card.model}, {format_gib(card.vram)}, taken"
    return f"{card.model}, {format_gib(card.vram)}, {format_gib(state.free_vram)} free"


def describe_request(request: SliceRequest | None) -> str:
    """What is asked for, in a few words: "4 GiB · 25 %", "the whole card", "2 cards of 8 GiB each"."""
    if request is None:
        return "no GPU"
    if request.whole:
        return "the whole card" if request.cards == 1 else f"{request.cards} whole cards"
    amount = f"{request.vram_percent} % of the VRAM" if request.vram is None else format_vram(request.vram)
    cores = f" · {request.cores} %" if request.cores else ""
    return f"{amount}{cores}" if request.cards == 1 else f"{request.cards} cards of {amount}{cores} each"


def describe_placement(placement: Placement, states: Iterable[CardState]) -> str:
    """Where a slice went: "4 GiB · 25 % of a Tesla T4"."""
    models = {state.card.uuid: state.card.model for state in states}
    parts = []
    for share in placement.shares:
        model = models.get(share.uuid, "card")
        cores = f" · {share.cores} %" if share.cores else ""
        parts.append(f"a whole {model}" if share.exclusive else f"{format_vram(share.vram)}{cores} of a {model}")
    return " and ".join(parts)


def why_no_room(no_room: NoRoom) -> str:
    """Why a request doesn't fit, and what would: sentences for the person who asked."""
    if not no_room.shortfalls and not no_room.fitting:
        return "This machine has no GPU. Pick a profile without one, or ask an admin to run `hami-hub doctor`."
    asked = _capital(describe_request(no_room.request))
    reasons = "; ".join(_reason(shortfall) for shortfall in _distinct(no_room.shortfalls))
    if no_room.never:
        return f"{asked} can never fit here: {reasons or _too_few(no_room)}. {_way_out(no_room)}"
    return f"{asked} {'are' if no_room.request.cards > 1 else 'is'} not free now: {reasons}. {_way_out(no_room)}"


def promised_to_others(ahead: int) -> str:
    """Why a request waits although it would fit."""
    return f"There is room, but {_count(ahead, 'server')} ahead of you {'waits' if ahead == 1 else 'wait'} for it."


def in_line(position: int, reason: str) -> str:
    """Where in line somebody is, and why they wait."""
    return f"You are {_ordinal(position)} in line. {reason}"


def waited_in_vain(request: SliceRequest, seconds: float, reason: str) -> str:
    """The end of a wait that came to nothing; of no wait at all, just the reason."""
    if not seconds:
        return reason
    return f"{_capital(describe_request(request))} did not come free in {_duration(seconds)}. {reason}"


def largest_fit(states: Iterable[CardState], request: SliceRequest) -> Mib:
    """The most VRAM on one card that a request like this could have now; 0 if no card takes another slice."""
    fits = (
        state.free_vram
        for state in states
        if state.card.healthy
        and request.wishes.allow(state.card)
        and state.free_slices
        and state.free_cores >= max(request.cores, 1)
    )
    return max(fits, default=Mib(0))


def _reason(shortfall: Shortfall) -> str:
    name = f"the {shortfall.model}"
    if shortfall.lack is Lack.VRAM:
        return f"{name} has {format_vram(Mib(shortfall.free))} free, {format_vram(Mib(shortfall.asked))} are asked for"
    if shortfall.lack is Lack.SIZE:
        return (
            f"{name} has {format_vram(Mib(shortfall.free))} in all, {format_vram(Mib(shortfall.asked))} are asked for"
        )
    return {
        Lack.HEALTH: f"{name} is out of order",
        Lack.WISH: f"{name} is not a card that was asked for",
        Lack.EMPTY: f"{name} is shared by {_count(shortfall.free, 'other server')}",
        Lack.TAKEN: f"one server has all of the {shortfall.model}",
        Lack.SLICES: f"{name} can't be cut into more slices",
        Lack.CORES: f"{name} has {shortfall.free} % of its time free, {max(shortfall.asked, 1)} % are asked for",
    }[shortfall.lack]


def _way_out(no_room: NoRoom) -> str:
    if no_room.never:
        sizes = [s.free for s in no_room.shortfalls if s.lack is Lack.SIZE and s.free]
        if sizes and no_room.request.cards == 1:
            return f"Pick {format_vram(Mib(max(sizes)))} or less, or a profile without a GPU."
        return "Pick another profile."
    frees = [s.free for s in no_room.shortfalls if s.lack is Lack.VRAM and s.free]
    if frees and not no_room.request.exclusive:
        return f"Pick {format_vram(Mib(max(frees)))} or less, or wait until a server stops."
    return "Wait until a server stops, or pick another profile."


def _too_few(no_room: NoRoom) -> str:
    return f"{no_room.request.cards} cards are asked for, this machine has {no_room.fitting}"


def _distinct(shortfalls: Sequence[Shortfall]) -> list[Shortfall]:
    """One of each kind: eight equal cards that are taken are said once."""
    seen: dict[tuple[str, Lack], Shortfall] = {}
    for shortfall in shortfalls:
        key = (shortfall.model, shortfall.lack)
        if key not in seen or shortfall.free > seen[key].free:
            seen[key] = shortfall
    return list(seen.values())


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _ordinal(number: int) -> str:
    teen = number % 100 in (11, 12, 13)
    return f"{number}{'th' if teen else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"


def _duration(seconds: float) -> str:
    whole = round(seconds)
    return _count(whole // 60, "minute") if whole >= 60 and whole % 60 == 0 else _count(whole, "second")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
