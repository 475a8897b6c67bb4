"""The books: no order of reserve and release ever promises more of a card than it has."""

from __future__ import annotations

from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from hami_hub.core.cards import Card, CardUuid
from hami_hub.core.ledger import Ledger
from hami_hub.core.placement import NoRoom
from hami_hub.core.slices import CardShare, Placement, SliceId, SliceRequest
from hami_hub.core.units import Mib, Percent

from .strategies import cards, holders, requests


class LedgerMachine(RuleBasedStateMachine):
    """Any order of asking, asking again, leaving and a restart of the hub."""

    taken = Bundle("taken")

    @initialize(on=cards())
    def start(self, on: list[Card]) -> None:
        self.cards = on
        self.ledger = Ledger(on)
        self.model: dict[SliceId, Placement] = {}

    @rule(holder=holders, request=requests())
    def reserve(self, holder: SliceId, request: SliceRequest) -> None:
        tried = self.ledger.try_place(request) if holder not in self.model else None
        verdict = self.ledger.reserve(holder, request)
        if tried is not None:
            assert tried == verdict
        if not isinstance(verdict, NoRoom):
            self.model[holder] = verdict

    @rule(holder=holders)
    def release(self, holder: SliceId) -> None:
        assert self.ledger.release(holder) == self.model.pop(holder, None)

    @rule()
    def restart(self) -> None:
        again = Ledger(self.cards)
        for holder, placement in self.ledger.holders.items():
            again.restore(holder, placement)
        assert again.states() == self.ledger.states()
        self.ledger = again

    @invariant()
    def nobody_is_lost_or_doubled(self) -> None:
        assert dict(self.ledger.holders) == self.model

    @invariant()
    def no_card_is_over_committed(self) -> None:
        for state in self.ledger.states():
            shares = [s for p in self.model.values() for s in p.shares if s.uuid == state.card.uuid]
            assert sum(s.vram for s in shares) == state.used_vram <= state.card.vram
            assert sum(s.cores for s in shares) == state.used_cores <= 100
            assert len(shares) == state.slices <= state.card.split_count
            assert len(shares) == 1 or not any(s.exclusive for s in shares)


TestLedger = LedgerMachine.TestCase

T4 = Card(uuid=CardUuid("GPU-0"), index=0, model="Tesla T4", vram=Mib(15360))


def gib(amount: int) -> SliceRequest:
    return SliceRequest(vram=Mib(amount * 1024))


def test_asking_again_replaces_the_first_slice() -> None:
    ledger = Ledger([T4])
    ledger.reserve(SliceId("a/"), gib(10))
    assert isinstance(ledger.reserve(SliceId("a/"), gib(12)), Placement)
    assert ledger.states()[0].used_vram == 12 * 1024


def test_asking_again_in_vain_changes_nothing() -> None:
    ledger = Ledger([T4])
    ledger.reserve(SliceId("a/"), gib(10))
    before = dict(ledger.holders)
    assert isinstance(ledger.reserve(SliceId("a/"), gib(16)), NoRoom)
    assert dict(ledger.holders) == before


def test_what_ran_before_a_restart_counts_even_if_the_card_shrank() -> None:
    ledger = Ledger([T4])
    running = Placement(shares=(CardShare(T4.uuid, Mib(20_000), Percent(0)),))
    ledger.restore(SliceId("a/"), running)
    assert ledger.states()[0].free_vram == 0
    assert isinstance(ledger.reserve(SliceId("b/"), gib(1)), NoRoom)
    assert ledger.release(SliceId("a/")) == running
    assert isinstance(ledger.reserve(SliceId("b/"), gib(1)), Placement)


def test_a_card_that_vanishes_takes_no_new_slice_and_keeps_its_holders() -> None:
    ledger = Ledger([T4])
    ledger.reserve(SliceId("a/"), gib(4))
    ledger.update_cards([])
    assert isinstance(ledger.reserve(SliceId("b/"), gib(1)), NoRoom)
    ledger.update_cards([T4])
    assert ledger.states()[0].used_vram == 4096


def test_releasing_what_nobody_holds_is_no_error() -> None:
    assert Ledger([T4]).release(SliceId("nobody/")) is None
