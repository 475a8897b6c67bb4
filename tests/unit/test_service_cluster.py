"""A cluster's cards and true use as the service sees them: the scheduler's answer, the device plugins' metrics."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from prometheus_client import CollectorRegistry, generate_latest

from hami_hub.core.cards import CardUuid
from hami_hub.core.codec import WireError
from hami_hub.core.inventory import held_shares, queued_pods
from hami_hub.core.language import Sentence
from hami_hub.core.units import Mib

pytest.importorskip("kubespawner", reason="jupyterhub-kubespawner is not installed")

from hami_hub.service.cluster import ClusterEyes, PluginMetrics, used_by_pod
from hami_hub.spawner.kube.cluster import Inventory

SAID: dict[str, Any] = {
    "at": "2026-11-30T10:00:00Z",
    "nodes": [],
    "slices": [
        {
            "namespace": "jhub",
            "pod": "jupyter-alice",
            "since": "2026-11-30T09:00:00Z",
            "shares": [{"uuid": "GPU-1", "vram": 4096, "cores": 25, "exclusive": False, "whole": False}],
        },
        {"namespace": "jhub", "pod": "jupyter-bob", "since": "", "shares": []},
    ],
    "queue": [
        {"namespace": "jhub", "pod": "jupyter-eve", "place": 1, "since": "x", "asks": "8 GiB", "reason": None},
    ],
}
NINE = datetime(2026, 11, 30, 9, tzinfo=timezone.utc).timestamp()


def test_the_schedulers_slices_and_queue_are_read():
    (held,) = held_shares(SAID)
    assert (held.pod, held.share.uuid, held.share.vram, held.since) == ("jupyter-alice", "GPU-1", 4096, NINE)
    (waits,) = queued_pods(SAID)
    assert (waits.pod, waits.place, waits.asks, waits.reason, waits.since) == ("jupyter-eve", 1, "8 GiB", "", None)


@pytest.mark.parametrize("said", [{}, {"slices": 1, "queue": 1}, {"slices": [{}], "queue": [{}]}, {"slices": [None]}])
def test_an_answer_of_another_version_is_refused_in_words(said):
    with pytest.raises(WireError, match=r"list of slices can't be read .* of the same version"):
        held_shares(said)
    with pytest.raises(WireError, match="list of queue can't be read"):
        queued_pods(said)


def plugins_metrics() -> str:
    """As a device plugin shows them."""
    from cluster.deviceplugin.cdi import Owner
    from cluster.deviceplugin.metrics import NodeCollector, Sight
    from cluster.deviceplugin.usage import SliceUse
    from hami_hub.core.slices import CorePolicy, Priority
    from hami_hub.slicepage.reader import CardView, SliceView

    card = CardView(
        uuid=CardUuid("GPU-1"), limit=Mib(4096), used=Mib(1500), peak=Mib(2000), cores=25, policy=CorePolicy.DEFAULT,
        priority=Priority.LOW, whole=False, refusals=0, overshoots=0, throttled_seconds=0.0,
    )  # fmt: skip
    owner = Owner(namespace="jhub", pod="jupyter-alice", uid="1", container="notebook")
    use = SliceUse(owner, SliceView("", (card,), (), ()))
    registry = CollectorRegistry()
    registry.register(NodeCollector("a", lambda: Sight((), (use,), {}, (), True)))
    return generate_latest(registry).decode()


def test_true_use_is_read_from_a_plugins_metrics():
    assert used_by_pod(plugins_metrics()) == {("jhub/jupyter-alice", "GPU-1"): 1500}


@pytest.mark.parametrize("text", ["", "# nothing\n", 'hami_vgpu_memory_used_bytes{pod="x"} 1048576\n'])
def test_other_metrics_are_no_obstacle(text):
    assert set(used_by_pod(text).values()) <= {1}


class SchedulerDouble:
    """`GpuCluster`, as far as eyes ask it."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory

    async def inventory(self, namespace: str) -> Inventory:
        return self._inventory


async def looked(inventory: Inventory, usage: PluginMetrics | None = None):
    return await ClusterEyes(SchedulerDouble(inventory), "jhub", usage).look()  # type: ignore[arg-type]


async def serving(text: str, status: int = 200) -> TestServer:
    async def metrics(_: web.Request) -> web.Response:
        return web.Response(text=text, status=status)

    application = web.Application()
    application.add_routes([web.get("/metrics", metrics)])
    server = TestServer(application)
    await server.start_server()
    return server


async def test_slices_are_seen_with_what_the_plugins_say_is_in_use():
    server = await serving(plugins_metrics())
    try:
        usage = PluginMetrics(f"http://127.0.0.1:{server.port}/metrics")
        sight = await looked(Inventory(said=SAID), usage)
    finally:
        await server.close()
    (seen,) = sight.slices
    assert (seen.holder, seen.card, seen.used, seen.since) == ("jhub/jupyter-alice", "GPU-1", 1500, NINE)
    assert [each.holder for each in sight.waiting] == ["jhub/jupyter-eve"]
    assert not sight.problems


@pytest.mark.parametrize(
    ("text", "status"), [pytest.param("gone", 500, id="an error"), pytest.param("{", 200, id="no metrics")]
)
async def test_a_plugin_that_does_not_say_is_told_and_the_slices_are_shown(text, status):
    server = await serving(text, status)
    try:
        sight = await looked(Inventory(said=SAID), PluginMetrics(f"http://127.0.0.1:{server.port}/metrics"))
    finally:
        await server.close()
    assert [each.used for each in sight.slices] == [None]
    assert sight.problems == ("What is really in use isn't known everywhere: 1 of 1 device plugins don't answer.",)


async def test_a_name_that_is_not_there_is_told(monkeypatch):
    def nowhere(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", nowhere)
    sight = await looked(Inventory(said=SAID), PluginMetrics("http://plugins.invalid:9394/metrics"))
    assert sight.problems[0].startswith("What is really in use isn't known: plugins.invalid can't be found")


async def test_without_the_scheduler_its_words_are_told():
    sight = await looked(Inventory(why_unknown=Sentence("The GPU scheduler doesn't answer.", {})))
    assert sight.problems == ("The GPU scheduler doesn't answer.",)
    assert not sight.cards


async def test_plugins_are_asked_once_for_many_looks():
    asked = 0

    class Counting(PluginMetrics):
        async def _ask_all(self) -> Mapping[tuple[str, str], Mib]:
            nonlocal asked
            asked += 1
            return {}

    usage = Counting("http://x/metrics")
    await asyncio.gather(*(usage.used() for _ in range(20)))
    await usage.used()
    assert asked == 1
