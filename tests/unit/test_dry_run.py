"""A quota is tried on the past: in order of time, with the use that there would have been."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_hub.core.budgets import Asked, Budget, judge
from hami_hub.core.dry_run import DryRun, would_have_refused
from hami_hub.core.history import Start, StartState, charge_of
from hami_hub.core.quota import Quota, UserQuota
from hami_hub.core.units import Mib

GIB = 1024
_ids = itertools.count()


def a_start(asked: float, ended: float | None, user: str = "alice", vram: int = 4 * GIB, **fields: Any) -> Start:
    usual: dict[str, Any] = {
        "id": f"{next(_ids):06}",
        "server": "",
        "group": "lab",
        "profile": "small",
        "cards": 1,
        "cores": 25,
        "state": StartState.RUNNING if ended is None else StartState.ENDED,
        "started_at": asked,
    }
    return Start(user=user, vram=Mib(vram), asked_at=asked, ended_at=ended, **{**usual, **fields})


def refused_at(quota: Quota, *starts: Start, **more: Any) -> list[float]:
    return [each.start.asked_at for each in would_have_refused(quota, starts, "lab", **more).refused]


def test_what_would_have_been_refused_does_not_count_towards_the_next() -> None:
    starts = [a_start(0, 100), a_start(10, 1000, "bob"), a_start(100, 200, "carol")]
    assert refused_at(Quota(vram=Mib(4 * GIB)), *starts) == [10]
    assert refused_at(Quota(vram=Mib(8 * GIB)), *starts) == []


def test_what_ends_at_the_moment_of_a_start_leaves_it_room() -> None:
    assert refused_at(Quota(servers=1), a_start(0, 50), a_start(50, 60)) == []
    assert refused_at(Quota(servers=1), a_start(0, 50.5), a_start(50, 60)) == [50]


def test_a_wait_in_line_is_charged() -> None:
    waiting = a_start(0, 100, started_at=None, state=StartState.CANCELLED)
    assert refused_at(Quota(servers=1), waiting, a_start(50, 60, "bob")) == [50]


def test_other_groups_servers_without_a_gpu_and_refusals_of_the_past_are_left_out() -> None:
    starts = [
        a_start(0, None, group="other"),
        a_start(1, None, cards=0, vram=0, cores=0),
        a_start(2, 2, state=StartState.REFUSED, started_at=None),
        a_start(3, None, group="LAB"),
    ]
    found = would_have_refused(Quota(servers=0), starts, "lab")
    assert (found.judged, [each.start.asked_at for each in found.refused]) == (1, [3])


def test_what_runs_since_before_counts_and_is_not_judged() -> None:
    starts = [a_start(0, 100), a_start(60, 70, "bob"), a_start(110, 120, "bob")]
    found = would_have_refused(Quota(servers=1), starts, "lab", since=50)
    assert (found.judged, [each.start.asked_at for each in found.refused]) == (2, [60])


def test_the_rule_is_named() -> None:
    quota = Quota(
        vram=Mib(100 * GIB), servers_per_user=1, profiles=frozenset({"small"}), users={"bob": UserQuota(cores=10)}
    )
    starts = [a_start(0, None), a_start(1, None), a_start(2, None, "bob"), a_start(3, None, "carol", profile="whole")]
    found = would_have_refused(quota, starts, "lab").refused
    assert [(each.start.user, each.key) for each in found] == [
        ("alice", "hami.servers-per-user"),
        ("bob", "hami.user.bob.cores"),
        ("carol", "hami.profiles"),
    ]


def test_a_lifetime_cuts_short_and_leaves_room() -> None:
    quota = Quota(servers=1, max_lifetime=100)
    found = would_have_refused(quota, [a_start(0, 1000), a_start(150, 200, "bob"), a_start(250, None)], "lab", now=300)
    assert (found.refused, found.cut_short) == ((), 1)


@pytest.mark.parametrize(
    ("found", "days", "text"),
    [
        (DryRun(0), 30, "In the last 30 days this would have refused nothing: no server with a GPU was started"),
        (DryRun(320), 30, "In the last 30 days this would have refused none of 320 starts."),
        (DryRun(1, cut_short=1), 1, "In the last day this would have refused none of 1 start. It would have stopped 1"),
    ],
)
def test_it_is_said_in_a_sentence(found: DryRun, days: float, text: str) -> None:
    assert found.text(days).startswith(text)


def test_people_are_counted_once() -> None:
    quota = Quota(vram=Mib(4 * GIB))
    found = would_have_refused(quota, [a_start(0, None), a_start(1, 2, "bob"), a_start(3, 4, "bob")], "lab")
    assert found.text(30) == "In the last 30 days this would have refused 2 of 3 starts, of 1 person."


@st.composite
def a_past(draw: st.DrawFn) -> list[Start]:
    found = []
    for _ in range(draw(st.integers(0, 12))):
        asked = float(draw(st.integers(0, 100)))
        ended = draw(st.none() | st.integers(0, 100).map(lambda more, asked=asked: asked + more))
        vram = draw(st.integers(1, 6)) * GIB
        found.append(a_start(asked, ended, draw(st.sampled_from("ab")), vram))
    return found


@given(a_past(), st.integers(0, 20), st.none() | st.integers(0, 8))
def test_what_is_accepted_never_exceeds_the_quota_and_what_is_refused_would_have(
    starts: list[Start], gib: int, per_user: int | None
) -> None:
    quota = Quota(vram=Mib(gib * GIB), vram_per_user=None if per_user is None else Mib(per_user * GIB))
    refused = {each.start.id for each in would_have_refused(quota, starts, "lab").refused}
    accepted: list[Start] = []
    for start in sorted(starts, key=lambda each: (each.asked_at, each.id)):
        held = [each for each in accepted if each.ended_at is None or each.ended_at > start.asked_at]
        budget = Budget("lab", quota, tuple(charge_of(each) for each in held))
        asked = Asked(start.user, start.profile, start.cards, start.vram, start.cores)
        assert (judge(budget, asked) is not None) == (start.id in refused)
        if start.id not in refused:
            accepted.append(start)
            assert sum(each.vram for each in held) + start.vram <= gib * GIB


@given(a_past())
def test_no_quota_refuses_nothing(starts: list[Start]) -> None:
    found = would_have_refused(Quota(), starts, "lab")
    assert (found.judged, found.refused) == (len(starts), ())
