"""The machine's cards as the form shows them: each on its own line, or equal ones together where there are many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...core.cards import CardState
from ...core.language import chained, later, say
from ...core.messages import describe_card
from ...core.units import Mib, format_gib

# So many fit above the profiles without pushing them off the screen.
_LINES = 4


@dataclass(frozen=True, slots=True)
class Bar:
    """One card's VRAM: `taken` percent of it; of an unhealthy card, all."""

    taken: int
    healthy: bool = True


@dataclass(frozen=True, slots=True)
class CardLine:
    """A card, or a group of equal ones; `text` says all that the bars show."""

    text: str
    bars: tuple[Bar, ...]


def card_lines(cards: Sequence[CardState]) -> tuple[CardLine, ...]:
    """The lines, in the order of the cards."""
    if len(cards) <= _LINES:
        return tuple(CardLine(describe_card(state), (_bar(state),)) for state in cards)
    groups: dict[tuple[str, Mib], list[CardState]] = {}
    for state in cards:
        groups.setdefault((state.card.model, state.card.vram), []).append(state)
    return tuple(_group_line(group) for group in groups.values())


def _group_line(group: Sequence[CardState]) -> CardLine:
    if len(group) == 1:
        return CardLine(describe_card(group[0]), (_bar(group[0]),))
    card = group[0].card
    text = say(
        "{n} × {model}, {vram} each: {states}",
        n=len(group),
        model=card.model,
        vram=format_gib(card.vram),
        states=_summary(group),
    )
    return CardLine(text, tuple(_bar(state) for state in group))


def _summary(group: Sequence[CardState]) -> str:
    healthy = [state for state in group if state.card.healthy]
    free = [state for state in healthy if not state.slices]
    partly = [state for state in healthy if state.slices and state.free_vram]
    taken = len(healthy) - len(free) - len(partly)
    broken = len(group) - len(healthy)
    most = format_gib(max((state.free_vram for state in partly), default=Mib(0)))
    parts = (
        say("{n} all free", n=len(free)) if free else "",
        say("{n} with up to {vram} free", n=len(partly), vram=most) if partly else "",
        say("{n} taken", n=taken) if taken else "",
        say("{n} out of order", n=broken) if broken else "",
    )
    return chained(later("{a}, {b}"), filter(None, parts))


def _bar(state: CardState) -> Bar:
    if not state.card.healthy:
        return Bar(100, healthy=False)
    taken = state.card.vram - state.free_vram
    # Rounded up: a card of which something is taken never looks empty.
    return Bar(-(-taken * 100 // max(1, state.card.vram)))
