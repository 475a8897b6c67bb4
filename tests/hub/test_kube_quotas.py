"""Quotas and lifetimes where servers are pods: judged before there is a pod, and told on it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("kubespawner", reason="jupyterhub-kubespawner is not installed")

from fake_cluster import FakeCluster, node, running, unschedulable, waiting
from hub_process import Failed
from kube_start import Start, listening
from test_kube_hub import OURS, _site

from hami_hub.core.names import label_value
from hami_hub.spawner.attempt import Attempt
from hami_hub.spawner.errors import GpuSpawnError, Reason

PROFILES = [
    {"name": "cpu", "title": "CPU only", "gpu": False},
    {"name": "small", "title": "4 GiB · 25 %", "vram": "4 GiB", "cores": 25},
    {"name": "whole", "title": "Whole card"},
]
SLICES = {"profiles": PROFILES}


@pytest.fixture
def port() -> Iterator[int]:
    with listening() as found:
        yield found


def join(made: Start, name: str, **quota: Any) -> None:
    """Put the person into a group."""
    properties = {f"hami.{key.replace('_', '-')}": value for key, value in quota.items()}
    made.user.groups.append(SimpleNamespace(name=name, properties=properties))


def charges(made: Start) -> list[tuple[str, str, int, int]]:
    held = made.spawner.slices.books.charges.all()
    return [(charge.holder, charge.group, charge.vram, charge.cores) for charge in held]


def runs(made: Start, cluster: FakeCluster, port: int, vram: int = 4096) -> None:
    """From now on pods get their slice and run."""
    made.spawner.port = port

    def life(name: str) -> None:
        cluster.place(name, vram=vram)
        cluster.status(name, running(port))

    cluster.life = life


async def test_a_pod_tells_who_pays_and_is_charged_until_it_is_gone(
    start: Any, fake_cluster: FakeCluster, port: int
) -> None:
    made = start(GpuSlices=SLICES)
    join(made, "Team A/B", vram="4GiB", max_lifetime="8h")
    runs(made, fake_cluster, port)
    books = made.spawner.slices.books
    opened: list[str] = []
    books.journal.watch(lambda before, after: opened.append(after.pod) if before is None else None)
    await made.run({"profile": "small", "group": "team a/b"})
    [pod] = fake_cluster.made
    place = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
    assert opened == [place]
    assert pod["metadata"]["labels"]["hami.io/quota-group"] == label_value("Team A/B")
    assert charges(made) == [("alice/", "Team A/B", 4096, 25)]
    state = made.spawner.get_state()["hami"]
    assert (state["group"], state["charge"]["placed"]) == ("Team A/B", ["GPU-11111111-2222-3333-4444-555555555555"])
    assert state["charge"]["until"] == state["charge"]["started"] + 8 * 3600
    assert Attempt.restored(books, "alice", "", state, place).start.pod == place
    await made.spawner.stop()
    assert charges(made) == []


async def test_a_pod_that_a_profile_names_is_known_by_that_name(
    start: Any, fake_cluster: FakeCluster, port: int
) -> None:
    made = start(GpuSlices=SLICES, GpuKubeSpawner={"profile_overrides": {"small": {"pod_name": "special"}}})
    runs(made, fake_cluster, port)
    await made.run({"profile": "small"})
    [pod] = fake_cluster.made
    [opened] = made.spawner.slices.books.journal.open_now()
    assert (pod["metadata"]["name"], opened.pod) == ("special", f"{pod['metadata']['namespace']}/special")


async def in_line(made: Start, cluster: FakeCluster, profile: str) -> None:
    """Somebody waits for a place in the scheduler's queue."""
    await made.begin({"profile": profile})
    await made.pod()
    cluster.status(made.name, unschedulable("0/1 nodes are available: 1 no GPU is free."))
    why = "One slice has all of the Tesla T4."
    cluster.queue[made.name] = {"state": "waiting", "place": 1, "of": 1, "reason": why, "never": False}
    await made.until_told("You are 1st in line. One slice has all of the Tesla T4.")


