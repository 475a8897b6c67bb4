"""One machine's cards and slices: NVML, and the slice directories that the hub keeps.  `cluster` looks at a cluster."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from pathlib import Path

from ..cards import NoCardsError, memory_use, read_cards
from ..core.cards import Card, CardUuid
from ..core.units import Mib
from ..slicepage import PageError, SliceView, read_slice
from ..spawner.slice_root import SliceRoot
from .sight import CardSeen, Sight, SliceSeen

_CARDS_SECONDS = 30.0  # what NVML is asked for is the same for long, and asking may take a while


class MachineEyes:
    """Looks at this machine.

    Args:
        slice_root: as `c.GpuSlices.slice_root`.
        split_count: how many slices may share a card.
    """

    def __init__(self, slice_root: Path, split_count: int) -> None:
        self._root = SliceRoot(slice_root)
        self._split_count = split_count
        self._cards: tuple[Card, ...] = ()
        self._cards_until = 0.0
        self._problem = ""

    async def look(self) -> Sight:
        """What there is now."""
        return await asyncio.to_thread(self._look)

    def _look(self) -> Sight:
        if time.monotonic() >= self._cards_until:
            self._read_cards()
        views = list(_views(self._root.directories()))
        whole = {card.uuid for view in views for card in view.cards if card.whole}
        return Sight(
            cards=tuple(CardSeen(card=card) for card in self._cards),
            slices=tuple(_slices(views, {uuid: _on_card(uuid) for uuid in whole})),
            problems=(self._problem,) if self._problem else (),
        )

    def _read_cards(self) -> None:
        try:
            self._cards, self._problem = read_cards(split_count=self._split_count), ""
        except NoCardsError as error:
            self._cards, self._problem = (), str(error)
        self._cards_until = time.monotonic() + _CARDS_SECONDS


def _views(directories: Iterable[Path]) -> Iterable[SliceView]:
    for directory in directories:
        try:
            yield read_slice(directory)
        except PageError:
            continue  # one that is being made or removed


def _on_card(uuid: CardUuid) -> Mib | None:
    try:
        memory = memory_use(uuid)
    except NoCardsError:
        return None
    return memory.used if memory is not None else None


def _slices(views: Iterable[SliceView], on_card: dict[CardUuid, Mib | None]) -> Iterable[SliceSeen]:
    for view in views:
        for card in view.cards:
            yield SliceSeen(
                holder=view.name,
                card=card.uuid,
                vram=card.limit,
                cores=card.cores,
                exclusive=card.whole,
                # who has a whole card keeps no account: all that is in use on it is theirs
                used=on_card[card.uuid] if card.whole else card.used,
            )
