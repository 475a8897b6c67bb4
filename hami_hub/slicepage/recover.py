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
from .life import counts_here
from .reader import load_limits


def read_placement(directory: Path) -> Placement:
    """The placement that the limits page was written from.  The tenant can't write there, so it can be trusted.

    Raises:
        PageError: no page, or a damaged one.
    """
    limits = load_limits(directory)
    cards = limits.cards[: limits.card_count]
    return Placement(
        shares=tuple(_share(card) for card in cards),
        priority=Priority(cards[0].priority) if cards else Priority.LOW,
        policy=CorePolicy[layout.PolicyCode(cards[0].policy).name] if cards else CorePolicy.DEFAULT,
        oom_killer=any(card.flags & layout.CardFlag.OOM_KILLER for card in cards),
    )


def claimed_pids(directory: Path) -> frozenset[int]:
    """The PIDs that the usage page lists, as far as they count in our /proc.

    The tenant writes there: a claim to check, never a fact.

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
    slots = layout.Usage.from_buffer_copy(content).processes
    return frozenset(slot.owner >> 32 for slot in slots if slot.owner and counts_here(slot))


def _share(card: layout.CardLimit) -> CardShare:
    whole = bool(card.flags & layout.CardFlag.WHOLE)
    return CardShare(
        uuid=CardUuid(card.uuid.decode(errors="replace")),
        vram=mib_down(card.vram),
        cores=Percent(card.cores),
        exclusive=whole or card.cores == WHOLE_CORES,
        whole=whole,
    )
