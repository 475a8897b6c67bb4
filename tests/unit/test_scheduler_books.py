from __future__ import annotations

import asyncio

import pytest

from cluster.scheduler.books import Books, NodeSink, PodSink
from hami_hub.core.nodes import FleetNoRoom, FleetPlacement
from hami_hub.core.pods import PodUid, view_pod
from tests.unit.scheduler_objects import books, holder, node, pod, read


def room(made: Books, gpumem: int = 15360, name: str = "asking") -> str | None:
    """The node that would take a pod; None: none has room."""
    view = view_pod(pod(name, gpumem=gpumem), made.rules)
    assert view is not None
    verdict = made.fleet.try_place(view)
    return verdict.node if isinstance(verdict, FleetPlacement) else None


def reserve(made: Books, name: str, gpumem: int, until: float = 60.0) -> None:
    view = view_pod(pod(name, gpumem=gpumem), made.rules)
    assert view is not None
    assert not isinstance(made.fleet.reserve(view, ["node-a"], until=until), FleetNoRoom)


def freed(made: Books) -> list[bool]:
    told: list[bool] = []
    made.freed.append(told.append)
    return told


def test_pods_of_other_schedulers_wait_for_nobody_here():
    made = books([node()], [pod("ours"), pod("theirs", scheduler="volcano"), pod("going", deletionTimestamp="now")])
    assert [view.name for view in made.queue()] == ["ours"]


def test_the_queue_is_by_priority_then_by_age():
    young = pod("young", creationTimestamp="2026-01-01T00:00:02Z")
    old = pod("old", creationTimestamp="2026-01-01T00:00:01Z")
    urgent = pod("urgent", creationTimestamp="2026-01-01T00:00:03Z")
    urgent["spec"]["priority"] = 1000
    made = books([node()], [young, old, urgent])
    assert [view.name for view in made.queue()] == ["urgent", "old", "young"]


def test_a_deleted_pod_frees_its_slice_and_tells_so():
    made = books([node()], [holder("a", gpumem=15000)])
    assert room(made) is None
    told = freed(made)
    PodSink(made).drop(holder("a", gpumem=15000))
    assert room(made) == "node-a"
    assert told == [False]


def test_a_pod_that_was_never_ours_tells_nothing():
    made = books([node()])
    told = freed(made)
    other = {"metadata": {"namespace": "x", "name": "y", "uid": "z"}, "spec": {"containers": [{"name": "c"}]}}
    PodSink(made).put(other)
    PodSink(made).drop(other)
    assert told == []


def test_a_new_list_forgets_who_is_gone_and_wakes_for_it():
    made = books([node(), node("node-b")], [holder("a", gpumem=15000), pod("waiting")])
    told = freed(made)
    read(PodSink(made), [pod("waiting")])
    read(NodeSink(made), [node("node-b")])
    assert told == [True]
    assert made.fleet.nodes == ("node-b",)
    assert made.uid_of("jhub", "a") is None
    assert [view.name for view in made.queue()] == ["waiting"]


def test_what_is_reserved_survives_a_new_list_that_does_not_know_it_yet():
    made = books([node()], [])
    reserve(made, "new", 15000)
    read(PodSink(made), [])
    assert room(made) is None


def test_what_a_bound_pod_holds_is_no_reservation_to_release():
    made = books([node()], [holder("a", gpumem=15000)])
    made.release(PodUid("uid-a"))
    assert room(made) is None


def test_a_reservation_that_ends_wakes_who_could_not_know():
    made = books([node()])
    reserve(made, "slow", 15000, until=10.0)
    told = freed(made)
    assert made.expire(9.0) == 0
    assert made.expire(11.0) == 1
    assert told == [True]
    assert room(made) == "node-a"


async def test_who_waits_for_a_change_hears_of_it():
    made = books([node()], [holder("a")])
    assert not await made.change(0.001)
    asyncio.get_running_loop().call_soon(PodSink(made).drop, holder("a"))
    assert await made.change(60)


BROKEN = {
    "not JSON": "[{",
    "no list": "{}",
    "a card without memory": '[{"id": "GPU-x", "type": "T4"}]',
    "text for memory": '[{"id": "GPU-x", "type": "T4", "devmem": "much", "health": true}]',
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_list_of_cards_takes_only_its_node_out(text):
    broken = node("node-b")
    broken["metadata"]["annotations"]["hami.io/node-nvidia-register"] = text
    made = books([broken, node()])
    assert room(made) == "node-a"
    assert made.nodes["node-b"].problem
    assert made.nodes["node-a"].problem is None
    NodeSink(made).put(node("node-b"))
    assert made.nodes["node-b"].problem is None


@pytest.mark.parametrize("slots", [0, None], ids=["none", "not named"])
def test_a_kubelet_that_offers_nothing_takes_no_slice(slots):
    bare = node(slots=0)
    if slots is None:
        bare["status"]["allocatable"] = {}
    made = books([bare])
    assert room(made) is None
    assert "device plugin" in (made.nodes["node-a"].problem or "")
    told = freed(made)
    NodeSink(made).put(node())
    assert told == [False]
    assert room(made) == "node-a"


def test_only_nodes_with_the_label_count():
    labelled = node("node-b")
    labelled["metadata"]["labels"] = {"gpu": "on"}
    made = books([node(), labelled], node_selector="gpu=on")
    assert made.fleet.nodes == ("node-b",)
    NodeSink(made).put(node("node-b"))
    assert made.fleet.nodes == ()


def test_a_pod_that_ends_counts_until_it_is_finished():
    made = books([node()], [holder("a", gpumem=15000)])
    ending = holder("a", gpumem=15000)
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    PodSink(made).put(ending)
    assert room(made) is None
    told = freed(made)
    PodSink(made).put({**ending, "status": {"phase": "Succeeded"}})
    assert room(made) == "node-a"
    assert told == [False]


def test_a_pod_that_is_seen_bound_is_told_once():
    made, told = books([node()], [pod("a")]), []
    made.seen_bound.append(told.append)
    for _ in range(2):
        PodSink(made).put(holder("a"))
    assert told == ["uid-a"]
    assert made.waiting == {}


def test_a_name_belongs_to_the_latest_pod_that_has_it():
    made = books([node()], [pod("a")])
    second = pod("a")
    second["metadata"]["uid"] = "uid-second"
    PodSink(made).put(second)
    PodSink(made).drop(pod("a"))
    assert made.uid_of("jhub", "a") == "uid-second"
