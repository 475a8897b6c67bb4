"""What a slice's page says of its cards, as `core.escapes` compares it with what the driver says."""

from __future__ import annotations

from ..core.escapes import SliceUse
from ..core.slices import SliceId
from .reader import SliceView


def uses_of(holder: SliceId, view: SliceView) -> list[SliceUse]:
    """The page of `holder`'s slice, card by card."""
    return [
        SliceUse(holder, card.uuid, card.limit, {each.pid: each.used[index] for each in view.processes}, card.whole)
        for index, card in enumerate(view.cards)
    ]
