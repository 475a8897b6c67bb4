"""The device plugin on a real kubelet and containerd, with two simulated T4 cards, in a cluster of its own."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from hami_hub.core.slices import Placement
from tests.cluster.plugin_process import (
    RESOURCE,
    PluginOnNode,
    bind,
    container_pid,
    create,
    in_pod,
    node_events,
    placement,
    pod_log,
    pod_uid,
    restarts,
    run_pod,
    slice_pod,
    started_at,
    why_waiting,
)
from tests.cluster.rig import Cluster, images
from tests.cluster.rig.waiting import until

ROUNDS, PAIRS_AT_ONCE = 50, 5
numbers = itertools.count(1)
SLEEP = ["sleep", "3600"]
# What a process of the slice finds: what a driver call and NVML say, and whether more than the limit can be had.
LOOK = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
def call(name, *arguments):
    return getattr(cuda, name)(*arguments)
count, context = ctypes.c_int(), ctypes.c_void_p()
assert call("cuInit", 0) == 0
call("cuDeviceGetCount", ctypes.byref(count))
usable = [card for card in range(count.value) if call("cuDevicePrimaryCtxRetain", ctypes.byref(context), card) == 0]
call("cuCtxSetCurrent", context)
free, total = ctypes.c_size_t(), ctypes.c_size_t()
call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
pointer = ctypes.c_uint64()
def allocate(mib):
    return call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(mib << 20))
refused = allocate((total.value >> 20) + 100)
fits = allocate(100)
print(len(usable), total.value >> 20, refused, fits)
"""
QUICK_LOOK = ["python", "-I", "-S", "-c", LOOK]  # without what is installed beside it
FOUND = "{} {} 2 0"  # cards that can be used, MiB; CUDA_ERROR_OUT_OF_MEMORY for too much, success for 100 MiB


@pytest.fixture(scope="module")
def own() -> Iterator[Cluster]:
    """Not the cluster of the other tests, in which the chart's plugin has the node."""
    with Cluster(f"pytest-{os.getpid()}-plg") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def plugin(own: Cluster) -> Iterator[PluginOnNode]:
    made = PluginOnNode(own, own.nodes[0], {"simulatedCards": {"count": 2}, "quarantineSeconds": 10})
    try:
        made.start()
        own.wait_for(lambda: made.allocatable() == 20, "the node has 20 slots")
        yield made
    finally:
        made.stop()


@pytest.fixture(autouse=True)
def healthy(plugin: PluginOnNode) -> Iterator[None]:
    """What a test did to cards and plugin is undone before the next."""
    yield
    if not plugin.running:
        plugin.start()
    plugin.wait_slots()


@pytest.fixture
def space(own: Cluster) -> Iterator[str]:
    name = f"space-{next(numbers)}"
    with own.namespace(name):
        yield name


def uuids(plugin: PluginOnNode) -> list[str]:
    return [card.uuid for card in plugin.cards()]


def start(plugin: PluginOnNode, pod: dict[str, Any], slices: dict[str, Placement] | None, *, wait: bool = True) -> None:
    run_pod(plugin.cluster, pod, plugin.node.name, slices, wait=wait)


def slice_folders(plugin: PluginOnNode) -> set[str]:
    folder = plugin.node.run_dir / "slices"
    return {path.name for path in folder.iterdir()} if folder.is_dir() else set()


def slot_files(plugin: PluginOnNode) -> set[str]:
    return {path.name for path in plugin.node.path("/run/cdi").glob("hami-slice-*.json")}


def test_the_node_lists_its_cards_and_slots(plugin: PluginOnNode) -> None:
    first, second = plugin.cards()
    assert (first.model, first.vram, first.split_count, first.healthy) == ("Tesla T4", 15360, 10, True)
    assert first.uuid != second.uuid
    node = plugin.cluster.get(f"/api/v1/nodes/{plugin.node.name}")
    assert node["status"]["capacity"][RESOURCE] == "20"


