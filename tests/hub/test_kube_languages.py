"""A server in a cluster is told of in the language of whoever waits for it; what others read stays English."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("kubespawner", reason="jupyterhub-kubespawner is not installed")

from fake_cluster import FakeCluster, unschedulable
from kube_start import Start

from hami_hub.core.cards import CardUuid
from hami_hub.core.explanation import no_room_to_json
from hami_hub.core.nodes import CardsShort, FleetNoRoom, NearMiss
from hami_hub.core.placement import Lack
from hami_hub.core.pods import ContainerAsk
from hami_hub.core.slices import SliceRequest
from hami_hub.core.units import Mib, Percent

PROFILES = [{"name": "small", "vram": "4 GiB", "cores": 25}, {"name": "half", "vram": "50 %"}]
WHY = FleetNoRoom(
    asks=(ContainerAsk("notebook", SliceRequest(vram=Mib(4096), cores=Percent(25))),),
    container="notebook",
    never=False,
    nodes=2,
    cards=(CardsShort(Lack.VRAM, 3, 2, NearMiss("node-a", CardUuid("GPU-a"), "Tesla T4", 4096, 2048)),),
)


def reading(made: Start, language: str) -> Start:
    """The same person, who reads `language`."""
    request = SimpleNamespace(headers={"Accept-Language": language})
    made.spawner.handler = SimpleNamespace(request=request, settings={})
    return made


@pytest.fixture
async def alice(start: Any) -> Start:
    return reading(start(GpuSlices={"profiles": PROFILES}), "ja")


async def test_who_waits_for_a_place_reads_why_in_their_language(
    alice: Start, fake_cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    alice.spawner.log.propagate = True
    await alice.begin({"profile": "small"})
    await alice.until_told("クラスターがサーバーの配置先を探しています。")
    fake_cluster.status(alice.name, unschedulable("0/2 nodes are available: 2 no GPU is free."))
    fake_cluster.queue[alice.name] = {
        "state": "waiting", "place": 2, "of": 2, "reason": "In English.", "never": False, "why": no_room_to_json(WHY),
    }  # fmt: skip
    assert await alice.until_told("番目") == (
        "順番待ちの 2 番目です。「4 GiB · 25 %」の空きが 2 台のノードのどこにもありません（2 台のノードのカード 3 枚は "
        "VRAM の空きが不足: 最大 2 GiB、要求 4 GiB（node-a, GPU-a））。いずれかのスライスが終了すると開始します。"
        "または 2 GiB 以下を要求してください。"
    )
    fake_cluster.place(alice.name)
    await alice.until_told("確保したスライス: Tesla T4 のうち 4 GiB · 25 %。サーバーを準備しています。")
    assert "You are 2nd in line. 4 GiB · 25 % is not free on 2 nodes: " in caplog.text


async def test_what_the_cluster_says_itself_is_told_in_their_language_too(
    alice: Start, fake_cluster: FakeCluster
) -> None:
    fake_cluster.inventory = None
    await alice.begin({"profile": "small"})
    await alice.pod()
    fake_cluster.status(alice.name, unschedulable("0/2 nodes are available: 2 Insufficient memory. preemption: none."))
    assert await alice.until_told("メモリ") == (
        "クラスターには、サーバーに必要なメモリの空きがあるマシンがありません。"
        "可能になりしだい、サーバーは自動的に開始します。"
    )


async def test_a_refusal_is_in_their_language_and_in_english_for_the_log(
    alice: Start, fake_cluster: FakeCluster
) -> None:
    reading(alice, "zh-CN")
    fake_cluster.refuse = (403, 'pods "x" is forbidden: exceeded quota: gpus, requested: requests.nvidia.com/gpumem=4k')
    error = await alice.refused({"profile": "small"})
    assert error.jupyterhub_message == (
        "集群自身的服务器配额已用尽：gpus, requested: requests.nvidia.com/gpumem=4k。"
        "请等待有服务器停止，或选择更小的配置。"
    )
    assert str(error).startswith("The cluster's own quota for servers here is used up: gpus")


async def test_what_stands_on_the_pod_is_for_everybody(alice: Start) -> None:
    await alice.begin({"profile": "half"})
    pod = await alice.pod()
    assert "50 % of the VRAM" in pod["metadata"]["annotations"].values()
