from __future__ import annotations

import asyncio
import json
from functools import partial
from types import SimpleNamespace

import pytest
from aiohttp.test_utils import TestClient, TestServer

from cluster.scheduler.binding import Binder
from cluster.scheduler.books import PodSink
from cluster.scheduler.events import Events
from cluster.scheduler.extender import Extender
from cluster.scheduler.metrics import Metrics
from tests.unit.api_server_double import ApiDouble, refuse, serving
from tests.unit.scheduler_objects import books, holder, node, pod

NODES = ["node-a", "node-b"]


@pytest.fixture
async def world(tmp_path):
    """An extender over two nodes of one card each, and the API server that it writes to."""
    server = ApiDouble()
    async with serving(server, tmp_path) as api:
        made, metrics, synced = books([node(name) for name in NODES]), Metrics(), asyncio.Event()
        synced.set()
        events = Events(api, sent=lambda: None)
        binder = Binder(made, api, events, metrics, reservation_seconds=60)
        extender = Extender(made, binder, events, metrics, synced=synced, reservation_seconds=60)
        async with TestClient(TestServer(extender.application())) as client:
            yield SimpleNamespace(
                books=made, server=server, client=client, synced=synced, pods=PodSink(made), events=events
            )


async def ask(world, manifest, names=NODES) -> dict:
    response = await world.client.post("/filter", json={"Pod": manifest, "Nodes": None, "NodeNames": names})
    assert response.status == 200, await response.text()
    return await response.json()


async def bind(world, name: str, on: str) -> str:
    args = {"PodName": name, "PodNamespace": "jhub", "PodUID": f"uid-{name}", "Node": on}
    response = await world.client.post("/bind", json=args)
    assert response.status == 200
    return (await response.json())["Error"]


def used(world) -> dict[str, int]:
    return {name: world.books.fleet.states(name)[0].used_vram for name in NODES}


def takes_binding(world, name: str) -> list[dict]:
    """The API server takes the pod's binding; gives the list of those it took."""
    path = f"/api/v1/namespaces/jhub/pods/{name}/binding"
    world.server.on("POST", path, {"kind": "Status"})
    return world.server.bodies("POST", path)


async def test_one_node_is_answered_and_its_slice_reserved(world):
    answer = await ask(world, pod("a"))
    (name,) = answer["NodeNames"]
    assert used(world) == {name: 4000, next(other for other in NODES if other != name): 0}


async def test_a_pod_that_is_asked_about_again_reserves_once(world):
    for _ in range(3):
        await ask(world, pod("a"))
    assert sum(used(world).values()) == 4000


async def test_what_kube_scheduler_is_told_is_no_format_to_it(world):
    await ask(world, pod("a", cores=90), ["node-a"])
    words = (await ask(world, pod("b", cores=25), ["node-a"]))["FailedAndUnresolvableNodes"]["node-a"]
    assert "25 percent" in words
    assert "%" not in words


async def test_only_the_candidates_are_considered(world):
    assert (await ask(world, pod("a"), ["node-b"]))["NodeNames"] == ["node-b"]
    assert (await ask(world, pod("b"), ["elsewhere"]))["NodeNames"] == []


