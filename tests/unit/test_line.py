"""The line: nobody passes somebody by on a card that would do for them, and no card is ever over-committed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_hub.core.cards import Card, CardState, CardUuid
from hami_hub.core.ledger import Ledger
from hami_hub.core.line import Turn, claimed_cards, offers_from_behind, seen_from_behind, serve, why_waiting
from hami_hub.core.messages import in_line, waited_in_vain
from hami_hub.core.offers import Availability, offers
from hami_hub.core.profiles import parse_profiles
from hami_hub.core.slices import CardWishes, Placement, SliceId, SliceRequest
from hami_hub.core.units import Mib, Percent

from .strategies import cards, requests

T4 = Card(uuid=CardUuid("GPU-t4"), index=0, model="Tesla T4", vram=Mib(15360))
A10 = Card(uuid=CardUuid("GPU-a10"), index=1, model="NVIDIA A10", vram=Mib(23028))
WHOLE = SliceRequest()
SMALL = SliceRequest(vram=Mib(2048))


def names(*people: str) -> list[SliceId]:
    return [SliceId(f"{person}/") for person in people]


def test_a_small_slice_does_not_pass_by_one_who_waits_for_the_whole_card() -> None:
    alice, bob, carol = names("alice", "bob", "carol")
    ledger = Ledger([T4])
    ledger.reserve(alice, SMALL)
    answers = serve(ledger, {bob: WHOLE, carol: SMALL})
    assert {who: (turn.position, why_waiting(turn, 0)) for who, turn in answers.items() if isinstance(turn, Turn)} == {
        bob: (
            1,
            "The whole card is not free now: the Tesla T4 is shared by 1 other server. "
            "Wait until a server stops, or pick another profile.",
        ),
        carol: (2, "There is room, but 1 server ahead of you waits for it."),
    }
    ledger.release(alice)
    answers = serve(ledger, {bob: WHOLE, carol: SMALL})
    assert isinstance(answers[bob], Placement)
    assert isinstance(answers[carol], Turn)
    assert answers[carol].position == 1


def test_a_card_that_nobody_ahead_can_use_is_free_for_those_behind() -> None:
    alice, bob, carol = names("alice", "bob", "carol")
    ledger = Ledger([T4, A10])
    ledger.reserve(alice, SliceRequest(vram=Mib(1024), wishes=CardWishes(models=("T4",))))
    answers = serve(ledger, {bob: SliceRequest(wishes=CardWishes(models=("T4",))), carol: SMALL})
    assert isinstance(answers[bob], Turn)
    placed = answers[carol]
    assert isinstance(placed, Placement)
    assert placed.shares[0].uuid == A10.uuid


def test_the_form_promises_nobody_what_the_line_will_take() -> None:
    profiles = parse_profiles([{"name": "cpu", "gpu": False}, {"name": "small", "vram": "2 GiB"}, {"name": "whole"}])
    states = [CardState(card=T4, used_vram=Mib(4096), slices=1)]
    cpu, small, whole = offers_from_behind(offers(profiles, states), states, [WHOLE])
    assert cpu.availability is Availability.NOW
    assert (small.availability, small.text) == (
        Availability.WAITS,
        "There is room, but 1 server ahead of you waits for it.",
    )
    assert whole.availability is Availability.WAITS
    assert "is shared by 1 other server" in whole.text
    assert seen_from_behind(states, [WHOLE])[0].free_vram == 0
    assert seen_from_behind(states, []) == tuple(states)
    assert offers_from_behind(offers(profiles, states), states, []) == offers(profiles, states)


@given(on=cards(), held=st.lists(requests(), max_size=5), waiting=st.lists(requests(), max_size=8))
def test_in_any_line_nobody_passes_by_and_nothing_is_over_committed(
    on: list[Card], held: list[SliceRequest], waiting: list[SliceRequest]
) -> None:
    ledger = Ledger(on)
    for number, request in enumerate(held):
        ledger.reserve(SliceId(f"held{number}/"), request)
    line = {SliceId(f"waits{number}/"): request for number, request in enumerate(waiting)}
    answers = serve(ledger, line)
    assert list(answers) == list(line)
    for state in ledger.states():
        assert state.used_vram <= state.card.vram
        assert state.used_cores <= 100
        assert state.slices <= state.card.split_count
    ahead: list[SliceRequest] = []
    for holder, answer in answers.items():
        if isinstance(answer, Placement):
            assert ledger.holders[holder] == answer
            assert not {share.uuid for share in answer.shares} & claimed_cards(ahead, on)
        else:
            ahead.append(line[holder])
            assert answer.position == len(ahead)
            assert holder not in ledger.holders


@given(on=cards(), waiting=st.lists(requests(), min_size=1, max_size=5))
def test_the_first_in_line_gets_whatever_fits(on: list[Card], waiting: list[SliceRequest]) -> None:
    ledger = Ledger(on)
    fits = isinstance(ledger.try_place(waiting[0]), Placement)
    answers = serve(ledger, {SliceId(f"waits{number}/"): request for number, request in enumerate(waiting)})
    assert isinstance(answers[SliceId("waits0/")], Placement) == fits


@pytest.mark.parametrize(
    ("position", "text"),
    [(1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (12, "12th"), (21, "21st"), (112, "112th")],
)
def test_the_place_in_line_is_told_in_words(position: int, text: str) -> None:
    assert in_line(position, "Why.") == f"You are {text} in line. Why."


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "Why."),
        (1, "8 GiB · 50 % did not come free in 1 second. Why."),
        (90, "8 GiB · 50 % did not come free in 90 seconds. Why."),
        (600, "8 GiB · 50 % did not come free in 10 minutes. Why."),
        (7200, "8 GiB · 50 % did not come free in 2 hours. Why."),
    ],
)
def test_a_wait_in_vain_says_how_long_it_was(seconds: float, text: str) -> None:
    assert waited_in_vain(SliceRequest(vram=Mib(8192), cores=Percent(50)), seconds, "Why.") == text