def test_a_pod_has_its_slice_whoever_asks_and_with_whatever_environment(plugin: PluginOnNode, space: str) -> None:
    first, second = uuids(plugin)
    start(plugin, slice_pod("alice", SLEEP, namespace=space), {"main": placement(second, vram=4000, cores=30)})

    def says(*command: str) -> str:
        return in_pod(plugin.cluster, "alice", *command, namespace=space)

    assert says("cat", "/etc/ld.so.preload") == "/usr/local/vgpu/libvgpu.so"
    assert says("hami-hub", "smi", "--query-gpu=uuid,memory.total", "--format=csv,noheader") == f"{second}, 4000 MiB"
    card = ("LD_LIBRARY_PATH=/usr/local/vgpu/sim", "HAMI_SIM_DIR=/run/hami/sim")
    python = sys.executable  # the host's programs, at the host's places
    wanted = FOUND.format(1, 4000)
    assert says("python", "-c", LOOK) == wanted
    assert says("env", "-i", *card, python, "-c", LOOK) == wanted
    assert says("setpriv", "--reuid=1000", "--regid=100", "--clear-groups", "python", "-c", LOOK) == wanted
    assert (
        says(
            "sh",
            "-c",
            f"exec env -u LD_PRELOAD CUDA_DISABLE_CONTROL=true CUDA_DEVICE_MEMORY_LIMIT_0=9000m "
            f"HAMI_SLICE_DIR=/tmp {python} -c '{LOOK}'",
        )
        == wanted
    )
    # What enforces it can be written by nobody in the container, root or not.
    for path in ("/run/hami/slice/limits", "/etc/ld.so.preload", "/usr/local/vgpu/libvgpu.so"):
        assert "Read-only file system" in says("sh", "-c", f"(: > {path}) 2>&1; true")
    assert first not in says("hami-hub", "smi", "-L")


def test_two_containers_and_a_sidecar_have_their_own_slices(plugin: PluginOnNode, space: str) -> None:
    first, second = uuids(plugin)
    pod = slice_pod("crew", SLEEP, namespace=space)
    (main,) = pod["spec"]["containers"]
    pod["spec"]["containers"].append({**main, "name": "second"})
    pod["spec"]["initContainers"] = [{**main, "name": "side", "restartPolicy": "Always"}]
    slices = {
        "main": placement(first, vram=1000),
        "second": placement(second, vram=2000),
        "side": placement(first, vram=3000),
    }
    start(plugin, pod, slices)
    for container, vram in (("main", 1000), ("second", 2000), ("side", 3000)):
        found = in_pod(plugin.cluster, "crew", "python", "-c", LOOK, namespace=space, container=container)
        assert found == FOUND.format(1, vram)


def test_a_container_with_two_cards_has_both(plugin: PluginOnNode, space: str) -> None:
    both = placement(*uuids(plugin), vram=700)
    start(plugin, slice_pod("wide", SLEEP, namespace=space, cards=2), {"main": both})
    assert in_pod(plugin.cluster, "wide", "python", "-c", LOOK, namespace=space) == FOUND.format(2, 700)
    listed = in_pod(
        plugin.cluster, "wide", "hami-hub", "smi", "--query-gpu=uuid", "--format=csv,noheader", namespace=space
    )
    assert set(listed.splitlines()) == set(uuids(plugin))


def test_slices_that_share_a_cards_time_see_each_other_there_and_write_only_their_own_page(
    plugin: PluginOnNode, space: str
) -> None:
    cluster, (first, _) = plugin.cluster, uuids(plugin)
    for name in ("alice", "bob"):
        slices = {"main": placement(first, vram=600, cores=30)}
        start(plugin, slice_pod(name, SLEEP, namespace=space), slices)

    def says(script: str) -> str:
        return in_pod(cluster, "alice", "sh", "-c", f"({script}) 2>&1; true", namespace=space)

    keys = {f"{pod_uid(cluster, name, space)}_main" for name in ("alice", "bob")}
    ring = f"/run/hami/slice/cards/{first}"

    def members() -> set[str]:
        return {line for line in says(f"ls {ring}").splitlines() if not line.endswith(".share")}

    cluster.wait_for(lambda: members() == keys, "those of earlier tests have left the ring")
    assert says(f"test -w {ring}/../../turns && echo yes") == "yes"
    for key in keys:
        assert "Read-only file system" in says(f": >> {ring}/{key}")
    cluster.kubectl("delete", "pod", "-n", space, "bob", "--now")
    mine = f"{pod_uid(cluster, 'alice', space)}_main"
    cluster.wait_for(lambda: says(f"ls {ring}").split() == [mine, f"{mine}.share"], "bob has left the ring")


