"""The plugin and a scripted kubelet over real sockets: registering, listing, and never mixing two pods up."""

from __future__ import annotations

import asyncio
import json
import random
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import grpc.aio
import pytest
from prometheus_client import CollectorRegistry

from cluster.apiserver import ApiUnreachable
from cluster.deviceplugin.kubelet import PodResources
from cluster.deviceplugin.metrics import CountedOutcomes
from cluster.deviceplugin.owner import Pod, Refused
from cluster.deviceplugin.plugin import Offer, SliceService
from cluster.deviceplugin.pods import NodePods
from cluster.deviceplugin.registration import Registration
from cluster.deviceplugin.slices import NodeSlices
from cluster.deviceplugin.slots import offer_slots
from cluster.deviceplugin.starts import ContainerStarts
from hami_hub.slicepage import read_placement

from .plugin_parts import NODE, make_slices, node_cards, placed, pod
from .scripted_kubelet import ScriptedKubelet

RESOURCE = "nvidia.com/gpu"
ROUNDS = 1000
PATIENCE = 30.0


@dataclass
class Rig:
    """A plugin at a scripted kubelet; `pods` is what the API server has."""

    kubelet: ScriptedKubelet
    slices: NodeSlices
    offer: Offer
    pods: dict[tuple[str, str], Pod]
    watched: NodePods
    registration: Registration
    registry: CollectorRegistry
    api_away: bool = False

    def spec(self, slot: str) -> str:
        return (self.slices.folders.cdi / f"hami-slice-{slot}.json").read_text()

    def mounted_slice(self, cdi_name: str) -> str:
        """The slice directory that a container with this device gets; "" if the device brings none."""
        (device,) = json.loads(self.spec(cdi_name.partition("=")[2]))["devices"]
        mounts = device["containerEdits"].get("mounts", [])
        return next((each["hostPath"] for each in mounts if each["containerPath"] == "/run/hami/slice"), "")

    async def until(self, look: Callable[[], object], what: str) -> None:
        for _ in range(int(PATIENCE / 0.01)):
            if look():
                return
            await asyncio.sleep(0.01)
        pytest.fail(f"It never came to pass that {what}.")


@pytest.fixture
def folder() -> Iterator[Path]:
    """On tmpfs, and short: a socket's path has its limit."""
    with tempfile.TemporaryDirectory(prefix="hami-plugin-", dir="/dev/shm") as name:
        yield Path(name)


@pytest.fixture
async def rig(folder: Path) -> AsyncIterator[Rig]:
    kubelet = ScriptedKubelet(folder / "kubelet")
    await kubelet.start()
    slices, offer, pods, watched = make_slices(folder), Offer(), dict[tuple[str, str], Pod](), NodePods()
    asked = PodResources(folder / "kubelet/pod-resources/kubelet.sock", RESOURCE)
    registry = CollectorRegistry()
    outcomes = CountedOutcomes(registry)

    async def read_pod(namespace: str, name: str) -> Pod:
        await asyncio.sleep(random.random() * 0.002)
        if made.api_away:
            raise ApiUnreachable("The API server doesn't answer (Connection refused).")
        if (namespace, name) not in pods:
            raise Refused("no-pod", "gone", retry=True)
        return pods[namespace, name]

    starts = ContainerStarts(
        node=NODE,
        scheduler="hami-scheduler",
        kubelet=asked,
        read_pod=read_pod,
        pods=watched,
        cards=node_cards(),
        slices=slices,
    )
    registration = Registration(
        folder / "kubelet/device-plugins",
        RESOURCE,
        lambda lost: SliceService(offer, prepare=starts.prepare, outcomes=outcomes, lost=lost),
    )
    made = Rig(kubelet, slices, offer, pods, watched, registration, registry)
    running = asyncio.create_task(registration.run())
    offer.set(offer_slots(total=20, ill=0))
    await made.until(lambda: kubelet.devices.get(RESOURCE), "the slots are listed")
    yield made
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await asked.close()
    await kubelet.stop()


async def test_slots_are_listed_anonymously_and_their_containers_are_to_be_announced(rig: Rig) -> None:
    assert list(rig.kubelet.devices[RESOURCE]) == [f"slot-{number:04d}" for number in range(20)]
    assert rig.kubelet.options[RESOURCE].pre_start_required
    assert await rig.kubelet.admit(RESOURCE, ("default", "alice", "main")) == [
        f"hami.io/slice={slot}" for slot in rig.kubelet.held["default", "alice", "main"][1]
    ]
    assert not rig.slices.holds  # nothing is written before it is known whose they are


