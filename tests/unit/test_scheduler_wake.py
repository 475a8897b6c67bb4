from __future__ import annotations

import asyncio

import pytest

from cluster.scheduler.books import Books, PodSink, Refused
from cluster.scheduler.wake import Patience, Waker
from hami_hub.core.pods import PodUid
from tests.unit.api_server_double import ApiDouble, serving
from tests.unit.scheduler_objects import books, holder, node, pod

NOW = 1000.0


def refuse(made: Books, name: str, at: float) -> None:
    made.refused[PodUid(f"uid-{name}")] = Refused(at, "no room", False)


@pytest.fixture
def made() -> Books:
    """One full card, and two pods that wait for it."""
    waiting = [pod(name, creationTimestamp=f"2026-01-01T00:00:0{number}Z") for number, name in enumerate("ab")]
    return books([node()], [holder("full", gpumem=15000), *waiting])


@pytest.fixture
def waker(made) -> Waker:
    return Waker(made, api=None, woken=lambda: None, clock=lambda: NOW)  # type: ignore[arg-type]


def leave(made: Books) -> None:
    PodSink(made).drop(holder("full", gpumem=15000))


@pytest.mark.parametrize(
    ("ago", "sleeps"), [(0.001, True), (1.5, True), (10.0, False)], ids=["just before", "before", "long before"]
)
def test_who_was_refused_shortly_before_may_have_slept_through_it(made, waker, ago, sleeps):
    refuse(made, "a", NOW - ago)
    leave(made)
    assert [view.name for view in waker.sleepers()] == (["a"] if sleeps else [])


def test_who_was_asked_about_since_is_awake(made, waker):
    refuse(made, "a", NOW - 0.001)
    leave(made)
    del made.refused[PodUid("uid-a")]
    assert waker.sleepers() == []


def test_who_was_refused_since_knows_better(made, waker):
    leave(made)
    refuse(made, "a", NOW + 0.1)
    assert waker.sleepers() == []


def test_who_would_find_no_room_sleeps_on(made, waker):
    refuse(made, "a", NOW - 0.001)
    waker.freed(False)
    assert waker.sleepers() == []


def test_what_no_event_tells_wakes_everybody_who_waits(made, waker):
    refuse(made, "a", NOW - 3600)
    refuse(made, "b", NOW - 7200)
    leave(made)
    waker.freed(True)
    assert [view.name for view in waker.sleepers()] == ["a", "b"]


def test_a_release_is_looked_into_once(made, waker):
    refuse(made, "a", NOW - 0.001)
    leave(made)
    assert waker.sleepers()
    assert not waker.sleepers()


async def test_waking_is_one_write_to_the_pods_status(made, tmp_path):
    server, woken = ApiDouble(), asyncio.Event()
    path = "/api/v1/namespaces/jhub/pods/a/status"
    server.on("PATCH", path, {})
    async with serving(server, tmp_path) as api:
        waker = Waker(made, api, woken=woken.set)
        task = asyncio.create_task(waker.run())
        refuse(made, "a", asyncio.get_running_loop().time())
        leave(made)
        await woken.wait()
        task.cancel()
    ((_, _, body),) = server.asked
    (condition,) = body["status"]["conditions"]
    assert condition["type"] == "PodScheduled"
    assert body["metadata"]["uid"] == "uid-a"


def test_patience_is_bounded_when_many_are_refused_at_once():
    now = [NOW]
    patience = Patience(clock=lambda: now[0])
    given = 0
    for _ in range(1000):
        now[0] += 0.002
        if patience.seconds():
            given += 1
            now[0] += patience.seconds() or 0.025
    assert 10 <= given < 60
    now[0] += 10
    assert all(patience.seconds() > 0 for _ in range(10))
    assert patience.seconds() == 0