@pytest.mark.parametrize("how", ["by nodeName", "by another scheduler"])
def test_a_pod_that_was_not_placed_is_refused_with_a_reason_and_takes_nothing(
    plugin: PluginOnNode, space: str, how: str
) -> None:
    """While another pod, which was placed, waits for its own slice."""
    (first, _), cluster = uuids(plugin), plugin.cluster
    before = slice_folders(plugin)
    if how == "by nodeName":
        cluster.apply(slice_pod("thief", SLEEP, namespace=space, nodeName=plugin.node.name))
    else:
        start(plugin, slice_pod("thief", SLEEP, namespace=space, schedulerName="other"), None, wait=False)
    start(plugin, slice_pod("alice", SLEEP, namespace=space), {"main": placement(first, vram=1234)})
    cluster.wait_for(lambda: "not placed by hami-scheduler" in why_waiting(cluster, "thief", space), "it says why")
    assert in_pod(cluster, "alice", "python", "-c", LOOK, namespace=space) == FOUND.format(1, 1234)
    assert len(slice_folders(plugin) - before) == 1

    def told() -> bool:
        events = cluster.get(f"/api/v1/namespaces/{space}/events")["items"]
        return any("Leave nodeName out" in event["message"] for event in events)

    cluster.wait_for(told, "an event says what to do")


@pytest.mark.timeout(900)
def test_two_pods_that_are_admitted_at_the_same_moment_are_never_mixed_up(plugin: PluginOnNode, space: str) -> None:
    """Fifty times, five pairs at a time.  Each pair has its names again and again, as notebook servers have."""
    lanes = range(PAIRS_AT_ONCE)
    with ThreadPoolExecutor(PAIRS_AT_ONCE) as pool:
        spent = [seconds for lane in pool.map(lambda lane: two_at_once(plugin, space, lane), lanes) for seconds in lane]
    assert len(spent) == ROUNDS
    print(f"\n{ROUNDS} rounds, binding to both ended: {min(spent):.2f} to {max(spent):.2f} s")


def two_at_once(plugin: PluginOnNode, space: str, lane: int) -> list[float]:
    """One pair's rounds; how long each took."""
    cluster, cards, spent = plugin.cluster, uuids(plugin), []
    for number in range(ROUNDS // PAIRS_AT_ONCE):
        amounts = {f"alice-{lane}": 1000 + 100 * lane + number, f"bob-{lane}": 3000 + 100 * lane + number}
        pods = [slice_pod(name, QUICK_LOOK, namespace=space) for name in amounts]
        for pod in pods:
            create(cluster, pod)
        begun = time.monotonic()
        slices = [{"main": placement(card, vram=amount)} for card, amount in zip(cards, amounts.values(), strict=True)]
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(bind, [cluster] * 2, pods, [plugin.node.name] * 2, slices))
        for name in amounts:
            cluster.wait_pod(name, "Succeeded", "Failed", namespace=space, seconds=120)
        spent.append(time.monotonic() - begun)
        for name, amount in amounts.items():
            assert pod_log(cluster, name, space) == FOUND.format(1, amount)
            cluster.api.request("DELETE", f"/api/v1/namespaces/{space}/pods/{name}?gracePeriodSeconds=0")
    return spent


def test_a_container_that_ends_starts_again_in_its_slice(plugin: PluginOnNode, space: str) -> None:
    cluster, (first, _) = plugin.cluster, uuids(plugin)
    pod = slice_pod("again", SLEEP, namespace=space, restartPolicy="Always")
    start(plugin, pod, {"main": placement(first, vram=900)})
    os.kill(main_process(plugin, "again", space), signal.SIGKILL)
    cluster.wait_for(lambda: restarts(cluster, "again", space) == 1, "the container runs again")
    assert in_pod(cluster, "again", "python", "-c", LOOK, namespace=space) == FOUND.format(1, 900)


