"""What is read from many starts: use in a window, and how much of it is forgotten."""

from __future__ import annotations

import csv
import io
import itertools
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_hub.core.history import Start, StartState, UsedBy, gib_hours, held_seconds, past_use, use, use_csv
from hami_hub.core.units import Mib

from .starts import a_start

HOUR = 3600.0


def ran(**fields: Any) -> Start:
    """A start that had its slice at once, and whose server has ended."""
    asked = fields.get("asked_at", 0.0)
    return a_start(**{"asked_at": asked, "started_at": asked, "state": StartState.ENDED, **fields})


times = st.integers(0, 10_000).map(float)


@st.composite
def histories(draw: st.DrawFn) -> Start:
    asked, waited, lasted = (draw(times) for _ in range(3))
    started = draw(st.booleans())
    ended = draw(st.booleans())
    state = StartState.RUNNING if started and not ended else StartState.ENDED
    return ran(
        user=draw(st.sampled_from("abc")),
        group=draw(st.sampled_from(["", "lab"])),
        vram=Mib(draw(st.integers(0, 80_000))),
        cores=draw(st.integers(0, 800)),
        asked_at=asked,
        started_at=asked + waited if started else None,
        ended_at=asked + waited + lasted if ended else None,
        state=state if started else draw(st.sampled_from([StartState.REFUSED, StartState.CANCELLED])),
    )


def test_gib_hours_are_gib_times_hours() -> None:
    starts = [
        ran(ended_at=2 * HOUR),
        ran(user="bob", group="", vram=Mib(512), ended_at=HOUR),
        ran(user="bob", group="", started_at=None, state=StartState.REFUSED),
    ]
    assert gib_hours(starts, 0, 10 * HOUR, by=UsedBy.USER) == {"alice": 8.0, "bob": 0.5}
    assert gib_hours(starts, 0, 10 * HOUR, by=UsedBy.GROUP) == {"lab": 8.0, "": 0.5}
    alice, bob = use(starts, 0, 10 * HOUR, by=UsedBy.USER)
    assert (alice.card_hours, alice.server_hours, alice.starts, alice.refused) == (0.5, 2.0, 1, 0)
    assert (bob.starts, bob.refused) == (1, 1)


def test_only_what_lies_in_the_window_counts_and_what_runs_counts_until_now() -> None:
    running = ran(state=StartState.RUNNING)
    assert gib_hours([running], HOUR, 3 * HOUR, by=UsedBy.USER) == {"alice": 8.0}
    assert gib_hours([running], HOUR, 3 * HOUR, by=UsedBy.USER, now=2 * HOUR) == {"alice": 4.0}
    assert gib_hours([ran(ended_at=HOUR)], HOUR, 3 * HOUR, by=UsedBy.USER) == {}


def test_a_wait_in_line_is_no_use() -> None:
    assert held_seconds(ran(asked_at=0.0, started_at=None, state=StartState.WAITING), 0, HOUR) == 0
    assert held_seconds(ran(asked_at=0.0, started_at=60.0, ended_at=HOUR), 0, HOUR) == HOUR - 60


def test_a_server_without_a_gpu_is_counted_as_a_start_only() -> None:
    [found] = use([ran(cards=0, vram=Mib(0), cores=0, ended_at=HOUR)], 0, HOUR, by=UsedBy.GROUP)
    assert (found.gib_hours, found.card_hours, found.server_hours, found.starts) == (0, 0, 0, 1)


@given(st.lists(histories(), max_size=8), st.lists(times, min_size=2, max_size=6).map(sorted), st.sampled_from(UsedBy))
def test_windows_that_adjoin_add_up_to_the_whole(starts: list[Start], edges: list[float], by: UsedBy) -> None:
    whole = {each.key: each for each in use(starts, edges[0], edges[-1], by=by, now=8000)}
    parts = [use(starts, t0, t1, by=by, now=8000) for t0, t1 in itertools.pairwise(edges)]
    for name in ("gib_hours", "card_hours", "server_hours", "starts", "refused"):
        summed: dict[str, float] = {}
        for part in parts:
            for each in part:
                summed[each.key] = summed.get(each.key, 0) + getattr(each, name)
        for key in whole.keys() | summed.keys():
            expected = getattr(whole[key], name) if key in whole else 0
            assert math.isclose(summed.get(key, 0), expected, abs_tol=1e-9)


@given(st.lists(histories(), max_size=8), times, times)
def test_nobody_uses_less_than_nothing(starts: list[Start], t0: float, t1: float) -> None:
    assert all(each.gib_hours >= 0 and each.server_hours >= 0 for each in use(starts, t0, t1, by=UsedBy.USER))
    assert all(value >= 0 for value in past_use(starts, t1, 3600).values())


def test_half_of_past_use_is_forgotten_in_a_half_life() -> None:
    moment = ran(started_at=0.0, ended_at=1.0)
    at_once = past_use([moment], 1.0, HOUR)["lab"]
    assert at_once == pytest.approx(4 / HOUR, rel=1e-3)
    assert past_use([moment], 1.0 + HOUR, HOUR)["lab"] == pytest.approx(at_once / 2)
    assert past_use([moment], 1.0 + 1000 * HOUR, HOUR)["lab"] == pytest.approx(0)


def test_past_use_with_a_long_memory_is_gib_hours() -> None:
    starts = [
        ran(started_at=0.0, ended_at=2 * HOUR),
        ran(group="", started_at=HOUR, state=StartState.RUNNING),
    ]
    assert past_use(starts, 3 * HOUR, 1e12) == pytest.approx(gib_hours(starts, 0, 3 * HOUR, by=UsedBy.GROUP))


def test_what_starts_later_is_no_past_use() -> None:
    assert past_use([ran(started_at=100.0)], 100.0, HOUR) == {}


@given(st.lists(histories(), max_size=8), times)
def test_past_use_is_never_more_than_use(starts: list[Start], now: float) -> None:
    used = gib_hours(starts, 0, now, by=UsedBy.GROUP)
    for group, value in past_use(starts, now, HOUR).items():
        assert value <= used.get(group, 0) + 1e-9


@pytest.mark.parametrize("name", ["=1+1", "+x", "-x", "@x", 'a"b', "a,b", "a\nb", "\tx", "Zoë"])
def test_the_table_for_spreadsheets_holds_any_name_and_no_formula(name: str) -> None:
    rows = list(csv.reader(io.StringIO(use_csv(use([ran(user=name)], 0, HOUR, by=UsedBy.USER), UsedBy.USER))))
    assert rows[0] == ["user", "gib_hours", "card_hours", "server_hours", "starts", "refused"]
    assert rows[1] == [f"'{name}" if name[0] in "=+-@\t" else name, "4.000", "0.250", "1.000", "1", "0"]
