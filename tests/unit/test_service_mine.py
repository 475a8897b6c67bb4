"""What a person reads about themselves, and that it tells of others only sums."""

from __future__ import annotations

from typing import Any

import pytest

from hami_hub.core.cards import CardUuid
from hami_hub.core.history import Start, StartState, Use
from hami_hub.core.units import Mib
from hami_hub.service.mine import Mine, mine
from hami_hub.service.model import GroupSeen, World
from hami_hub.service.sight import Sight, SliceSeen

NOW = 100_000.0


def start(user: str, gib: int = 4, state: StartState = StartState.RUNNING, **more: Any) -> Start:
    usual: dict[str, Any] = {
        "server": "",
        "group": "ml",
        "profile": "p",
        "cards": 1,
        "cores": 25,
        "asked_at": NOW - 600,
    }
    return Start(id=user, user=user, vram=Mib(gib * 1024), state=state, **{**usual, **more})


def seen_by(user: str, world: World, **more: Any) -> Mine:
    return mine(world, **{"user": user, "groups": ["ml"], "past": (), "had": None, "days": 30, "now": NOW, **more})


ML = GroupSeen("ml", {"hami.vram": "24GiB", "hami.vram-per-user": "8GiB"}, 3)


def test_a_budget_says_what_all_and_what_i_have():
    (budget,) = seen_by("alice", World(starts=(start("alice"), start("bob", 8)), groups=(ML,))).budgets
    assert (budget.label, budget.problem) == ("ml", "")
    assert [(meter.name, meter.words, meter.mine, meter.others) for meter in budget.meters] == [
        ("VRAM", "12 GiB of 24 GiB in use, 4 GiB by you", 17, 33),
        ("VRAM for you", "4 GiB of 8 GiB in use by you", 50, 0),
    ]


def test_nobody_else_is_named():
    world = World(
        starts=(start("alice"), start("bob", words="Bob's secret", server="plan"), start("eve", group="x")),
        groups=(ML, GroupSeen("x", {"hami.vram": "1GiB"})),
        sight=Sight(slices=(SliceSeen(holder="bob/plan", card=CardUuid("G"), vram=Mib(1), cores=0, used=Mib(1)),)),
    )
    text = repr(seen_by("alice", world))
    assert not any(word in text for word in ("bob", "plan", "secret", "eve", "'x'"))


@pytest.mark.parametrize(
    ("groups", "labels"),
    [
        pytest.param(["ml", "staff"], ["ml"], id="a group with a quota"),
        pytest.param(["ML"], ["ml"], id="in upper case"),
        pytest.param(["staff"], ["Default quota"], id="none of them has one"),
        pytest.param([], ["Default quota"], id="no group"),
    ],
)
def test_who_pays_is_the_groups_with_a_quota_or_the_default(groups, labels):
    world = World(groups=(ML, GroupSeen("staff")), default_quota={"hami.servers": "1"})
    assert [budget.label for budget in seen_by("alice", world, groups=groups).budgets] == labels


def test_a_wrong_quota_says_that_it_pays_for_nothing_and_why():
    world = World(groups=(GroupSeen("ml", {"hami.vram": "24GB"}),))
    (budget,) = seen_by("alice", world).budgets
    assert budget.problem.startswith('This quota is written wrongly, so it pays for nothing now. hami.vram: "24GB"')
    assert not budget.meters


def test_bars_of_an_exceeded_quota_stay_in_their_frame():
    world = World(starts=(start("alice", 30), start("bob", 30)), groups=(ML,))
    for meter in seen_by("alice", world).budgets[0].meters:
        assert meter.mine + meter.others <= 100


def test_a_quota_of_nothing_is_shown_as_such():
    (budget,) = seen_by("alice", World(groups=(GroupSeen("ml", {"hami.vram": "0"}),))).budgets
    assert budget.meters[0].words == "nothing of nothing in use, nothing by you"


def test_my_servers_are_told_with_state_use_and_time():
    running = start("alice", started_at=NOW - 600, until=NOW + 3 * 3600)
    waits = start("alice", 8, StartState.WAITING, server="big", position=2)
    plain = start("alice", 0, server="cpu", cards=0, cores=0)
    world = World(
        starts=(running, waits, plain),
        sight=Sight(slices=(SliceSeen(holder="alice/", card=CardUuid("G"), vram=Mib(4096), cores=25, used=Mib(2560)),)),
    )
    shown = [(each.name, each.what, each.used, each.state, each.times) for each in seen_by("alice", world).servers]
    assert shown == [
        ("your server", "4 GiB · 25 %", "2.5 GiB", "running", "for 10 minutes, stops within 3 hours"),
        ("big", "8 GiB · 25 %", "", "in line, place 2", "for 10 minutes"),
        ("cpu", "no GPU", "", "running", "for 10 minutes"),
    ]


def test_what_was_is_told_with_the_words_that_were_said():
    refused = start("alice", 8, StartState.REFUSED, words="Nothing is left.", ended_at=NOW)
    shown = seen_by("alice", World(), past=(refused, start("alice")), had=Use("alice", 12.34, 3.21, 5.0, 2, 1))
    assert [(each.state, each.words, each.sad) for each in shown.starts] == [("refused", "Nothing is left.", True)]
    assert shown.had.startswith("In the last 30 days you had 12.3 GiB-hours of VRAM and 3.2 hours")
