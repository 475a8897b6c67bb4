"""What people are told about room on the cards: a sentence with the value, the rule and a way out."""

from __future__ import annotations

import pytest
from hypothesis import given

from hami_hub.core.cards import Card, CardState, CardUuid
from hami_hub.core.messages import describe_card, describe_placement, describe_request, largest_fit, why_no_room
from hami_hub.core.offers import Availability, offers
from hami_hub.core.placement import NoRoom, place
from hami_hub.core.profiles import parse_profiles
from hami_hub.core.slices import Placement, SliceRequest
from hami_hub.core.state import StateError, placement_from_json, placement_to_json
from hami_hub.core.units import Mib, Percent

from .strategies import placements

T4 = Card(uuid=CardUuid("GPU-0"), index=0, model="Tesla T4", vram=Mib(15360))


def state(used_gib: int = 0, cores: int = 0, slices: int = 0, exclusive: bool = False, card: Card = T4) -> CardState:
    return CardState(card, Mib(used_gib * 1024), Percent(cores), slices, exclusive)


@pytest.mark.parametrize(
    ("on", "says"),
    [
        (state(4, slices=1), "Tesla T4, 15 GiB, 11 GiB free"),
        (state(), "Tesla T4, 15 GiB, all free"),
        (state(15, slices=1, exclusive=True), "Tesla T4, 15 GiB, taken"),
        (state(15, slices=3), "Tesla T4, 15 GiB, taken"),
    ],
)
def test_a_card_in_one_line(on: CardState, says: str) -> None:
    assert describe_card(on) == says


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        (None, "no GPU"),
        (SliceRequest(vram=Mib(4096), cores=Percent(25)), "4 GiB · 25 %"),
        (SliceRequest(), "the whole card"),
        (SliceRequest(vram=Mib(8192), cards=2), "2 cards of 8 GiB each"),
        (SliceRequest(vram_percent=Percent(50)), "50 % of the VRAM"),
    ],
)
def test_a_request_in_a_few_words(request_: SliceRequest | None, says: str) -> None:
    assert describe_request(request_) == says


@pytest.mark.parametrize(
    ("request_", "states", "says"),
    [
        pytest.param(
            SliceRequest(vram=Mib(8192), cores=Percent(50)), [state(12, 50, 3)],
            "8 GiB · 50 % is not free now: the Tesla T4 has 3 GiB free, 8 GiB are asked for. "
            "Pick 3 GiB or less, or wait until a server stops.",
            id="not now"),
        pytest.param(
            SliceRequest(vram=Mib(16384)), [state(8, slices=2)],
            "16 GiB can never fit here: the Tesla T4 has 15 GiB in all, 16 GiB are asked for. "
            "Pick 15 GiB or less, or a profile without a GPU.",
            id="never"),
        pytest.param(
            SliceRequest(vram=Mib(1024), cards=2), [state(15, slices=2)],
            "2 cards of 1 GiB each can never fit here: 2 cards are asked for, this machine has 1. "
            "Pick another profile.",
            id="more cards than there are"),
        pytest.param(
            SliceRequest(), [state(4, slices=1)],
            "The whole card is not free now: the Tesla T4 is shared by 1 other server. "
            "Wait until a server stops, or pick another profile.",
            id="whole card"),
        pytest.param(
            SliceRequest(vram=Mib(1024)), [state(15, 100, 1, True)],
            "1 GiB is not free now: one server has all of the Tesla T4. "
            "Wait until a server stops, or pick another profile.",
            id="taken"),
        pytest.param(
            SliceRequest(vram=Mib(1024)), [],
            "This machine has no GPU. Pick a profile without one, or ask an admin to run `hami-hub doctor`.",
            id="no card"),
    ],
)  # fmt: skip
def test_why_there_is_no_room(request_: SliceRequest, states: list[CardState], says: str) -> None:
    verdict = place(request_, states)
    assert isinstance(verdict, NoRoom)
    assert why_no_room(verdict) == says


def test_equal_cards_that_are_taken_are_said_once() -> None:
    cards = [Card(CardUuid(f"GPU-{i}"), i, "Tesla T4", Mib(15360)) for i in range(8)]
    verdict = place(SliceRequest(vram=Mib(1024)), [state(15, 100, 1, True, card) for card in cards])
    assert isinstance(verdict, NoRoom)
    assert why_no_room(verdict).count("Tesla T4") == 1


def test_a_placement_in_a_few_words() -> None:
    placed = place(SliceRequest(vram=Mib(4096), cores=Percent(25)), [state()])
    assert isinstance(placed, Placement)
    assert describe_placement(placed, [state()]) == "4 GiB · 25 % of a Tesla T4"


def test_the_largest_amount_that_fits_now() -> None:
    assert largest_fit([state(4, slices=1), state(9, slices=1)], SliceRequest()) == 11 * 1024
    assert largest_fit([state(4, cores=100, slices=1)], SliceRequest()) == 0


PROFILES = parse_profiles(
    [
        {"name": "cpu", "gpu": False},
        {"name": "small", "vram": "4 GiB"},
        {"name": "huge", "vram": "80 GiB"},
        {"name": "whole"},
        {"name": "staff", "vram": "1 GiB", "groups": ["staff"]},
        {"name": "other", "vram": "80 GiB", "min_vram": "1 GiB"},
    ]
)


def test_what_each_profile_leads_to() -> None:
    found = {offer.profile.name: offer.availability for offer in offers(PROFILES, [state(4, slices=1)])}
    assert found == {
        "cpu": Availability.NOW,
        "small": Availability.NOW,
        "huge": Availability.NEVER,
        "whole": Availability.WAITS,
        "staff": Availability.CLOSED,
        "other": Availability.WAITS,
    }


def test_every_offer_that_does_not_start_now_says_why() -> None:
    for offer in offers(PROFILES, [state(4, slices=1)]):
        assert bool(offer.text) == (offer.availability is not Availability.NOW)


def test_without_a_card_only_the_cpu_can_be_picked() -> None:
    assert [offer.profile.name for offer in offers(PROFILES, []) if offer.selectable] == ["cpu"]


@given(placements)
def test_a_placement_survives_the_hubs_database(placement: Placement) -> None:
    assert placement_from_json(placement_to_json(placement)) == placement


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"shares": 1},
        {"shares": [{}], "priority": 1, "policy": "default"},
        {"shares": [], "priority": 7, "policy": "default"},
    ],
)
def test_a_saved_state_of_something_else_is_refused(data: dict[str, object]) -> None:
    with pytest.raises(StateError, match="can't be read"):
        placement_from_json(data)
