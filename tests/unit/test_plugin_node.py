"""What a node says of itself: its annotation, its slots, its events, and the pods it knows."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cluster.apiserver import ApiUnreachable
from cluster.deviceplugin.announce import Announcer
from cluster.deviceplugin.cardnews import CardNews
from cluster.deviceplugin.health import NodeCards, Reading
from cluster.deviceplugin.mig import MigDevice
from cluster.deviceplugin.node import NodeEvents, NodeRegister, register_text
from cluster.deviceplugin.owner import Refused
from cluster.deviceplugin.plugin import Offer
from cluster.deviceplugin.pods import NodePods, read_pod
from cluster.settings import Settings, parse_settings
from hami_hub.core.cards import CardUuid
from hami_hub.core.codec import decode_node_register
from hami_hub.core.names import NODE_REGISTER
from hami_hub.core.units import Mib

from .api_server_double import ApiDouble, refuse, serving
from .plugin_parts import CARDS, INDICES, NODE, OWNER, PlainBase, make_slices, node_cards, placed, pod

PATH = f"/api/v1/nodes/{NODE}"


async def until(look: Callable[[], object]) -> None:
    for _ in range(3000):
        if look():
            return
        await asyncio.sleep(0.01)
    pytest.fail("It never came to pass.")


@pytest.mark.parametrize(("scaling", "vram"), [("1", 15360), ("1.5", 23040), ("0.333", 5114), ("10", 153600)])
def test_a_card_counts_as_so_many_times_its_memory(scaling: str, vram: int) -> None:
    listed = decode_node_register(register_text(CARDS, scaling=scaling, usable=True))
    assert [(card.uuid, card.vram, card.healthy) for card in listed] == [("GPU-0", vram, True), ("GPU-1", vram, True)]


def test_a_node_that_gives_out_no_slices_lists_no_healthy_card() -> None:
    assert not any(card.healthy for card in decode_node_register(register_text(CARDS, scaling="1", usable=False)))


def test_a_card_that_never_said_how_much_it_has_is_not_listed() -> None:
    broken = replace(CARDS[0], vram=Mib(0), healthy=False)
    assert [
        card.uuid for card in decode_node_register(register_text([broken, CARDS[1]], scaling="1", usable=True))
    ] == ["GPU-1"]


async def test_the_annotation_is_written_only_when_it_differs(tmp_path: Path) -> None:
    double, annotations = ApiDouble(), dict[str, str]()

    def patch(_: object, body: Any) -> dict[str, Any]:
        annotations.update(body["metadata"]["annotations"])
        return {}

    double.on("GET", PATH, lambda *_: {"metadata": {"annotations": annotations}})
    double.on("PATCH", PATH, patch)
    async with serving(double, tmp_path) as api:
        register = NodeRegister(api, NODE)
        running = asyncio.create_task(register.run())
        for text in ("a", "a", "b"):
            register.set(text)
            await until(lambda text=text: annotations.get(NODE_REGISTER) == text)
        running.cancel()
    assert double.bodies("PATCH", PATH) == [{"metadata": {"annotations": {NODE_REGISTER: text}}} for text in "ab"]


async def test_a_refused_annotation_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cluster.deviceplugin.node._PAUSE_SECONDS", 0.01)
    double = ApiDouble()
    refusing = {"GET", "PATCH"}
    for method in ("GET", "PATCH"):
        double.on(
            method, PATH, lambda request, _: refuse(500, "no") if request.method in refusing else {"metadata": {}}
        )
    async with serving(double, tmp_path) as api:
        register = NodeRegister(api, NODE)
        register.set("a")
        running = asyncio.create_task(register.run())
        await until(lambda: len(double.bodies("GET", PATH)) > 1)
        refusing.remove("GET")
        await until(lambda: len(double.bodies("PATCH", PATH)) > 1)
        assert not register.announced
        refusing.remove("PATCH")
        await until(lambda: register.announced)
        running.cancel()


async def test_events_are_on_the_node_and_a_refused_one_stops_nothing(tmp_path: Path) -> None:
    double, path = ApiDouble(), "/api/v1/namespaces/default/events"
    double.on("POST", path, lambda _, body: refuse(403, "no") if body["reason"] == "One" else {})
    async with serving(double, tmp_path) as api:
        events = NodeEvents(api, NODE)
        running = asyncio.create_task(events.run())
        events.tell("One", "first")
        events.tell("Two", "x" * 5000, warning=False)
        await until(lambda: len(double.bodies("POST", path)) == 2)
        running.cancel()
    first, second = double.bodies("POST", path)
    assert (first["involvedObject"]["kind"], first["involvedObject"]["name"], first["type"]) == (
        "Node",
        NODE,
        "Warning",
    )
    assert (second["type"], len(second["message"].encode())) == ("Normal", 1024)


@pytest.mark.parametrize(("status", "expected"), [(404, Refused), (403, Refused), (500, ApiUnreachable)])
async def test_a_pod_that_cannot_be_had_is_a_refusal_or_a_server_that_is_away(
    tmp_path: Path, status: int, expected: type[Exception]
) -> None:
    double = ApiDouble()
    double.on("GET", "/api/v1/namespaces/default/pods/alice", lambda *_: refuse(status, "why"))
    async with serving(double, tmp_path) as api:
        with pytest.raises(expected):
            await read_pod(api, "default", "alice")


async def test_a_pod_is_read_with_what_was_decided_for_it(tmp_path: Path) -> None:
    double, there = ApiDouble(), pod(slices={"main": placed("GPU-0")})
    double.on("GET", "/api/v1/namespaces/default/pods/alice", {**there, "kind": "Pod"})
    async with serving(double, tmp_path) as api:
        assert await read_pod(api, "default", "alice") == there


def test_a_new_list_replaces_all_pods_and_only_when_it_is_whole() -> None:
    changes: list[int] = []
    pods = NodePods(lambda: changes.append(1))
    pods.put(pod())
    pods.begin_list()
    pods.put(pod("bob"))
    assert set(pods.by_uid) == {"uid-alice"}
    pods.end_list()
    assert set(pods.by_uid) == {"uid-bob"}
    pods.drop(pod("bob"))
    assert pods.named("default", "bob") is None
    assert len(changes) == 3


def announcer(
    folder: Path,
    cards: NodeCards,
    *,
    settings: Settings | None = None,
    problem: str = "",
    told: list[Any] | None = None,
) -> tuple[Announcer, dict[str, Offer], NodeRegister]:
    offers: dict[str, Offer] = {}
    told = [] if told is None else told
    register = NodeRegister(None, NODE)  # type: ignore[arg-type]
    made = Announcer(
        settings or Settings(),
        cards=cards,
        slices=make_slices(folder),
        register=register,
        base=PlainBase(),
        problem=lambda: problem,
        tell=lambda reason, text, warning: told.append((reason, text, warning)),
        new_offer=lambda name, offer: offers.update({name: offer}),
    )
    return made, offers, register


async def test_an_ill_card_takes_its_own_slots_away_and_no_others(tmp_path: Path) -> None:
    made, offers, _ = announcer(tmp_path, node_cards("GPU-0"))
    made.publish()
    devices = offers["nvidia.com/gpu"].devices
    assert [slot.healthy for slot in devices].count(True) == 10
    assert len(devices) == 20


async def test_a_node_with_a_problem_offers_nothing(tmp_path: Path) -> None:
    told: list[Any] = []
    made, offers, _ = announcer(tmp_path, node_cards(), problem="no tmpfs", told=told)
    made.publish()
    made.publish()
    assert told == [("NoSlices", "no tmpfs", True)]
    assert not any(slot.healthy for slot in offers["nvidia.com/gpu"].devices)


async def test_mig_devices_come_under_their_own_names_and_with_their_specification(tmp_path: Path) -> None:
    cut = MigDevice(CardUuid("MIG-a"), "0:0", Mib(1900), 1, 1)
    cards = NodeCards(quarantine=1, ignored=())
    cards.see([Reading(CARDS[0], used=0, mig=True, mig_devices=(cut,)), Reading(CARDS[1], used=0)], now=0)
    settings = parse_settings("devicePlugin: {migStrategy: mixed}")
    made, offers, _ = announcer(tmp_path, cards, settings=settings)
    made.publish()
    assert {name: [slot.name for slot in offer.devices][:1] for name, offer in offers.items()} == {
        "nvidia.com/gpu": ["slot-0000"],
        "nvidia.com/mig-1g.2gb": ["MIG-a"],
    }
    (device,) = json.loads((tmp_path / "cdi/hami-mig.json").read_text())["devices"]
    assert (device["name"], device["containerEdits"]) == ("MIG-a", {"deviceNodes": [{"path": "/dev/nvidia0:0"}]})
    cards.see([Reading(CARDS[0], used=0), Reading(CARDS[1], used=0)], now=1)
    made.publish()
    assert offers["nvidia.com/mig-1g.2gb"].devices == ()


async def test_what_the_cards_thread_sees_is_told_once(tmp_path: Path) -> None:
    told: list[tuple[str, bool]] = []
    counted: list[int] = []
    cards = NodeCards(quarantine=0, ignored=(13,))
    slices = make_slices(tmp_path)
    slices.prepare(OWNER, ["slot-0001"], placed("GPU-0"), INDICES)
    changes: list[int] = []
    news = CardNews(
        cards,
        slices,
        threshold=0,
        changed=lambda: changes.append(1),
        tell=lambda reason, _, warning: told.append((reason, warning)),
        count_xid=lambda _, code: counted.append(code),
    )
    assert news.problem
    well = tuple(Reading(card, used=7) for card in CARDS)
    news.readings(well)
    news.xid("GPU-0", 13)
    news.xid("GPU-0", 79)
    news.xid("GPU-0", 79)
    await until(lambda: len(counted) == 3)
    assert news.problem == ""
    assert news.unaccounted == {"GPU-0": 7, "GPU-1": 7}
    news.readings(well)
    news.no_cards("The driver is gone.")
    await until(lambda: news.problem)
    assert told == [
        ("CardOutOfOrder", True),
        ("CardRecovered", False),
        ("CardOutOfOrder", True),
        ("CardOutOfOrder", True),
    ]
    assert (counted, news.problem) == ([13, 79, 79], "The driver is gone.")
