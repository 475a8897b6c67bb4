"""The books: who holds what of which card.  In memory only; rebuilt from what runs, never stored.

Invariant: after every call the sum of the holders' shares of a card is within the card, except for what `restore`
put back after a restart: that runs already, so it counts whether it fits or not, and blocks new slices until it ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from .cards import Card, CardState, CardUuid
from .placement import NoRoom, place
from .slices import Placement, SliceId, SliceRequest
from .units import Mib, Percent


class Ledger:
    """The cards of one node and the slices on them.  Not thread-safe: one owner calls it."""

    def __init__(self, cards: Iterable[Card]) -> None:
        self._cards: dict[CardUuid, Card] = {card.uuid: card for card in cards}
        self._holders: dict[SliceId, Placement] = {}

    @property
    def holders(self) -> Mapping[SliceId, Placement]:
        """Every reserved slice, oldest first."""
        return MappingProxyType(self._holders)

    @property
    def cards(self) -> tuple[Card, ...]:
        """The cards, in the order of their index."""
        return tuple(sorted(self._cards.values(), key=lambda card: card.index))

    def states(self, *, without: SliceId | None = None) -> tuple[CardState, ...]:
        """Every card with what is taken of it; `without` leaves one holder out."""
        return tuple(self._state(card, without) for card in self.cards)

    def try_place(self, request: SliceRequest) -> Placement | NoRoom:
        """What `reserve` would answer now, with nothing reserved."""
        return place(request, self.states())

    def reserve(self, holder: SliceId, request: SliceRequest) -> Placement | NoRoom:
        """Find room for `request` and keep it for `holder`.  A second call for a holder replaces its first slice
        if there is room for the new one with the old one gone, and changes nothing otherwise.
        """
        verdict = place(request, self.states(without=holder))
        if isinstance(verdict, Placement):
            self._holders.pop(holder, None)
            self._holders[holder] = verdict
        return verdict

    def restore(self, holder: SliceId, placement: Placement) -> None:
        """Put back what `holder` is known to hold, after a restart of whoever keeps this ledger."""
        self._holders[holder] = placement

    def release(self, holder: SliceId) -> Placement | None:
        """Give back what `holder` holds.  A holder of nothing is no error."""
        return self._holders.pop(holder, None)

    def update_cards(self, cards: Iterable[Card]) -> None:
        """Take the cards as they are now (one may have failed or gone); holders keep what they have."""
        self._cards = {card.uuid: card for card in cards}

    def _state(self, card: Card, without: SliceId | None) -> CardState:
        shares = [
            share
            for holder, placement in self._holders.items()
            if holder != without
            for share in placement.shares
            if share.uuid == card.uuid
        ]
        return CardState(
            card=card,
            used_vram=Mib(sum(share.vram for share in shares)),
            used_cores=Percent(sum(share.cores for share in shares)),
            slices=len(shares),
            exclusive=any(share.exclusive for share in shares),
        )
