"""What a slice directory still says when whoever made it is gone: what it was granted, and who claims to be in it.

For rebuilding a ledger and for clearing up.  What the slice did is `reader`'s to tell.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

from ..core.cards import WHOLE_CORES, CardUuid
from ..core.slices import CardShare, CorePolicy, Placement, Priority
from ..core.units import Percent, mib_down
from . import layout
from .reader import PageError, load_page


def read_placement(directory: Path) -> Placement:
    """The placement that the limits page was written from.  The tenant can't write there, so it can be trusted.

    Raises:
        PageError: no page, or a damaged one.
    """
    limits = load_page(directory / layout.LIMITS_FILE, layout.Limits, layout.LIMITS_MAGIC)
    cards = limits.cards[: min(limits.card_count, layout.MAX_CARDS)]
    try:
        return Placement(
            shares=tuple(_share(card) for card in cards),
            priority=Priority(cards[0].priority) if cards else Priority.LOW,
            policy=CorePolicy[layout.PolicyCode(cards[0].policy).name] if cards else CorePolicy.DEFAULT,
        )
    except ValueError as error:
        raise PageError(f"The slice page {directory / layout.LIMITS_FILE} is damaged: {error}.") from None


def claimed_pids(directory: Path) -> frozenset[int]:
    """The PIDs that the usage page lists.  The tenant writes there: a claim to check, never a fact.

    A page that can't be read claims nobody.
    """
    size = ctypes.sizeof(layout.Usage)
    try:
        with (directory / layout.USAGE_FILE).open("rb") as file:
            content = file.read(size)
    except OSError:
        return frozenset()
    if len(content) != size:
        return frozenset()
    return frozenset(slot.owner >> 32 for slot in layout.Usage.from_buffer_copy(content).processes if slot.owner)


def _share(card: layout.CardLimit) -> CardShare:
    whole = bool(card.flags & layout.CardFlag.WHOLE)
    return CardShare(
        uuid=CardUuid(card.uuid.decode(errors="replace")),
        vram=mib_down(card.vram),
        cores=Percent(card.cores),
        exclusive=whole or card.cores == WHOLE_CORES,
        whole=whole,
    )