def test_a_restart_of_the_kubelet_disturbs_nobody_and_new_pods_get_slices(plugin: PluginOnNode, space: str) -> None:
    cluster, (first, second) = plugin.cluster, uuids(plugin)
    start(plugin, slice_pod("alice", SLEEP, namespace=space), {"main": placement(first, vram=1500)})
    before = started_at(cluster, "alice", space)
    plugin.node.kubelet.restart()
    plugin.wait_slots()
    assert started_at(cluster, "alice", space) == before
    assert in_pod(cluster, "alice", "python", "-c", LOOK, namespace=space) == FOUND.format(1, 1500)
    start(plugin, slice_pod("bob", SLEEP, namespace=space), {"main": placement(second, vram=1600)})
    assert in_pod(cluster, "bob", "python", "-c", LOOK, namespace=space) == FOUND.format(1, 1600)


@pytest.mark.parametrize("kill", [False, True], ids=["asked to end", "killed"])
def test_a_restart_of_the_plugin_disturbs_nobody_and_who_starts_meanwhile_waits(
    plugin: PluginOnNode, space: str, kill: bool
) -> None:
    cluster, (first, second) = plugin.cluster, uuids(plugin)
    start(plugin, slice_pod("alice", SLEEP, namespace=space), {"main": placement(first, vram=1500)})
    before, folder = started_at(cluster, "alice", space), f"{pod_uid(cluster, 'alice', space)}_main"
    plugin.stop(kill=kill)
    assert in_pod(cluster, "alice", "python", "-c", LOOK, namespace=space) == FOUND.format(1, 1500)
    plugin.start()
    start(plugin, slice_pod("bob", SLEEP, namespace=space), {"main": placement(second, vram=1600)})
    assert in_pod(cluster, "bob", "python", "-c", LOOK, namespace=space) == FOUND.format(1, 1600)
    assert started_at(cluster, "alice", space) == before
    assert folder in slice_folders(plugin)


def test_with_the_api_server_away_slices_go_on_and_a_container_starts_again(plugin: PluginOnNode, space: str) -> None:
    cluster, (first, _) = plugin.cluster, uuids(plugin)
    pod = slice_pod("again", SLEEP, namespace=space, restartPolicy="Always")
    start(plugin, pod, {"main": placement(first, vram=900)})
    uid, process = pod_uid(cluster, "again", space), main_process(plugin, "again", space)
    cluster.apiserver.stop()
    try:
        os.kill(process, signal.SIGKILL)
        until(lambda: container_pid(uid, SLEEP) not in (0, process), "it runs again")
    finally:
        cluster.apiserver.start()
    cluster.wait_for(lambda: restarts(cluster, "again", space) == 1, "the container runs again")
    assert in_pod(cluster, "again", "python", "-c", LOOK, namespace=space) == FOUND.format(1, 900)


def test_an_xid_takes_a_card_out_and_a_probe_brings_it_back(plugin: PluginOnNode, space: str) -> None:
    cluster, (first, second) = plugin.cluster, uuids(plugin)
    start(plugin, slice_pod("alice", SLEEP, namespace=space), {"main": placement(first, vram=1500)})
    before = started_at(cluster, "alice", space)
    plugin.simulated("nvml.hamisim_raise_xid(0, 13)")  # a program's error
    plugin.simulated("nvml.hamisim_raise_xid(0, 48)")
    # The kubelet tells the API server of its slots every ten seconds: the quarantine may be over by then.
    cluster.wait_for(lambda: [c.healthy for c in plugin.cards()] == [False, True], "the scheduler is told", every=0.02)
    cluster.wait_for(lambda: all(card.healthy for card in plugin.cards()), "the card is back")
    assert started_at(cluster, "alice", space) == before
    assert plugin.metric("hami_card_xids_total", device_uuid=first, xid="13") == 1

    def told() -> dict[str, str]:
        return {event["reason"]: event["message"] for event in node_events(cluster)}

    cluster.wait_for(lambda: {"CardOutOfOrder", "CardRecovered"} <= told().keys(), "events tell of both")
    assert "XID 48" in told()["CardOutOfOrder"]
    assert first in told()["CardRecovered"]
    assert second not in told()["CardOutOfOrder"]