async def test_who_waits_is_told_when_a_time_limit_frees_what_they_want(
    start: Any, fake_cluster: FakeCluster, port: int
) -> None:
    alice, bob = start(GpuSlices=SLICES), start(user="bob", GpuSlices=SLICES)
    join(alice, "ml", max_lifetime="8h")
    runs(alice, fake_cluster, port, vram=15360)
    await alice.run({"profile": "whole"})
    fake_cluster.life = None
    await in_line(bob, fake_cluster, "small")
    [said] = [each for each in bob.spawner._news._told if "in line" in each["message"]]
    assert said["message"].endswith(" 15 GiB of it come free within 8 hours, when a server's time is over.")
    until = alice.spawner.get_state()["hami"]["charge"]["until"]
    assert said["hami"] == {"state": "waiting", "position": 1, "frees_at": until}
    await alice.spawner.stop()


@pytest.mark.parametrize("unknown", ["no time limit", "another kind of node", "too small a card"])
async def test_who_waits_is_told_no_time_that_nobody_knows(
    start: Any, fake_cluster: FakeCluster, port: int, unknown: str
) -> None:
    big = {"name": "big", "title": "Big", "vram": "20 GiB"}
    assert fake_cluster.inventory is not None
    if unknown == "too small a card":
        fake_cluster.inventory["nodes"].append(node("node-b", uuid="GPU-big", model="NVIDIA A10", vram=23028))
    kind = {"node_selector": {"gpu": "a10"}} if unknown == "another kind of node" else {}
    slices = {"profiles": [*PROFILES, big]}
    alice, bob = start(GpuSlices=slices), start(user="bob", GpuSlices=slices, KubeSpawner=kind)
    join(alice, "ml", **({} if unknown == "no time limit" else {"max_lifetime": "8h"}))
    runs(alice, fake_cluster, port, vram=15360)
    await alice.run({"profile": "whole"})
    fake_cluster.life = None
    await in_line(bob, fake_cluster, "big" if unknown == "too small a card" else "small")
    [said] = [each for each in bob.spawner._news._told if "in line" in each["message"]]
    assert said["message"] == "You are 1st in line. One slice has all of the Tesla T4."
    assert said["hami"]["frees_at"] is None
    await alice.spawner.stop()


async def test_over_quota_there_is_never_a_pod(start: Any, fake_cluster: FakeCluster) -> None:
    made = start(GpuSlices=SLICES)
    join(made, "ml", vram="3GiB")
    error = await made.refused({"profile": "small"})
    assert isinstance(error, GpuSpawnError)
    assert error.reason == Reason.OVER_QUOTA.value
    assert error.jupyterhub_message.startswith("Your start needs 4 GiB of VRAM, more than the group ml ever has: 3 GiB")
    assert fake_cluster.made == []
    assert charges(made) == []


async def test_a_server_without_a_gpu_is_paid_by_nobody(start: Any, fake_cluster: FakeCluster, port: int) -> None:
    made = start(GpuSlices=SLICES)
    join(made, "ml", servers="0")
    runs(made, fake_cluster, port)
    await made.run({"profile": "cpu"})
    assert "hami.io/quota-group" not in fake_cluster.made[0]["metadata"]["labels"]
    assert charges(made) == []
    await made.spawner.stop()


async def test_a_whole_card_is_charged_as_the_biggest_until_it_has_one(
    start: Any, fake_cluster: FakeCluster, port: int
) -> None:
    big = node("node-b", uuid="GPU-big", model="NVIDIA A10", vram=23028)
    assert fake_cluster.inventory is not None
    fake_cluster.inventory["nodes"].append(big)
    made = start(GpuSlices=SLICES)
    join(made, "ml", vram="20GiB")
    error = await made.refused({"profile": "whole"})
    assert "Your start needs 23028 MiB of VRAM" in str(error)
    made.user.groups[0].properties["hami.vram"] = "24GiB"
    made.spawner.port = port
    outcome = await made.begin({"profile": "whole"})
    await made.pod()
    assert charges(made) == [("alice/", "ml", 23028, 100)]
    fake_cluster.place(made.name, vram=15360, cores=100)
    fake_cluster.status(made.name, running(port))
    await outcome
    assert charges(made) == [("alice/", "ml", 15360, 100)]
    await made.spawner.stop()


