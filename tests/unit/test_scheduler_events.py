from __future__ import annotations

import asyncio

import pytest

from cluster.scheduler.events import BINDING_SUCCEEDED, FILTERING_FAILED, Events, PodRef
from tests.unit.api_server_double import ApiDouble, refuse, serving

PATH = "/api/v1/namespaces/jhub/events"
POD = PodRef("jhub", "jupyter-ada", "uid-1")


@pytest.fixture
async def told(tmp_path):
    """The events, the server that takes them, and a function that waits until `count` were taken."""
    server, sent = ApiDouble(), asyncio.Semaphore(0)
    server.on("POST", PATH, {})
    async with serving(server, tmp_path) as api:
        events = Events(api, sent=sent.release)
        task = asyncio.create_task(events.run())

        async def taken(count: int) -> list[dict]:
            for _ in range(count):
                await sent.acquire()
            return server.bodies("POST", PATH)

        yield events, server, taken
        task.cancel()


async def test_an_event_says_what_about_whom(told):
    events, _server, taken = told
    events.say(POD, FILTERING_FAILED, "No card has 4 GiB free.")
    (event,) = await taken(1)
    assert event["involvedObject"]["uid"] == "uid-1"
    assert (event["type"], event["reason"], event["message"]) == (
        "Warning",
        "FilteringFailed",
        "No card has 4 GiB free.",
    )


async def test_the_same_words_about_the_same_pod_are_told_once(told):
    events, _server, taken = told
    events.say(POD, FILTERING_FAILED, "No room.")
    await taken(1)
    for _ in range(5):
        events.say(POD, FILTERING_FAILED, "No room.")
    events.say(POD, FILTERING_FAILED, "Still no room, but less is lacking.")
    assert [event["message"] for event in await taken(1)] == ["No room.", "Still no room, but less is lacking."]


async def test_of_several_that_wait_about_a_pod_only_the_last_is_told(told):
    events, _server, taken = told
    for free in (1, 2, 3):
        events.say(POD, FILTERING_FAILED, f"{free} GiB are free.")
    assert [event["message"] for event in await taken(1)] == ["3 GiB are free."]


async def test_long_words_are_cut_where_the_api_server_would_refuse_them(told):
    events, _server, taken = told
    events.say(POD, FILTERING_FAILED, "ü" * 2000)
    (event,) = await taken(1)
    assert len(event["message"].encode()) <= 1024
    assert event["message"].endswith("…")


async def test_one_that_is_refused_does_not_hold_up_the_next(told):
    events, server, taken = told
    answers = [refuse(403, "namespace is being terminated"), {}]
    server.on("POST", PATH, lambda *_: answers.pop(0))
    events.say(POD, FILTERING_FAILED, "first")
    events.say(PodRef("jhub", "other", "uid-2"), FILTERING_FAILED, "second")
    assert [event["message"] for event in await taken(1)] == ["first", "second"]


async def test_when_too_many_wait_those_about_success_go_first(tmp_path):
    server = ApiDouble()
    async with serving(server, tmp_path) as api:
        events = Events(api, sent=lambda: None)
        events.say(PodRef("jhub", "lucky", "uid-lucky"), BINDING_SUCCEEDED, "bound")
        for number in range(2000):
            events.say(PodRef("jhub", f"p{number}", f"uid-{number}"), FILTERING_FAILED, "no room")
        waiting = events.waiting()
        assert len(waiting) == 2000
        assert BINDING_SUCCEEDED not in {reason for _uid, reason in waiting}
        assert ("uid-0", FILTERING_FAILED) in waiting


async def test_a_failure_overtakes_the_successes_that_wait(told):
    events, _server, taken = told
    events.say(PodRef("jhub", "lucky", "uid-lucky"), BINDING_SUCCEEDED, "bound")
    events.say(POD, FILTERING_FAILED, "No room.")
    assert [event["message"] for event in await taken(2)] == ["No room.", "bound"]
