"""Cards fall ill, are left alone, and come back; no card's trouble is another's."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.deviceplugin.health import NodeCards, Reading
from hami_hub.core.cards import CardUuid

from .plugin_parts import CARDS

WELL = [Reading(card, used=100) for card in CARDS]
LOST = replace(WELL[0], problem="GPU is lost", used=None)


def cards(*, ignored: tuple[int, ...] = (13, 31)) -> NodeCards:
    made = NodeCards(quarantine=60, ignored=ignored)
    made.see(WELL, now=0)
    return made


def test_healthy_cards_are_listed_by_index() -> None:
    made = NodeCards(quarantine=60, ignored=())
    made.see(WELL[::-1], now=0)
    assert [card.uuid for card in made.cards] == ["GPU-0", "GPU-1"]
    assert not made.ill()


@pytest.mark.parametrize("code", [13, 31])
def test_an_error_of_a_program_is_not_the_cards(code: int) -> None:
    made = cards()
    assert not made.xid("GPU-0", code, now=1)
    assert not made.ill()


def test_an_xid_puts_one_card_into_quarantine_and_leaves_the_other_alone() -> None:
    made = cards()
    assert made.xid("GPU-0", 79, now=1)
    assert made.ill() == {"GPU-0": "XID 79"}
    made.see(WELL, now=60)
    assert made.ill()
    made.see(WELL, now=61)
    assert not made.ill()


def test_each_further_error_doubles_the_quarantine_and_a_day_forgets_them() -> None:
    made = cards()
    made.xid("GPU-0", 48, now=0)
    made.see(WELL, now=60)
    made.xid("GPU-0", 48, now=100)
    made.see(WELL, now=219)
    assert made.ill()
    made.see(WELL, now=220)
    assert not made.ill()
    made.xid("GPU-0", 48, now=100_000)
    made.see(WELL, now=100_060)
    assert not made.ill()


def test_a_card_off_the_bus_keeps_its_name_and_memory_and_comes_back() -> None:
    made = cards()
    made.see([replace(LOST, card=replace(LOST.card, vram=0, healthy=False)), WELL[1]], now=10)
    assert made.ill() == {"GPU-0": "GPU is lost"}
    assert [(card.vram, card.healthy) for card in made.cards] == [(15360, False), (15360, True)]
    made.see([WELL[1]], now=20)  # not even listed
    assert list(made.ill()) == ["GPU-0"]
    made.see(WELL, now=71)
    assert not made.ill()


def test_no_cards_at_all_makes_all_ill() -> None:
    made = cards()
    made.see([], now=5)
    assert set(made.ill()) == {"GPU-0", "GPU-1"}


def test_a_card_that_is_cut_by_mig_has_no_slices() -> None:
    made = NodeCards(quarantine=60, ignored=())
    made.see([replace(WELL[0], mig=True), WELL[1]], now=0)
    assert [card.uuid for card in made.cards] == ["GPU-1"]
    assert len(made.conditions) == 2


def test_an_xid_of_a_card_that_was_never_seen_is_nobodys() -> None:
    assert not cards().xid("GPU-9", 79, now=0)


steps = st.lists(
    st.tuples(st.sampled_from(["well", "lost", "gone", "xid", "ignored"]), st.integers(1, 5000)), max_size=30
)


@given(steps)
def test_whatever_happens_to_one_card_the_other_stays_and_the_first_recovers(happened: list[tuple[str, int]]) -> None:
    made, now = cards(), 0.0
    for what, pause in happened:
        now += pause
        if what in ("xid", "ignored"):
            made.xid("GPU-0", 79 if what == "xid" else 13, now=now)
        else:
            made.see({"well": WELL, "lost": [LOST, WELL[1]], "gone": [WELL[1]]}[what], now=now)
        assert "GPU-1" not in made.ill()
        assert {card.uuid for card in made.cards} == {CardUuid("GPU-0"), CardUuid("GPU-1")}
        (first,) = (each for each in made.conditions if each.card.uuid == "GPU-0")
        assert first.until <= now + 60 * 2**6
    made.see(WELL, now=now + 60 * 2**6)
    assert not made.ill()