async def test_without_the_scheduler_nobody_pays_for_what_nobody_can_count(
    start: Any, fake_cluster: FakeCluster
) -> None:
    fake_cluster.inventory = None
    made = start(GpuSlices=SLICES)
    join(made, "ml", vram="24GiB")
    error = await made.refused({"profile": "whole"})
    assert "How much VRAM a whole card has is not known now" in str(error)
    outcome = await made.begin({"profile": "small"})
    await made.pod()
    assert charges(made) == [("alice/", "ml", 4096, 25)]
    outcome.cancel()


@pytest.mark.parametrize("end", ["fails", "is cancelled", "is refused"])
async def test_a_start_that_comes_to_nothing_is_not_charged(start: Any, fake_cluster: FakeCluster, end: str) -> None:
    made = start(GpuSlices=SLICES)
    join(made, "ml", vram="4GiB")
    if end == "is refused":
        fake_cluster.refuse = (403, 'admission webhook "w" denied the request: No.')
    outcome = await made.begin({"profile": "small"})
    if end != "is refused":
        await made.pod()
        assert charges(made) == [("alice/", "ml", 4096, 25)]
    if end == "fails":
        fake_cluster.place(made.name)
        fake_cluster.status(made.name, waiting("InvalidImageName"))
    if end == "is cancelled":
        outcome.cancel()
    await asyncio.wait({outcome})
    await made.seen(lambda: not charges(made))
    assert fake_cluster.pod(made.name) is None


async def test_what_a_profile_list_asks_for_is_charged_as_well(
    start: Any, fake_cluster: FakeCluster, port: int
) -> None:
    gpu = {"extra_resource_limits": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "2000", "nvidia.com/gpucores": "10"}}
    profiles = [{"display_name": "CPU"}, {"display_name": "GPU", "kubespawner_override": gpu}]
    made = start(KubeSpawner={"profile_list": profiles})
    join(made, "ml", vram="3GiB", servers="1", profiles="gpu")
    runs(made, fake_cluster, port, vram=2000)
    await made.run({"profile": "gpu"})
    assert charges(made) == [("alice/", "ml", 2000, 25)]  # what it got
    assert fake_cluster.made[0]["metadata"]["labels"]["hami.io/quota-group"] == "ml"
    await made.spawner.stop()
    made.user.groups[0].properties["hami.vram"] = "1GiB"
    error = await made.refused({"profile": "gpu"})
    assert "Your start needs 2000 MiB of VRAM, more than the group ml ever has: 1 GiB" in str(error)
    assert len(fake_cluster.made) == 1
    made.user.groups[0].properties["hami.vram"] = "8GiB"
    await made.run({"profile": "cpu"})
    assert charges(made) == []


@pytest.mark.parametrize(
    ("group", "value"), [("ml", "ml"), ("", ""), ("A.b_c-1", "A.b_c-1"), ("x" * 63, "x" * 63)], ids=str
)
def test_a_name_that_can_be_a_label_is_one(group: str, value: str) -> None:
    assert label_value(group) == value


def test_names_that_can_not_be_labels_stay_apart() -> None:
    odd = ["a b", "a/b", "日本", "中文", "-", "é" * 100, "x" * 64, "<b>", "a\n"]
    values = [label_value(name) for name in odd]
    assert len(set(values)) == len(odd)
    assert all(len(value) <= 63 and value.isascii() and value[0].isalnum() and value[-1].isalnum() for value in values)


def test_a_hub_stops_a_pod_at_the_end_of_its_lifetime_and_charges_it_over_a_restart() -> None:
    quota = {"hami.vram": "8GiB", "hami.max-lifetime": "40s"}
    with _site(OURS, GpuSlices={"default_quota": quota}) as site:
        site.hub.start("alice", {"profile": "small"})
        site.hub.kill()
        site.hub.begin()
        with pytest.raises(Failed, match=r"4 GiB is left of what the default quota has: 8 GiB of VRAM"):
            site.hub.start("bob", {"profile": "half"})
        site.hub.until_stopped("alice")
        site.until_pods()
        site.hub.start("bob", {"profile": "half"})