def test_a_card_that_falls_off_the_bus_leaves_the_plugin_and_the_other_card_alone(
    plugin: PluginOnNode, space: str
) -> None:
    cluster, (first, second) = plugin.cluster, uuids(plugin)
    plugin.simulated("nvml.hamisim_lose_card(0, 1)")
    try:
        cluster.wait_for(lambda: plugin.allocatable() == 10, "the card's slots are gone")
        listed = [(first, 15360, False), (second, 15360, True)]
        cluster.wait_for(
            lambda: [(card.uuid, card.vram, card.healthy) for card in plugin.cards()] == listed, "it is listed as ill"
        )
        start(plugin, slice_pod("bob", SLEEP, namespace=space), {"main": placement(second, vram=1600)})
        assert in_pod(cluster, "bob", "python", "-c", LOOK, namespace=space) == FOUND.format(1, 1600)
        unlucky = slice_pod("alice", SLEEP, namespace=space)
        start(plugin, unlucky, {"main": placement(first, vram=1500)}, wait=False)
        cluster.wait_for(lambda: "is out of order" in why_waiting(cluster, "alice", space), "it says why")
    finally:
        plugin.simulated("nvml.hamisim_lose_card(0, 0)")
    plugin.wait_slots()
    cluster.wait_pod("alice", "Running", namespace=space)


def test_what_a_pod_leaves_is_removed_and_what_runs_stays(plugin: PluginOnNode, space: str) -> None:
    cluster, (first, second) = plugin.cluster, uuids(plugin)
    cluster.wait_for(lambda: not slice_folders(plugin) and not slot_files(plugin), "earlier tests' slices are gone")
    for name, card in (("alice", first), ("bob", second)):
        start(plugin, slice_pod(name, SLEEP, namespace=space), {"main": placement(card, vram=500)})
    start(plugin, slice_pod("carol", ["true"], namespace=space), {"main": placement(first, vram=500)}, wait=False)
    cluster.wait_pod("carol", "Succeeded", namespace=space)
    uid = pod_uid(cluster, "bob", space)
    cluster.kubectl("delete", "pod", "-n", space, "alice", "--now")
    cluster.wait_for(lambda: slice_folders(plugin) == {f"{uid}_main"}, "only bob's slice is left")
    cluster.wait_for(lambda: len(slot_files(plugin)) == 1, "only bob's slot is left")
    assert in_pod(cluster, "bob", "python", "-c", LOOK, namespace=space) == FOUND.format(1, 500)


def test_figures_are_there_from_the_start(plugin: PluginOnNode, space: str) -> None:
    cluster, (first, _) = plugin.cluster, uuids(plugin)
    hold = LOOK + "import time; time.sleep(3600)"
    labels = {"namespace": space, "pod": "alice", "container": "main", "device_uuid": first}
    start(plugin, slice_pod("alice", SLEEP, namespace=space), {"main": placement(first, vram=2000, cores=25)})
    assert plugin.metric("hami_vgpu_memory_used_bytes", **labels) == 0
    assert plugin.metric("hami_vgpu_memory_limit_bytes", **labels) == 2000 << 20
    assert plugin.metric("hami_vgpu_core_limit_ratio", **labels) == 0.25
    start(
        plugin, slice_pod("bob", ["python", "-u", "-c", hold], namespace=space), {"main": placement(first, vram=2000)}
    )
    cluster.wait_for(lambda: cluster.kubectl("logs", "-n", space, "bob").strip(), "bob holds memory")
    labels["pod"] = "bob"
    assert plugin.metric("hami_vgpu_memory_used_bytes", **labels) == (104 + 100) << 20  # a T4's context, and 100 MiB
    assert plugin.metric("hami_vgpu_refusals_total", **labels) == 1
    cluster.wait_for(
        lambda: plugin.metric("hami_host_gpu_memory_used_bytes", device_uuid=first) == (104 + 100) << 20,
        "the card says the same",
    )
    assert plugin.metric("hami_host_gpu_memory_unaccounted_bytes", device_uuid=first) == 0