async def test_a_pod_without_a_slice_passes_unchanged(world):
    plain = pod("a")
    plain["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "1"}}
    assert (await ask(world, plain))["NodeNames"] == NODES


async def test_a_refusal_names_every_node_with_the_same_words(world):
    answer = await ask(world, pod("a", gpumem=99000))
    assert answer["NodeNames"] == []
    assert "Error" not in answer
    reasons = answer["FailedAndUnresolvableNodes"]
    assert set(reasons) == set(NODES)
    assert len(set(reasons.values())) == 1
    assert "99000 MiB" in reasons["node-a"]
    assert world.events.waiting() == (("uid-a", "FilteringFailed"),)


async def test_a_refusal_on_thousands_of_nodes_stays_short(world):
    answer = await ask(world, pod("a", gpumem=99000), [f"node-{number}" for number in range(5000)])
    assert len(json.dumps(answer)) < 2048


async def test_amounts_that_cannot_be_are_refused_in_words(world):
    bad = pod("a")
    bad["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpumem"] = "a lot"
    answer = await ask(world, bad)
    assert answer["NodeNames"] == []
    assert "a lot" in answer["FailedAndUnresolvableNodes"]["node-a"]


async def test_a_refusal_waits_for_news_that_is_on_its_way(world):
    for name in NODES:
        world.pods.put(holder(f"on-{name}", gpumem=15000, on=name))
    world.books.change = partial(change_after, world.books.change, asked := asyncio.Event())
    asking = asyncio.create_task(ask(world, pod("a")))
    await asked.wait()
    world.pods.drop(holder("on-node-b", gpumem=15000, on="node-b"))
    assert (await asking)["NodeNames"] == ["node-b"]


async def change_after(change, asked: asyncio.Event, _seconds: float) -> bool:
    """`change`, with all the time that a busy machine needs."""
    asked.set()
    return await change(60)


async def test_a_pod_that_is_bound_already_is_not_placed_again(world):
    world.pods.put(holder("a"))
    assert "node-a" in (await ask(world, pod("a")))["Error"]
    assert used(world) == {"node-a": 4000, "node-b": 0}


async def test_before_the_cluster_is_known_it_waits_for_that(world):
    world.synced.clear()
    asking = asyncio.create_task(ask(world, pod("a")))
    await asyncio.sleep(0.05)
    assert not asking.done()
    world.synced.set()
    assert (await asking)["NodeNames"]


async def test_a_simulation_reserves_nothing_and_answers_all_that_fit(world):
    world.pods.put(holder("full", gpumem=15000, on="node-a"))
    whole = [node("node-a"), node("node-b"), node("not-there-yet"), {"metadata": {"name": "no-cards"}}]
    body = {"Pod": pod("a"), "Nodes": {"items": [{**each, "extra": 7} for each in whole]}, "NodeNames": None}
    answer = await (await world.client.post("/filter", json=body)).json()
    assert [each["metadata"]["name"] for each in answer["Nodes"]["items"]] == ["node-b", "not-there-yet"]
    assert all(each["extra"] == 7 for each in answer["Nodes"]["items"])
    assert set(answer["FailedAndUnresolvableNodes"]) == {"node-a", "no-cards"}
    assert used(world) == {"node-a": 15000, "node-b": 0}


@pytest.mark.parametrize("path", ["/filter", "/bind"])
@pytest.mark.parametrize("body", [b"", b"hello", b"[]", b'{"Pod": 7}', b'{"Pod": {"metadata": {"name": 1}}}'])
async def test_what_is_no_question_is_answered_in_words(world, path, body):
    response = await world.client.post(path, data=body)
    assert response.status == 400
    assert (await response.text()).endswith(".")
    assert (await ask(world, pod("a")))["NodeNames"]


async def test_a_binding_is_one_write_with_the_decision_on_it(world):
    takes_binding(world, "a")
    world.pods.put(pod("a"))
    (name,) = (await ask(world, pod("a")))["NodeNames"]
    assert await bind(world, "a", name) == ""
    ((method, path, body),) = world.server.asked
    assert (method, path) == ("POST", "/api/v1/namespaces/jhub/pods/a/binding")
    assert (body["metadata"]["uid"], body["target"]["name"]) == ("uid-a", name)
    annotations = body["metadata"]["annotations"]
    assert annotations["hami.io/vgpu-node"] == name
    assert json.loads(annotations["hami.io/slices"])["main"]["shares"][0]["vram"] == 4000


async def test_a_binding_that_is_asked_for_again_is_not_written_again(world):
    took = takes_binding(world, "a")
    (name,) = (await ask(world, pod("a")))["NodeNames"]
    assert await bind(world, "a", name) == ""
    world.pods.put(holder("a", on=name))
    assert await bind(world, "a", name) == ""
    took = world.server.bodies("POST", "/api/v1/namespaces/jhub/pods/a/binding")
    assert len(took) == 1


async def test_a_binding_without_a_reservation_is_refused_unless_there_is_room(world):
    assert "node-a" in await bind(world, "unknown", "node-a")
    world.pods.put(pod("a"))
    takes_binding(world, "a")
    assert await bind(world, "a", "node-b") == ""
    assert used(world)["node-b"] == 4000


async def test_a_refused_binding_gives_its_slice_back(world):
    (name,) = (await ask(world, pod("a")))["NodeNames"]
    gone = "pods a not found"
    world.server.on("POST", "/api/v1/namespaces/jhub/pods/a/binding", lambda *_: refuse(404, gone))
    assert gone in await bind(world, "a", name)
    assert sum(used(world).values()) == 0
    assert ("uid-a", "BindingFailed") in world.events.waiting()


def found(name: str, on: str) -> dict:
    """The pod as a GET shows it, bound by us to `on`."""
    return holder(name, on=on)


async def test_a_conflict_with_our_own_binding_is_a_success(world):
    (name,) = (await ask(world, pod("a")))["NodeNames"]
    world.server.on("POST", "/api/v1/namespaces/jhub/pods/a/binding", lambda *_: refuse(409, "already assigned"))
    world.server.on("GET", "/api/v1/namespaces/jhub/pods/a", found("a", name))
    assert await bind(world, "a", name) == ""
    assert used(world)[name] == 4000


async def test_a_conflict_with_another_binding_gives_the_slice_back(world):
    (name,) = (await ask(world, pod("a")))["NodeNames"]
    world.server.on("POST", "/api/v1/namespaces/jhub/pods/a/binding", lambda *_: refuse(409, "already assigned"))
    world.server.on("GET", "/api/v1/namespaces/jhub/pods/a", pod("a", on="elsewhere"))
    assert "already assigned" in await bind(world, "a", name)
    assert sum(used(world).values()) == 0


@pytest.mark.parametrize("bound", [True, False])
async def test_after_an_unclear_answer_the_pod_itself_is_asked(world, bound):
    (name,) = (await ask(world, pod("a")))["NodeNames"]
    world.server.on("POST", "/api/v1/namespaces/jhub/pods/a/binding", lambda *_: refuse(504, "timeout"))
    world.server.on("GET", "/api/v1/namespaces/jhub/pods/a", found("a", name) if bound else pod("a"))
    assert bool(await bind(world, "a", name)) is not bound
    assert used(world)[name] == (4000 if bound else 0)


async def test_while_it_is_unclear_whether_it_was_bound_the_slice_stays_taken(world):
    (name,) = (await ask(world, pod("a")))["NodeNames"]
    world.server.on("POST", "/api/v1/namespaces/jhub/pods/a/binding", lambda *_: refuse(500, "etcd is away"))
    world.server.on("GET", "/api/v1/namespaces/jhub/pods/a", lambda *_: refuse(500, "etcd is away"))
    assert "isn't known" in await bind(world, "a", name)
    assert used(world)[name] == 4000
    world.books.expire(1e12)
    assert used(world)[name] == 4000
    world.pods.drop(pod("a"))
    assert sum(used(world).values()) == 0