async def test_an_ill_cards_slots_are_told_at_once(rig: Rig) -> None:
    rig.offer.set(offer_slots(total=20, ill=10))
    await rig.until(
        lambda: list(rig.kubelet.devices[RESOURCE].values()).count("Unhealthy") == 10, "ten slots are unhealthy"
    )


async def test_a_container_is_given_the_slice_of_its_pod(rig: Rig) -> None:
    rig.pods["default", "alice"] = pod(slices={"main": placed("GPU-0", "GPU-1", vram=700)})
    container = ("default", "alice", "main")
    names = await rig.kubelet.admit(RESOURCE, container, 2)
    await rig.kubelet.start_container(container)
    assert [rig.mounted_slice(name) for name in names] == [str(rig.slices.folders.slices / "uid-alice_main"), ""]
    assert rig.registry.get_sample_value("hami_container_start_seconds_count") == 1


async def test_two_pods_that_start_at_once_are_never_mixed_up(rig: Rig) -> None:
    """A thousand times, with the same two names each time, as a hub starts the same people's servers again."""
    for number in range(ROUNDS):
        expected = {}
        for name, uuid in (("alice", "GPU-0"), ("bob", "GPU-1")):
            uid, vram = f"uid-{name}-{number}", random.randint(1, 15000)
            rig.pods["default", name] = pod(name, uid=uid, slices={"main": placed(uuid, vram=vram)})
            expected["default", name, "main"] = (f"{uid}_main", uuid, vram)
        given = await asyncio.gather(*(rig.kubelet.admit(RESOURCE, container) for container in expected))
        order = random.sample(list(expected), 2)
        await asyncio.gather(*(rig.kubelet.start_container(container) for container in order))
        for (cdi_name,), (key, uuid, vram) in zip(given, expected.values(), strict=True):
            mounted = Path(rig.mounted_slice(cdi_name))
            assert mounted.name == key
            (share,) = read_placement(mounted).shares
            assert (share.uuid, share.vram) == (uuid, vram)
        for container, (key, *_) in expected.items():
            rig.kubelet.end(container)
            if random.random() < 0.5:  # the others stay until they are tidied up
                rig.slices.remove(key)


async def test_many_that_start_at_once_share_their_questions(rig: Rig) -> None:
    containers = [("default", f"pod-{number}", "main") for number in range(20)]
    for namespace, name, container in containers:
        rig.pods[namespace, name] = pod(name, slices={container: placed("GPU-0", vram=10)})
        await rig.kubelet.admit(RESOURCE, (namespace, name, container))
    rig.kubelet.busy = 1  # the kubelet turns down who asks too often
    await asyncio.gather(*(rig.kubelet.start_container(container) for container in containers))
    assert len(rig.slices.owners()) == 20
    assert rig.kubelet.questions < 20


@pytest.mark.parametrize(
    ("found", "code", "words"),
    [
        (pod(), grpc.StatusCode.FAILED_PRECONDITION, "was not placed by hami-scheduler"),
        (pod(slices={"main": placed("GPU-0")}, placed_on="b"), grpc.StatusCode.FAILED_PRECONDITION, "is on node b"),
        (None, grpc.StatusCode.UNAVAILABLE, "gone"),
    ],
    ids=["not placed", "placed elsewhere", "gone"],
)
async def test_a_refused_container_says_why_and_nothing_is_written(
    rig: Rig, found: Pod | None, code: grpc.StatusCode, words: str
) -> None:
    if found is not None:
        rig.pods["default", "alice"] = found
    await rig.kubelet.admit(RESOURCE, ("default", "alice", "main"))
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await rig.kubelet.start_container(("default", "alice", "main"))
    assert refused.value.code() is code
    assert words in str(refused.value.details())
    assert not list(rig.slices.folders.cdi.iterdir())
    assert not list(rig.slices.folders.slices.iterdir())


async def test_a_pod_that_was_not_placed_takes_nobodys_slice(rig: Rig) -> None:
    """Both hold slots, both start at the same moment, one has no decision."""
    rig.pods["default", "alice"] = pod(slices={"main": placed("GPU-0", vram=123)})
    rig.pods["default", "thief"] = pod("thief")
    for name in ("alice", "thief"):
        await rig.kubelet.admit(RESOURCE, ("default", name, "main"))
    alice, thief = await asyncio.gather(
        *(rig.kubelet.start_container(("default", name, "main")) for name in ("alice", "thief")),
        return_exceptions=True,
    )
    assert alice is None
    assert isinstance(thief, grpc.aio.AioRpcError)
    (owner,) = rig.slices.owners()
    assert owner.pod == "alice"


