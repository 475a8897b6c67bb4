"""What usually comes: counted, the past weighing less."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hami_hub.core.slices import SliceRequest
from hami_hub.core.typical import PARTS, Shape, TypicalPods
from hami_hub.core.units import Mib, Percent

from .strategies import requests


def gib(amount: int) -> SliceRequest:
    return SliceRequest(vram=Mib(amount * 1024))


def test_at_first_it_is_what_an_admin_says() -> None:
    typical = TypicalPods([(Shape.of(gib(4)), 3), (Shape.of(gib(8)), 1)])
    assert typical.shares() == ((Shape.of(gib(4)), 750), (Shape.of(gib(8)), 250))


def test_what_comes_often_takes_over() -> None:
    typical = TypicalPods([(Shape.of(gib(4)), 1)])
    for _ in range(3000):
        typical.observe(gib(2), cpu=500)
    assert typical.shares()[0] == (Shape.of(gib(2), 500), PARTS)
    assert typical.revision > 0


def test_the_last_thousands_weigh_more_than_the_first() -> None:
    typical = TypicalPods()
    for _ in range(6000):
        typical.observe(gib(2))
    for _ in range(5000):
        typical.observe(gib(3))
    assert typical.shares()[0][0] == Shape.of(gib(3))


def test_the_first_pods_show_soon_that_the_beginning_was_wrong() -> None:
    typical = TypicalPods()
    for _ in range(16):
        typical.observe(gib(1))
    assert typical.revision == 1


def test_rare_ones_are_left_out() -> None:
    typical = TypicalPods([(Shape.of(gib(4)), 97), (Shape.of(gib(5)), 2), (Shape.of(gib(6)), 1)])
    assert [shape for shape, _ in typical.shares()] == [Shape.of(gib(4))]


def test_a_stream_of_amounts_that_are_all_different_stays_small() -> None:
    typical = TypicalPods()
    for amount in range(1, 20_000):
        typical.observe(SliceRequest(vram=Mib(amount)))
    assert len(typical.shares()) <= 40
    assert len(typical._counts) < 6000


@given(st.lists(st.tuples(requests(), st.integers(1, 50)), min_size=1, max_size=60))
def test_shares_are_whole_positive_and_within_the_whole(mix: list[tuple[SliceRequest, int]]) -> None:
    shares = TypicalPods([(Shape.of(request, 10), weight) for request, weight in mix]).shares()
    assert shares
    assert all(isinstance(part, int) and part >= 1 for _, part in shares)
    assert sum(part for _, part in shares) <= PARTS + len(shares)
    assert len({shape for shape, _ in shares}) == len(shares)


def test_the_default_mix_is_one_of_small_slices_and_whole_cards() -> None:
    shapes = [shape for shape, _ in TypicalPods().shares()]
    assert Shape.of(SliceRequest()) in shapes
    assert Shape.of(SliceRequest(vram=Mib(4096), cores=Percent(25))) in shapes
