"""What the hub asks the cluster's GPU scheduler, how often, and what the form makes of its answers and its silence."""

from __future__ import annotations

import asyncio
import html
import re
from typing import Any

import pytest

pytest.importorskip("kubespawner", reason="jupyterhub-kubespawner is not installed")

from fake_cluster import FakeCluster, node
from kube_start import HUB_PATIENCE, Start
from test_kube_start import SLICES

from hami_hub.spawner.kube import GpuCluster


async def form(start: Start) -> str:
    """The form's words, without its tags."""
    page = str(await start.spawner.get_options_form())
    plain = re.sub(r"<style>.*?</style>|<[^>]*>", " ", page, flags=re.DOTALL)
    return " ".join(html.unescape(plain).split())


def forget_answers() -> None:
    """As a second later."""
    GpuCluster.instance()._inventory_until = GpuCluster.instance()._facts_until = 0.0


@pytest.fixture
async def alice(start: Any) -> Start:
    made: Start = start(**SLICES)
    return made


async def test_the_form_shows_every_nodes_cards_and_what_starts_now(alice: Start, fake_cluster: FakeCluster) -> None:
    fake_cluster.inventory = {
        "nodes": [
            node("a", usedVram=12288, usedCores=75, slices=3),
            node("b", uuid="GPU-b", model="NVIDIA A10", vram=24576, usedVram=20480, slices=2),
        ]
    }
    shown = await form(alice)
    assert "Tesla T4, 15 GiB, 3 GiB free" in shown
    assert "NVIDIA A10, 24 GiB, 4 GiB free" in shown
    assert "4 GiB · 25 % Starts now" in shown
    assert "Whole card Waits Whole card" in shown.replace("The whole card", "Whole card")
    assert "Big Waits" in shown  # the A10 could, but not now
    assert "Another amount Starts now" in shown
    assert "256 MiB to 24 GiB; 4 GiB or less fits now." in shown


async def test_what_no_node_could_ever_hold_can_not_be_picked(alice: Start, fake_cluster: FakeCluster) -> None:
    assert "Big Never fits" in await form(alice)


async def test_a_node_that_is_not_ready_has_no_room(alice: Start, fake_cluster: FakeCluster) -> None:
    fake_cluster.inventory = {"nodes": [{**node("a"), "ready": False, "problem": "The kubelet is away."}]}
    shown = await form(alice)
    assert "Tesla T4, 15 GiB, out of order" in shown
    assert "4 GiB · 25 % Starts now" not in shown


async def test_many_forms_ask_once(alice: Start, fake_cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hami_hub.spawner.kube.cluster._ANSWER_SECONDS", 60.0)  # drawing fifty may take over a second
    await asyncio.gather(*(form(alice) for _ in range(50)))
    assert len(fake_cluster.tokens) == 1


async def test_the_token_is_read_again_since_it_rotates(alice: Start, fake_cluster: FakeCluster) -> None:
    await form(alice)
    fake_cluster.token_file.write_text("second-token\n")
    forget_answers()
    await form(alice)
    assert fake_cluster.tokens == ["Bearer first-token", "Bearer second-token"]


SILENT: dict[str, tuple[str, str]] = {
    "does not answer": ("silent", "the GPU scheduler answers with 503"),
    "is not there": ("moved", "the GPU scheduler doesn't answer"),
    "says something else": ("odd", "its answer can't be understood"),
    "is not set up": ("no data", "the ConfigMap hami-hub names no scheduler"),
    "has no ConfigMap": ("no map", "the ConfigMap hami-hub in default can't be read (Not Found)"),
    "no token": ("no token", "the hub's token"),
}


@pytest.mark.parametrize(("how", "why"), SILENT.values(), ids=SILENT)
async def test_a_scheduler_that_can_not_be_asked_is_said_and_stops_nothing(
    alice: Start, fake_cluster: FakeCluster, how: str, why: str
) -> None:
    good = fake_cluster.inventory
    if how == "silent":
        fake_cluster.inventory = None
    elif how == "moved":
        fake_cluster.set_scheduler(url="http://127.0.0.1:1")
    elif how == "odd":
        fake_cluster.inventory = {"nodes": 7}
    elif how == "no data":
        fake_cluster.put("configmaps", "hami-hub", {"metadata": {"name": "hami-hub"}})
    elif how == "no map":
        fake_cluster.objects["configmaps"].clear()
    else:
        fake_cluster.token_file.unlink()
    shown = await form(alice)
    assert f"What is free on the GPUs is not known now: {why}" in shown
    assert "You can pick one all the same." in shown
    assert "4 GiB · 25 % May wait" in shown
    assert "CPU only Starts now" in shown
    await alice.begin({"profile": "small"})
    assert (await alice.pod())["spec"]["schedulerName"] == "hami-scheduler"

    fake_cluster.inventory = good
    fake_cluster.token_file.write_text("t")
    fake_cluster.set_scheduler()
    forget_answers()
    assert "Tesla T4, 15 GiB, all free" in await form(alice)


async def test_a_scheduler_that_has_moved_is_found_again(alice: Start, fake_cluster: FakeCluster) -> None:
    await form(alice)
    GpuCluster.instance()._facts = type(GpuCluster.instance()._facts)(url="http://127.0.0.1:1")
    GpuCluster.instance()._inventory_until = 0.0
    assert "not known now" in await form(alice)
    GpuCluster.instance()._inventory_until = 0.0
    assert "all free" in await form(alice)


async def test_a_scheduler_that_hangs_holds_no_form_up(start: Any, fake_cluster: FakeCluster) -> None:
    hanging = await asyncio.start_server(lambda reader, writer: asyncio.sleep(60), "127.0.0.1", 0)
    port = hanging.sockets[0].getsockname()[1]
    made = start(
        **SLICES,
        GpuCluster={
            "url": f"http://127.0.0.1:{port}",
            "timeout": 0.2,
            "token_file": str(fake_cluster.token_file),
        },
    )
    assert "the GPU scheduler doesn't answer" in await asyncio.wait_for(form(made), HUB_PATIENCE)
    hanging.close()


async def test_admins_can_say_where_the_scheduler_is(start: Any, fake_cluster: FakeCluster) -> None:
    fake_cluster.objects["configmaps"].clear()
    made = start(
        **SLICES,
        GpuCluster={"url": fake_cluster.url, "scheduler_name": "mine", "token_file": str(fake_cluster.token_file)},
    )
    assert "all free" in await form(made)
    await made.begin({"profile": "small"})
    assert (await made.pod())["spec"]["schedulerName"] == "mine"


async def test_a_profile_list_keeps_kubespawners_form(start: Any) -> None:
    made = start(KubeSpawner={"profile_list": [{"display_name": "Mine", "description": "<em>so</em>"}]})
    page = await made.spawner.get_options_form()
    assert "<em>so</em>" in page
    assert "Tesla" not in page


async def test_profiles_of_ours_go_before_a_profile_list(start: Any) -> None:
    made = start(**SLICES, KubeSpawner={"profile_list": [{"display_name": "Mine"}]})
    assert "Whole card" in await form(made)


async def test_a_link_names_a_profile_and_its_amount(alice: Start, start: Any) -> None:
    query = {"profile": ["other"], "vram": ["3GiB"], "next": ["/x"]}
    assert alice.spawner.options_from_query(query) == {"profile": "other", "vram": "3GiB"}
    listed = start(KubeSpawner={"profile_list": [{"display_name": "Mine"}]})
    query = {"profile": ["mine"], "profile-option-mine--image": ["a"]}
    assert listed.spawner.options_from_query(query) == {"profile": "mine", "image": "a"}