async def test_slots_of_which_the_kubelet_names_no_container_are_refused(rig: Rig) -> None:
    """An init container's: the kubelet doesn't tell of those."""
    init = ("default", "alice", "init")
    await rig.kubelet.admit(RESOURCE, init)
    rig.kubelet.unnamed.add(init)
    with pytest.raises(grpc.aio.AioRpcError, match="names no container"):
        await rig.kubelet.start_container(init)


async def test_with_the_api_server_away_a_container_that_ran_here_starts_again_and_a_new_one_waits(rig: Rig) -> None:
    alice = ("default", "alice", "main")
    rig.pods["default", "alice"] = pod(slices={"main": placed("GPU-0", vram=55)})
    rig.watched.put(rig.pods["default", "alice"])
    await rig.kubelet.admit(RESOURCE, alice)
    await rig.kubelet.start_container(alice)
    rig.api_away = True
    await rig.kubelet.start_container(alice)
    rig.watched.put(pod("bob", slices={"main": placed("GPU-1")}))
    await rig.kubelet.admit(RESOURCE, ("default", "bob", "main"))
    with pytest.raises(grpc.aio.AioRpcError, match="It is tried again") as refused:
        await rig.kubelet.start_container(("default", "bob", "main"))
    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_with_the_api_server_away_another_pod_of_the_same_name_does_not_get_the_old_ones_slice(rig: Rig) -> None:
    """The watch still shows the pod that was; the new one has other slots."""
    rig.pods["default", "alice"] = pod(slices={"main": placed("GPU-0", vram=55)})
    rig.watched.put(rig.pods["default", "alice"])
    alice = ("default", "alice", "main")
    await rig.kubelet.admit(RESOURCE, alice)
    await rig.kubelet.start_container(alice)
    before = rig.kubelet.held.pop(alice)
    rig.kubelet.held["default", "other", "main"] = before
    await rig.kubelet.admit(RESOURCE, alice)
    rig.api_away = True
    with pytest.raises(grpc.aio.AioRpcError, match="It is tried again"):
        await rig.kubelet.start_container(alice)


async def test_a_bug_is_told_without_its_insides(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.pods["default", "alice"] = pod(slices={"main": placed("GPU-0")})
    await rig.kubelet.admit(RESOURCE, ("default", "alice", "main"))
    monkeypatch.setattr(rig.slices, "prepare", lambda *_: 1 // 0)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await rig.kubelet.start_container(("default", "alice", "main"))
    assert refused.value.details() == "The slice could not be made. The plugin's log on this node says why."


async def test_a_folder_that_cannot_be_written_is_told(rig: Rig) -> None:
    rig.pods["default", "alice"] = pod(slices={"main": placed("GPU-0")})
    await rig.kubelet.admit(RESOURCE, ("default", "alice", "main"))
    cdi = rig.slices.folders.cdi
    cdi.rmdir()
    cdi.write_text("in the way")
    with pytest.raises(grpc.aio.AioRpcError, match="can't be written on node node-a") as refused:
        await rig.kubelet.start_container(("default", "alice", "main"))
    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_a_kubelet_that_was_restarted_is_met_again(rig: Rig) -> None:
    alice = ("default", "alice", "main")
    rig.pods["default", "alice"] = pod(slices={"main": placed("GPU-0")})
    await rig.kubelet.admit(RESOURCE, alice)
    for _ in range(3):
        before = rig.kubelet.registrations
        await rig.kubelet.stop()
        await rig.until(lambda: not rig.registration.registered, "the plugin noticed")
        await rig.kubelet.start()
        await rig.until(
            lambda before=before: rig.kubelet.registrations > before and rig.kubelet.devices.get(RESOURCE),
            "the plugin is registered again",
        )
        await rig.kubelet.start_container(alice)
    await rig.until(lambda: rig.registration.registered, "the plugin has heard that it is registered")


async def test_a_socket_that_was_removed_is_made_again(rig: Rig) -> None:
    before = rig.kubelet.registrations
    (socket,) = (path for path in rig.kubelet.sockets.iterdir() if path.name != "kubelet.sock")
    socket.unlink()
    await rig.until(lambda: rig.kubelet.registrations > before and socket.exists(), "the plugin is registered again")
