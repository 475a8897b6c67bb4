"""In which order those who wait are served, and how long servers may run."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_hub.core.cards import Card, CardUuid
from hami_hub.core.fairness import Waiting, in_turn
from hami_hub.core.history import Start, StartState
from hami_hub.core.language import speaking
from hami_hub.core.ledger import Ledger
from hami_hub.core.lifetimes import End, Terms, look, terms, why_over
from hami_hub.core.line import Frees, Turn, serve, why_waiting
from hami_hub.core.quota import Quota
from hami_hub.core.slices import CardWishes, SliceId, SliceRequest
from hami_hub.core.units import Mib
from hami_hub.journal import Journal
from hami_hub.languages import translator
from hami_hub.spawner.lifetimes import until_over
from hami_hub.spawner.past import PastUse

HOUR = 3600.0
LOG = logging.getLogger("test")


def line(*who: str, weights: dict[str, float] | None = None, gib: int = 8) -> dict[str, Waiting]:
    return {
        f"{group}{number}": Waiting(group, (weights or {}).get(group, 1.0), Mib(gib * 1024))
        for number, group in enumerate(who)
    }


def test_who_has_had_less_goes_first() -> None:
    assert in_turn(line("a", "a", "b"), {"a": 100.0, "b": 10.0}) == ("b2", "a0", "a1")


def test_of_equal_groups_those_who_came_first_go_first_by_turns() -> None:
    assert in_turn(line("a", "a", "a", "b", "b"), {}) == ("a0", "b3", "a1", "b4", "a2")


def test_weights_are_shares_of_turns() -> None:
    waiting = line(*"aaaaaabbbbbb", weights={"a": 2.0})
    first = in_turn(waiting, {})[:6]
    assert [who[0] for who in first].count("a") == 4


def test_a_heavy_user_is_not_shut_out_for_ever() -> None:
    order = in_turn(line("heavy", *"bbbbbbbbbbbb"), {"heavy": 40.0})
    assert 0 < order.index("heavy0") < 7


def test_names_that_differ_in_case_only_are_one_group() -> None:
    waiting = {"one": Waiting("ML", 1, Mib(1)), "two": Waiting("ml", 1, Mib(1)), "three": Waiting("b", 1, Mib(1))}
    assert in_turn(waiting, {"Ml": 1.0}) == ("three", "one", "two")


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.floats(0.1, 9), st.integers(0, 9000)), max_size=12),
    st.dictionaries(st.sampled_from("abc"), st.floats(0, 1000)),
)
def test_everybody_is_in_the_order_once_and_each_groups_own_keep_theirs(
    who: list[tuple[str, float, int]], past: dict[str, float]
) -> None:
    waiting = {number: Waiting(group, weight, Mib(vram)) for number, (group, weight, vram) in enumerate(who)}
    order = in_turn(waiting, past)
    assert sorted(order) == sorted(waiting)
    for group in "abc":
        own = [number for number in order if waiting[number].group == group]
        assert own == sorted(own)


# --- what groups have had -------------------------------------------------------------------------------------------


def start(id_: str, group: str, began: float, ended: float | None, gib: int = 1) -> Start:
    return Start(
        id=id_, user="alice", server=id_, group=group, profile="p", cards=1, vram=Mib(gib * 1024), cores=0,
        asked_at=began, started_at=began, ended_at=ended, state=StartState.ENDED if ended else StartState.RUNNING,
    )  # fmt: skip


async def test_past_use_is_what_ran_and_what_runs_and_fades(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/journal.sqlite"
    before = Journal(url)
    began = time.time() - 2 * HOUR  # the journal forgets what is very old
    before.opened(start("old", "a", began, began + HOUR))
    assert before.flush(60)
    before.close()

    now = [began + 2 * HOUR]
    journal = Journal(url)
    past = PastUse(journal, HOUR, LOG, lambda: now[0])
    await past.load()
    first = past.by_group()["a"]
    assert 0.2 < first < 0.5
    journal.restored(start("runs", "b", began, None))
    assert past.by_group()["b"] > first
    now[0] += HOUR
    assert past.by_group()["a"] == pytest.approx(first / 2)
    running = past.by_group()["b"]
    journal.changed("runs", state=StartState.ENDED, ended_at=now[0])
    assert past.by_group()["b"] == pytest.approx(running)
    now[0] += 20 * HOUR
    assert past.by_group()["b"] < 0.001
    journal.close()


async def test_without_a_journal_past_use_is_what_this_hub_has_seen() -> None:
    journal = Journal("")
    past = PastUse(journal, HOUR, LOG, lambda: HOUR)
    await past.load()
    assert past.by_group() == {}
    journal.opened(start("one", "a", 0, None))
    assert past.by_group()["a"] > 0


# --- who frees next -------------------------------------------------------------------------------------------------

T4 = Card(uuid=CardUuid("GPU-t4"), index=0, model="Tesla T4", vram=Mib(15360))
A10 = Card(uuid=CardUuid("GPU-a10"), index=1, model="NVIDIA A10", vram=Mib(23028))


def test_who_waits_is_told_what_comes_free_next_by_its_time_limit() -> None:
    ledger = Ledger([T4, A10])
    alice, bob, carol, dora = (SliceId(f"{name}/") for name in ("alice", "bob", "carol", "dora"))
    ledger.reserve(alice, SliceRequest(vram=Mib(10240), wishes=CardWishes(models=("T4",))))
    ledger.reserve(bob, SliceRequest(wishes=CardWishes(models=("A10",))))
    wants_t4 = SliceRequest(vram=Mib(8192), wishes=CardWishes(models=("T4",)))
    answers = serve(ledger, {carol: wants_t4, dora: SliceRequest(vram=Mib(20480))}, {alice: 1000.0, bob: 500.0})
    first, second = answers[carol], answers[dora]
    assert isinstance(first, Turn)
    assert isinstance(second, Turn)
    # bob's card is of no use to carol
    assert first.frees == Frees(Mib(10240), 1000.0)
    assert second.frees == Frees(Mib(23028), 500.0)
    assert why_waiting(first, 400.0).endswith("10 GiB of it come free within 10 minutes, when a server's time is over.")
    assert why_waiting(first, 2000.0).endswith("within 1 minute, when a server's time is over.")
    unlimited = serve(ledger, {carol: wants_t4})[carol]
    assert isinstance(unlimited, Turn)
    assert unlimited.frees is None


# --- lifetimes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("quota", "profile", "found"),
    [
        (None, None, Terms()),
        (None, 60, Terms(60)),
        (Quota(max_lifetime=100), 60, Terms(60)),
        (Quota(max_lifetime=30, idle_timeout=5), 60, Terms(30, 5)),
        (Quota(), None, Terms()),
    ],
)
def test_of_two_lifetimes_the_smaller_holds(quota: Quota | None, profile: int | None, found: Terms) -> None:
    assert terms(quota, profile) == found


@pytest.mark.parametrize(
    ("until", "idle", "found"),
    [
        (None, None, None),
        (100.0, None, End.LIFETIME),
        (110.0, None, 10.0),
        (1000.0, None, 60.0),
        (None, 50, End.IDLE),
        (None, 80, 20.0),
        (None, 400, 60.0),
        (100.0, 50, End.LIFETIME),
    ],
)
def test_when_a_servers_time_is_over(until: float | None, idle: int | None, found: object) -> None:
    assert look(100.0, until=until, idle_timeout=idle, last_used=40.0) == found


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (1, "1 second"),
        (60, "60 seconds"),
        (90, "90 seconds"),
        (120, "2 minutes"),
        (3600, "60 minutes"),
        (5400, "90 minutes"),
        (7200, "2 hours"),
        (7260, "121 minutes"),
        (8 * 3600, "8 hours"),
        (24 * 3600, "24 hours"),
        (36 * 3600, "36 hours"),
        (48 * 3600, "2 days"),
        (49 * 3600, "49 hours"),
        (7 * 86400, "7 days"),
    ],
)
def test_the_time_that_was_over_is_told_exactly_and_briefly(seconds: int, text: str) -> None:
    assert why_over(End.LIFETIME, max_lifetime=seconds) == f"The server was stopped: its {text} were over."


@pytest.mark.parametrize(
    ("language", "hours", "days"),
    [("ja", "8 時間", "3 日"), ("zh_Hans", "8 小时", "3 天")],
)
def test_hours_and_days_in_other_languages(language: str, hours: str, days: str) -> None:
    with speaking(translator(language)):
        assert hours in why_over(End.LIFETIME, max_lifetime=8 * 3600)
        assert days in why_over(End.IDLE, idle_timeout=3 * 86400)


def test_why_a_server_was_stopped() -> None:
    assert why_over(End.LIFETIME, max_lifetime=600) == "The server was stopped: its 10 minutes were over."
    assert why_over(End.IDLE, idle_timeout=90) == "The server was stopped: nobody had used it for 90 seconds."


async def test_use_puts_the_end_off() -> None:
    used, looked = [0.0], [0.0]

    def clock() -> float:
        looked[0] += 0.5
        if looked[0] < 4:
            used[0] = looked[0]
        return looked[0]

    assert await until_over(None, 1, lambda: used[0], clock) is End.IDLE
    assert looked[0] >= 4.5
