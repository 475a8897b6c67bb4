"""Which cards a slice goes to, and what each lacks when it goes nowhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_hub.core.cards import Card, CardState, CardUuid
from hami_hub.core.placement import Lack, NoRoom, place, shortfall
from hami_hub.core.slices import CardPolicy, CardWishes, Placement, SliceRequest
from hami_hub.core.units import AmountError, Mib, Percent

from .strategies import cards, requests


def card(index: int = 0, *, vram: int = 15360, model: str = "Tesla T4", **more: object) -> Card:
    return Card(uuid=CardUuid(f"GPU-{index}"), index=index, model=model, vram=Mib(vram), **more)  # type: ignore[arg-type]


def state(
    index: int = 0, *, used: int = 0, cores: int = 0, slices: int = 0, exclusive: bool = False, **more: object
) -> CardState:
    return CardState(card(index, **more), Mib(used), Percent(cores), slices, exclusive)


def gib(amount: int, cores: int = 0, **more: object) -> SliceRequest:
    return SliceRequest(vram=Mib(amount * 1024), cores=Percent(cores), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("request_", "on", "lack"),
    [
        pytest.param(gib(4), state(), None, id="empty card"),
        pytest.param(gib(4), state(used=11264, slices=3), None, id="exactly what is left"),
        pytest.param(gib(5), state(used=11264, slices=3), Lack.VRAM, id="one GiB too much"),
        pytest.param(gib(16), state(), Lack.SIZE, id="more than the card"),
        pytest.param(gib(1, 50), state(cores=50, slices=1), None, id="exactly the cores left"),
        pytest.param(gib(1, 51), state(cores=50, slices=1), Lack.CORES, id="one percent too much"),
        pytest.param(gib(1), state(cores=100, slices=2), Lack.CORES, id="no share on a card that is all promised"),
        pytest.param(gib(1), state(slices=10), Lack.SLICES, id="split count reached"),
        pytest.param(SliceRequest(), state(), None, id="whole card, empty"),
        pytest.param(SliceRequest(), state(used=1, slices=1), Lack.EMPTY, id="whole card, shared"),
        pytest.param(gib(1, 100), state(used=1, slices=1), Lack.EMPTY, id="all cores want the card alone"),
        pytest.param(gib(1), state(used=15360, slices=1, exclusive=True), Lack.TAKEN, id="somebody has the card"),
        pytest.param(gib(1), state(healthy=False), Lack.HEALTH, id="card out of order"),
        pytest.param(gib(1, wishes=CardWishes(models=("h200",))), state(), Lack.WISH, id="another model"),
        pytest.param(gib(1, wishes=CardWishes(models=("t4",))), state(), None, id="model by part of its name"),
        pytest.param(gib(1, wishes=CardWishes(not_uuids=(CardUuid("GPU-0"),))), state(), Lack.WISH, id="not this one"),
    ],
)  # fmt: skip
def test_what_a_card_lacks(request_: SliceRequest, on: CardState, lack: Lack | None) -> None:
    found = shortfall(request_, on)
    assert (found and found.lack) == lack


def test_binpack_takes_the_fullest_card_that_fits_and_spread_the_emptiest() -> None:
    states = [state(0, used=2048, slices=1), state(1, used=8192, slices=1), state(2, used=14336, slices=1)]
    packed = place(gib(4), states)
    spread = place(gib(4, card_policy=CardPolicy.SPREAD), states)
    assert isinstance(packed, Placement)
    assert isinstance(spread, Placement)
    assert [share.uuid for share in packed.shares] == ["GPU-1"]
    assert [share.uuid for share in spread.shares] == ["GPU-0"]


def test_several_cards_are_different_cards() -> None:
    placed = place(gib(4, cards=2), [state(0), state(1)])
    assert isinstance(placed, Placement)
    assert {share.uuid for share in placed.shares} == {"GPU-0", "GPU-1"}


@pytest.mark.parametrize(
    ("request_", "states", "never"),
    [
        pytest.param(gib(8), [state(used=10240, slices=2)], False, id="somebody must leave first"),
        pytest.param(gib(16), [state()], True, id="bigger than the card"),
        pytest.param(gib(1, cards=2), [state()], True, id="more cards than there are"),
        pytest.param(gib(1), [], True, id="no card"),
        pytest.param(gib(1), [state(healthy=False)], True, id="only an ill card"),
    ],
)
def test_never_and_not_now_are_told_apart(request_: SliceRequest, states: list[CardState], never: bool) -> None:
    verdict = place(request_, states)
    assert isinstance(verdict, NoRoom)
    assert verdict.never is never


def test_percent_of_a_t4_is_half_of_its_memory() -> None:
    placed = place(SliceRequest(vram_percent=Percent(50)), [state()])
    assert isinstance(placed, Placement)
    assert placed.shares[0].vram == 7680


@pytest.mark.parametrize(
    "wrong", [{"cards": 0}, {"vram": 0}, {"vram": -1}, {"vram_percent": 101}, {"cores": 101}, {"cores": -1}]
)
def test_a_request_that_makes_no_sense_can_not_be_made(wrong: dict[str, int]) -> None:
    with pytest.raises(AmountError, match="Ask for"):
        SliceRequest(**wrong)  # type: ignore[arg-type]


@given(requests(), cards(), st.data())
def test_a_placement_fits_every_card_it_names(request_: SliceRequest, on: list[Card], data: st.DataObject) -> None:
    states = [
        CardState(
            c,
            used_vram=Mib(data.draw(st.integers(0, c.vram))),
            used_cores=Percent(data.draw(st.integers(0, 100))),
            slices=data.draw(st.integers(0, 10)),
        )
        for c in on
    ]  # fmt: skip
    verdict = place(request_, states)
    by_uuid = {s.card.uuid: s for s in states}
    if isinstance(verdict, NoRoom):
        assert verdict.fitting < request_.cards
        assert len(verdict.shortfalls) + verdict.fitting == len(states)
        return
    assert len({share.uuid for share in verdict.shares}) == request_.cards
    for share in verdict.shares:
        found = by_uuid[share.uuid]
        assert share.vram <= found.free_vram
        assert share.cores <= found.free_cores
        assert found.free_slices >= 1
        assert not share.exclusive or found.slices == 0
