"""The machine's cards as the form shows them: each on its own line, or equal ones together where there are many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...core.cards import CardState
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
    return CardLine(
        f"{len(group)} × {card.model}, {format_gib(card.vram)} each: {_summary(group)}",
        tuple(_bar(state) for state in group),
    )


def _summary(group: Sequence[CardState]) -> str:
    healthy = [state for state in group if state.card.healthy]
    free = [state for state in healthy if not state.slices]
    partly = [state for state in healthy if state.slices and state.free_vram]
    taken = len(healthy) - len(free) - len(partly)
    most = max((state.free_vram for state in partly), default=Mib(0))
    parts = (
        (len(free), "all free"),
        (len(partly), f"with up to {format_gib(most)} free"),
        (taken, "taken"),
        (len(group) - len(healthy), "out of order"),
    )
    return ", ".join(f"{count} {words}" for count, words in parts if count)


def _bar(state: CardState) -> Bar:
    if not state.card.healthy:
        return Bar(100, healthy=False)
    taken = state.card.vram - state.free_vram
    # Rounded up: a card of which something is taken never looks empty.
    return Bar(-(-taken * 100 // max(1, state.card.vram)))