def test_who_got_around_the_limiter_is_named_and_ended(plugin: PluginOnNode, space: str) -> None:
    cluster, settings, (first, _) = plugin.cluster, plugin.settings, uuids(plugin)
    # as a program that talks to the driver by itself; what came before is accounted for
    escape = LOOK + "cuda.hamisim_take(0, ctypes.c_int64(700 << 20)); import time; time.sleep(3600)"
    honest = LOOK + "allocate(1000); import time; time.sleep(3600)"
    try:
        anew(plugin, {**settings, "escapes": "end"})
        for name, code in (("bob", honest), ("alice", escape)):
            pod = slice_pod(name, ["python", "-u", "-c", code], namespace=space)
            start(plugin, pod, {"main": placement(first, vram=2000)}, wait=False)
        held = {"namespace": space, "pod": "bob", "device_uuid": first}
        cluster.wait_for(
            lambda: plugin.metric("hami_vgpu_memory_used_bytes", **held) == (104 + 100 + 1000) << 20, "bob holds memory"
        )
        said = cluster.wait_for(lambda: escapes(cluster), "it is told")
        assert said.startswith(f"{space}/alice/main holds 904 MiB of the card {first}")
        assert said.endswith("got around the limiter. They are ended.")
        (ended,) = cluster.wait_pod("alice", "Failed", namespace=space)["status"]["containerStatuses"]
        assert ended["state"]["terminated"]["exitCode"] == 128 + signal.SIGKILL
        assert plugin.metric("hami_slice_escapes_total", device_uuid=first) == 1
        assert in_pod(cluster, "bob", "echo", "bob lives on", namespace=space) == "bob lives on"
    finally:
        anew(plugin, settings)


def test_cards_that_are_cut_by_mig_are_offered_by_profile_or_not_at_all(plugin: PluginOnNode, space: str) -> None:
    cluster, settings = plugin.cluster, plugin.settings
    cut = {"count": 1, "profile": "A100-40GB", "mig": "1g,1g,3g"}

    def capacity() -> dict[str, str]:
        return dict(cluster.get(f"/api/v1/nodes/{plugin.node.name}")["status"]["capacity"])

    try:
        anew(plugin, {"simulatedCards": cut, "migStrategy": "none"}, slots=0)
        cluster.wait_for(lambda: capacity()[RESOURCE] == "0", "a card that is cut has no slices")
        assert not any("mig" in name for name in capacity())
        assert plugin.cards() == ()
        anew(plugin, {"simulatedCards": cut, "migStrategy": "mixed"}, slots=0)
        small, large = "nvidia.com/mig-1g.5gb", "nvidia.com/mig-3g.20gb"
        cluster.wait_for(
            lambda: (capacity().get(small), capacity().get(large)) == ("2", "1"), "its devices are offered"
        )
        create(cluster, images.host_pod("mig", SLEEP, namespace=space, limits={large: 1}))
        cluster.wait_pod("mig", "Running", namespace=space)
        assert in_pod(cluster, "mig", "printenv", "HAMI_SIM_DIR", namespace=space) == "/run/hami/sim"
    finally:
        anew(plugin, settings)


def escapes(cluster: Cluster) -> str:
    """What the node's agent tells of those who got around the limiter."""
    return "".join(event["message"] for event in node_events(cluster) if event["reason"] == "SliceEscaped")


def main_process(plugin: PluginOnNode, pod: str, namespace: str) -> int:
    """The PID of a pod that sleeps, as this machine counts."""
    uid = pod_uid(plugin.cluster, pod, namespace)
    return plugin.cluster.wait_for(lambda: container_pid(uid, SLEEP), f"the process of {pod} is there")


def anew(plugin: PluginOnNode, settings: dict[str, Any], *, slots: int = 20) -> None:
    """The plugin with other settings, on cards that nobody has used yet."""
    plugin.stop()
    shutil.rmtree(plugin.node.run_dir / "sim")
    plugin.settings = settings
    plugin.start(slots=slots)
