"""From a choice to a pod that asks for it, and what the person is told until its server answers."""

from __future__ import annotations

import asyncio
import html
import inspect
import json
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("kubespawner", reason="jupyterhub-kubespawner is not installed")

from fake_cluster import FakeCluster, limits_of, running, unschedulable, waiting
from jupyterhub import orm
from kube_start import Start, as_shown, counts, listening
from kubernetes_asyncio.client import V1Container, V1SecurityContext
from kubespawner import KubeSpawner

from hami_hub.core.profiles import ChoiceError
from hami_hub.spawner import GpuSlicesMixin, GpuSpawnError
from hami_hub.spawner.errors import Reason
from hami_hub.spawner.kube import GpuKubeSpawner
from hami_hub.spawner.kube.profile_list import StrictProfileList

PROFILES = [
    {"name": "cpu", "title": "CPU only", "gpu": False},
    {"name": "small", "title": "4 GiB · 25 %", "vram": "4 GiB", "cores": 25},
    {"name": "big", "title": "Big", "vram": "20 GiB"},
    {"name": "whole", "title": "Whole card"},
    {"name": "half", "title": "Half", "vram": "50 %"},
    {"name": "t4", "title": "A T4", "vram": "1 GiB", "models": ["T4"], "policy": "force", "priority": 0},
    {"name": "spread", "title": "Spread", "vram": "1 GiB", "card_policy": "spread"},
    {"name": "other", "title": "Another amount", "vram": "2 GiB", "min_vram": "256 MiB", "max_cores": 80},
    {"name": "research", "title": "Research", "vram": "1 GiB", "groups": ["research"]},
]
SLICES = {"GpuSlices": {"profiles": PROFILES}}
ASKED = {
    "cpu": {},
    "small": {
        "nvidia.com/gpu": "1",
        "nvidia.com/gpumem": "4096",
        "nvidia.com/gpucores": "25",
        "nvidia.com/priority": "1",
    },
    "whole": {
        "nvidia.com/gpu": "1",
        "nvidia.com/gpumem-percentage": "100",
        "nvidia.com/gpucores": "0",
        "nvidia.com/priority": "1",
    },
    "half": {
        "nvidia.com/gpu": "1",
        "nvidia.com/gpumem-percentage": "50",
        "nvidia.com/gpucores": "0",
        "nvidia.com/priority": "1",
    },
    "t4": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "1024", "nvidia.com/gpucores": "0", "nvidia.com/priority": "0"},
}


@pytest.fixture
async def alice(start: Any) -> Start:
    made: Start = start(**SLICES)
    return made


@pytest.fixture
def port() -> Iterator[int]:
    with listening() as found:
        yield found


def serves(cluster: FakeCluster, port: int) -> Any:
    """The life of a pod that gets its slice and runs."""

    def life(name: str) -> None:
        cluster.place(name)
        cluster.status(name, running(port))

    return life


def environment(pod: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each.get("value", "") for each in pod["spec"]["containers"][0]["env"]}


# --- what a pod asks for --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", ASKED)
async def test_a_pod_asks_for_what_was_chosen_and_no_more(alice: Start, profile: str) -> None:
    await alice.begin({"profile": profile})
    pod = await alice.pod()
    assert limits_of(pod) == ASKED[profile]
    requests = pod["spec"]["containers"][0]["resources"].get("requests") or {}
    assert {key: value for key, value in requests.items() if key.startswith("nvidia")} == ASKED[profile]
    assert pod["metadata"]["labels"]["hami.io/profile"] == profile
    assert pod["spec"].get("schedulerName") == (None if profile == "cpu" else "hami-scheduler")


async def test_wishes_and_policies_go_along(alice: Start) -> None:
    await alice.begin({"profile": "t4"})
    pod = await alice.pod()
    assert pod["metadata"]["annotations"]["nvidia.com/use-gputype"] == "T4"
    assert pod["metadata"]["annotations"]["hami.io/asks"] == "1 GiB"
    assert environment(pod)["GPU_CORE_UTILIZATION_POLICY"] == "force"


async def test_a_card_policy_goes_along_where_a_profile_names_one(alice: Start) -> None:
    await alice.begin({"profile": "spread"})
    assert (await alice.pod())["metadata"]["annotations"]["hami.io/gpu-scheduler-policy"] == "spread"


async def test_what_a_profile_does_not_say_is_the_clusters_to_say(alice: Start) -> None:
    await alice.begin({"profile": "small"})
    pod = await alice.pod()
    assert not {"GPU_CORE_UTILIZATION_POLICY", "ACTIVE_OOM_KILLER"} & set(environment(pod))
    assert "hami.io/gpu-scheduler-policy" not in pod["metadata"]["annotations"]


async def test_a_server_without_a_gpu_sees_none_on_nodes_where_images_may_ask(alice: Start) -> None:
    await alice.begin({"profile": "cpu"})
    assert environment(await alice.pod())["NVIDIA_VISIBLE_DEVICES"] == "void"


async def test_a_gpu_pod_may_go_to_nodes_that_are_kept_for_gpus(start: Any) -> None:
    mine = {"key": "hub", "operator": "Exists"}
    made = start(**SLICES, KubeSpawner={"tolerations": [mine]})
    await made.begin({"profile": "small"})
    first, second = (await made.pod())["spec"]["tolerations"]
    assert (first["key"], second) == ("hub", {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"})


async def test_an_amount_of_ones_own_is_asked_for(alice: Start) -> None:
    await alice.begin({"profile": "other", "vram": "3.5 GiB", "cores": "10"})
    limits = limits_of(await alice.pod())
    assert (limits["nvidia.com/gpumem"], limits["nvidia.com/gpucores"]) == ("3584", "10")


async def test_renamed_resources_and_scheduler_come_from_the_cluster(alice: Start, fake_cluster: FakeCluster) -> None:
    names = {"count": "example.com/vgpu", "memory": "example.com/vmem", "cores": "example.com/vcores"}
    fake_cluster.set_scheduler(schedulerName="gpus", resources=json.dumps(names))
    await alice.begin({"profile": "small"})
    pod = await alice.pod()
    assert limits_of(pod) == {
        "example.com/vgpu": "1",
        "example.com/vmem": "4096",
        "example.com/vcores": "25",
        "nvidia.com/priority": "1",
    }
    assert pod["spec"]["schedulerName"] == "gpus"
    assert pod["spec"]["tolerations"][0]["key"] == "example.com/vgpu"


async def test_as_zero_to_jupyterhub_sets_it_up(start: Any, port: int, fake_cluster: FakeCluster) -> None:
    block = V1Container(
        name="block-cloud-metadata",
        image="net:1",
        security_context=V1SecurityContext(privileged=True),
        resources={"limits": {"cpu": "1"}},
    )
    made = start(
        **SLICES,
        KubeSpawner={
            "scheduler_name": "jhub-user-scheduler",
            "init_containers": [block],
            "extra_resource_limits": {"nvidia.com/gpu": "4"},
            "extra_labels": {"hub.jupyter.org/network-access-hub": "true"},
            "port": port,
        },
    )
    fake_cluster.life = serves(fake_cluster, port)
    assert await made.run({"profile": "small"}) == f"http://127.0.0.1:{port}"
    await made.spawner.stop(now=True)
    await made.run({"profile": "cpu"})
    gpu, cpu = fake_cluster.made
    assert gpu["spec"]["schedulerName"] == "hami-scheduler"
    assert cpu["spec"]["schedulerName"] == "jhub-user-scheduler"
    assert limits_of(gpu) == ASKED["small"]
    assert limits_of(cpu) == {}
    for pod in (gpu, cpu):
        [init] = pod["spec"]["initContainers"]
        assert init["resources"] == {"limits": {"cpu": "1"}}
        assert init["securityContext"]["privileged"]
        assert pod["metadata"]["labels"]["hub.jupyter.org/network-access-hub"] == "true"


async def test_what_else_a_profile_changes_holds_for_its_start_only(
    start: Any, port: int, fake_cluster: FakeCluster
) -> None:
    overrides = {"small": {"image": "torch:1", "node_selector": {"zone": "a"}, "environment": {"X": "1"}}}
    made = start(**SLICES, GpuKubeSpawner={"profile_overrides": overrides, "port": port})
    fake_cluster.life = serves(fake_cluster, port)
    await made.run({"profile": "small"})
    await made.spawner.stop(now=True)
    await made.run({"profile": "cpu"})
    first, second = fake_cluster.made
    assert (first["spec"]["containers"][0]["image"], first["spec"]["nodeSelector"]) == ("torch:1", {"zone": "a"})
    assert environment(first)["X"] == "1"
    assert second["spec"]["containers"][0]["image"] == "img:1"
    assert not second["spec"].get("nodeSelector")
    assert "X" not in environment(second)


async def test_the_admins_hook_has_the_last_word(start: Any) -> None:
    def hook(spawner: Any, pod: Any) -> Any:
        assert pod.spec.containers[0].resources.limits["nvidia.com/gpumem"] == "4096"
        pod.spec.priority_class_name = "vip"
        return pod

    made = start(**SLICES, KubeSpawner={"modify_pod_hook": hook})
    await made.begin({"profile": "small"})
    assert (await made.pod())["spec"]["priorityClassName"] == "vip"


async def test_a_profile_lists_gpu_pods_go_to_the_gpu_scheduler(
    start: Any, port: int, fake_cluster: FakeCluster
) -> None:
    gpu = {"extra_resource_limits": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "2000"}}
    profiles = [{"display_name": "CPU"}, {"display_name": "GPU", "kubespawner_override": gpu}]
    made = start(KubeSpawner={"profile_list": profiles, "scheduler_name": "user-scheduler", "port": port})
    fake_cluster.life = serves(fake_cluster, port)
    await made.run({"profile": "gpu"})
    assert "You have 4 GiB · 25 % of a Tesla T4. Your server is starting." in made.told()
    await made.spawner.stop(now=True)
    await made.run({"profile": "cpu"})
    first, second = fake_cluster.made
    assert (limits_of(first), first["spec"]["schedulerName"]) == (gpu["extra_resource_limits"], "hami-scheduler")
    assert (limits_of(second), second["spec"]["schedulerName"]) == ({}, "user-scheduler")


# --- what is refused before there is a pod --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "reason", "words"),
    [
        ({"profile": "nope"}, Reason.UNKNOWN_PROFILE, 'There is no profile "nope".'),
        ({"profile": "research"}, Reason.NOT_ALLOWED, 'The profile "research" is not open to you.'),
        ({"profile": "other", "vram": "lots"}, Reason.BAD_AMOUNT, '"lots" is not an amount of VRAM.'),
        ({"profile": "other", "vram": "4096; rm -rf"}, Reason.BAD_AMOUNT, "is not an amount of VRAM."),
        ({"profile": "small", "image": "x"}, Reason.BAD_OPTION, '"image" is not an option of a server.'),
        ({"profile": "big"}, Reason.NEVER_FITS, "20 GiB can never fit"),
        ({"profile": "other", "vram": "16 GiB"}, Reason.NEVER_FITS, "16 GiB can never fit"),
    ],
)
async def test_what_can_not_be_had_is_refused_before_there_is_a_pod(
    alice: Start, fake_cluster: FakeCluster, options: dict[str, str], reason: Reason, words: str
) -> None:
    error = await alice.refused(options)
    assert isinstance(error, GpuSpawnError)
    assert error.reason == reason.value
    assert words in error.jupyterhub_message
    assert fake_cluster.made == []


async def test_wrong_profiles_are_an_admins_business(start: Any) -> None:
    error = await start(GpuSlices={"profiles": [{"name": "x", "vram": "lots"}]}).refused({})
    assert error.reason == Reason.SETUP.value


# --- what is told while a pod waits ---------------------------------------------------------------------------------


async def test_the_place_in_the_queue_and_why(alice: Start, fake_cluster: FakeCluster, port: int) -> None:
    alice.spawner.port = port
    why = "4 GiB · 25 % is not free now: the Tesla T4 has 2 GiB free, 4 GiB are asked for."
    outcome = await alice.begin({"profile": "small"})
    await alice.until_told("The cluster looks for a place for your server.")
    fake_cluster.queue[alice.name] = {"state": "waiting", "place": 2, "of": 2, "reason": why, "never": False}
    assert await alice.until_told("in line") == f"You are 2nd in line. {why}"
    fake_cluster.queue[alice.name] |= {"place": 1, "of": 1}
    assert await alice.until_told("1st in line") == f"You are 1st in line. {why}"
    fake_cluster.place(alice.name)
    await alice.until_told("You have 4 GiB · 25 % of a Tesla T4. Your server is being prepared.")
    fake_cluster.event(alice.name, "Pulling", 'Pulling image "img:1"')
    await alice.until_told("The image img:1 is being fetched.")
    fake_cluster.status(alice.name, running(port))
    assert await outcome == f"http://127.0.0.1:{port}"
    assert alice.spawner.get_state()["hami"]["placement"]["shares"][0]["vram_mib"] == 4096
    assert alice.spawner.get_state()["hami"]["profile"] == "small"


async def test_without_the_scheduler_the_pod_itself_says_why(alice: Start, fake_cluster: FakeCluster) -> None:
    fake_cluster.inventory = None
    await alice.begin({"profile": "small"})
    await alice.pod()
    fake_cluster.status(alice.name, unschedulable("0/2 nodes are available: 2 Insufficient memory. preemption: none."))
    said = await alice.until_told("memory")
    assert said.startswith("No machine of the cluster has enough free memory for your server.")


async def test_a_wait_has_an_end_with_the_reason(start: Any, fake_cluster: FakeCluster) -> None:
    made = start(GpuSlices={"profiles": PROFILES, "wait_timeout": 1})
    fake_cluster.queue[made.name] = {
        "state": "waiting",
        "place": 1,
        "of": 1,
        "reason": "The Tesla T4 is taken.",
        "never": False,
    }
    error = await made.refused({"profile": "small"})
    assert (
        error.jupyterhub_message == "Your server found no place in the cluster within 1 seconds. The Tesla T4 is taken."
    )
    assert error.reason == Reason.NO_ROOM.value
    assert fake_cluster.pod(made.name) is None


async def test_who_may_not_wait_is_refused_as_soon_as_the_scheduler_has_answered(
    start: Any, fake_cluster: FakeCluster
) -> None:
    made = start(GpuSlices={"profiles": PROFILES, "wait_timeout": 0})
    fake_cluster.life = lambda name: fake_cluster.status(
        name, unschedulable("0/1 nodes are available: 1 Too many pods.")
    )
    error = await made.refused({"profile": "small"})
    assert "as many servers as it may have" in error.jupyterhub_message


async def test_what_turns_out_never_to_fit_is_told_at_once(alice: Start, fake_cluster: FakeCluster) -> None:
    fake_cluster.queue[alice.name] = {
        "state": "waiting",
        "place": 1,
        "of": 1,
        "reason": "4 GiB can never fit here.",
        "never": True,
    }
    error = await alice.refused({"profile": "small"})
    assert (error.jupyterhub_message, error.reason) == ("4 GiB can never fit here.", Reason.NEVER_FITS.value)
    assert fake_cluster.pod(alice.name) is None


# --- what becomes of a pod ------------------------------------------------------------------------------------------


FAILURES: dict[str, tuple[dict[str, Any], Reason, str]] = {
    "refused by the kubelet": (
        {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "no slot"},
        Reason.POD_FAILED,
        "node-a could not take your server",
    ),
    "no such image": (waiting("ErrImagePull", "manifest unknown: not found"), Reason.IMAGE, "can't be fetched"),
    "our device plugin": (
        waiting(
            "CreateContainerConfigError",
            "device plugin PreStartContainer rpc failed with err: rpc error: code = FailedPrecondition desc = "
            "This pod was not placed by hami-scheduler.",
        ),
        Reason.POD_FAILED,
        "Your server did not get its slice: This pod was not placed by hami-scheduler.",
    ),
    "out of memory": (
        {
            "phase": "Failed",
            "containerStatuses": [
                {"name": "notebook", "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}
            ],
        },
        Reason.POD_FAILED,
        "out of main memory",
    ),
}


@pytest.mark.parametrize(("status", "reason", "words"), FAILURES.values(), ids=FAILURES)
async def test_a_pod_that_fails_is_explained_and_removed(
    alice: Start, fake_cluster: FakeCluster, status: dict[str, Any], reason: Reason, words: str
) -> None:
    fake_cluster.life = lambda name: fake_cluster.status(name, status, node="node-a")
    error = await alice.refused({"profile": "small"})
    assert words in html.unescape(as_shown(error))
    assert error.reason == reason.value
    assert not counts(error)
    assert fake_cluster.pod(alice.name) is None
    assert await alice.spawner.poll() == 1


async def test_a_pod_that_clings_to_its_node_holds_no_explanation_back(
    alice: Start, fake_cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hami_hub.spawner.kube.spawner._REMOVE_SECONDS", 0.1)
    fake_cluster.clings = True
    fake_cluster.life = lambda name: fake_cluster.status(name, FAILURES["no such image"][0], node="node-a")
    error = await alice.refused({"profile": "small"})
    assert error.reason == Reason.IMAGE.value
    await alice.seen(lambda: fake_cluster.deleted)
    assert fake_cluster.deleted == [alice.name]
    fake_cluster.remove(alice.name)


async def test_a_pod_that_somebody_removes_is_explained(alice: Start, fake_cluster: FakeCluster) -> None:
    outcome = await alice.begin({"profile": "small"})
    await alice.until_told("looks for a place")
    fake_cluster.remove(alice.name)
    with pytest.raises(GpuSpawnError, match="was removed from the cluster while it started"):
        await outcome


async def test_a_server_that_ends_before_it_answers_is_explained(alice: Start, fake_cluster: FakeCluster) -> None:
    with listening() as nobody:
        pass
    alice.spawner.port = nobody
    fake_cluster.life = serves(fake_cluster, nobody)
    outcome = await alice.begin({"profile": "small"})
    await alice.until_told("Your server is starting.")
    ended = {"name": "notebook", "state": {"terminated": {"exitCode": 3, "reason": "Error"}}}
    fake_cluster.status(alice.name, {"phase": "Failed", "containerStatuses": [ended]})
    with pytest.raises(GpuSpawnError, match=r"ended while it was starting \(exit status 3\)"):
        await outcome
    assert fake_cluster.pod(alice.name) is None


async def test_a_server_that_never_answers_is_explained(start: Any, fake_cluster: FakeCluster) -> None:
    with listening() as nobody:
        pass
    made = start(**SLICES, Spawner={"http_timeout": 1}, KubeSpawner={"port": nobody})
    fake_cluster.life = serves(fake_cluster, nobody)
    error = await made.refused({"profile": "small"})
    assert error.reason == Reason.SERVER_SILENT.value
    assert fake_cluster.pod(made.name) is None


async def test_the_dead_pod_of_an_earlier_start_says_nothing_of_this_one(
    alice: Start, fake_cluster: FakeCluster, port: int
) -> None:
    alice.spawner.port = port
    dead = {"metadata": {"name": alice.name, "labels": {"component": "singleuser-server"}}, "spec": {"containers": []}}
    fake_cluster.put("pods", alice.name, {**dead, "status": {"phase": "Failed", "reason": "Evicted", "message": "old"}})
    fake_cluster.event(alice.name, "FailedMount", "old trouble")
    fake_cluster.life = serves(fake_cluster, port)
    await alice.run({"profile": "small"})
    assert not [said for said in alice.told() if "old" in said]
    assert fake_cluster.deleted == [alice.name]


async def test_a_cancelled_start_leaves_no_pod(alice: Start, fake_cluster: FakeCluster) -> None:
    outcome = await alice.begin({"profile": "small"})
    await alice.until_told("looks for a place")
    outcome.cancel()
    await alice.seen(lambda: fake_cluster.pod(alice.name) is None)
    assert alice.spawner._news._over


async def test_an_api_server_that_goes_away_is_explained(alice: Start, fake_cluster: FakeCluster) -> None:
    await alice.spawner._start_watching_pods()
    await alice.spawner._start_watching_events()
    fake_cluster.away = True
    error = await alice.refused({"profile": "small"})
    assert (error.reason, counts(error)) == (Reason.CLUSTER.value, False)


async def test_progress_is_for_however_many_pages(alice: Start, fake_cluster: FakeCluster, port: int) -> None:
    alice.spawner.port = port

    async def follow() -> list[str]:
        return [message["message"] async for message in alice.spawner.progress()]

    # What comes before a spawner's start may take a while: the first page is there by then.
    early = asyncio.ensure_future(follow())
    await asyncio.sleep(0)
    outcome = await alice.begin({"profile": "small"})
    pages = [early, *(asyncio.ensure_future(follow()) for _ in range(3))]
    await alice.until_told("looks for a place")
    fake_cluster.place(alice.name)
    fake_cluster.status(alice.name, running(port))
    await outcome
    first, *others = [await page for page in pages]
    assert len(first) >= 2
    assert others == [first] * 3


# --- what is kept over a restart of the hub -------------------------------------------------------------------------


class Orm:
    """As much of orm.Spawner as a spawner looks at."""

    name, server_id, user_options = "", 1, None

    def __init__(self, port: int) -> None:
        self.server = orm.Server(proto="http", ip="127.0.0.1", port=port, base_url="/user/alice/", cookie_name="")


def after_restart(start: Any, saved: dict[str, Any], port: int = 9) -> Start:
    made: Start = start(**SLICES, KubeSpawner={"port": port})
    made.spawner.orm_spawner = Orm(port)
    made.spawner.load_state(json.loads(json.dumps(saved)))
    return made


async def test_a_running_server_is_taken_up_with_its_slice(start: Any, fake_cluster: FakeCluster, port: int) -> None:
    before = start(**SLICES, KubeSpawner={"port": port})
    fake_cluster.life = serves(fake_cluster, port)
    await before.run({"profile": "small"})
    saved = before.spawner.get_state()
    after = after_restart(start, saved, port)
    assert after.spawner.get_state() == saved
    assert await after.spawner.poll() is None
    await after.spawner.stop(now=True)
    assert fake_cluster.pod(after.name) is None
    assert await after.spawner.poll() == 1


@pytest.mark.parametrize("keep", [True, False], ids=["a stopped one before", "the first"])
async def test_a_start_that_the_hub_did_not_live_to_see_the_end_of_is_removed(
    start: Any, fake_cluster: FakeCluster, keep: bool
) -> None:
    before = start(**SLICES)
    await before.begin({"profile": "small"})
    await before.pod()
    after = after_restart(start, before.spawner.get_state() if keep else {})
    assert await after.spawner.poll() == 1
    assert fake_cluster.pod(after.name) is None


async def test_a_server_of_plain_kubespawner_is_left_alone(start: Any, fake_cluster: FakeCluster) -> None:
    before = start(**SLICES)
    await before.begin({"profile": "small"})
    await before.pod()
    saved = before.spawner.get_state()
    del saved["hami"]
    after = after_restart(start, saved)
    assert await after.spawner.poll() is None
    assert fake_cluster.pod(after.name) is not None


@pytest.mark.parametrize("saved", [7, [], {"placement": 7}], ids=str)
async def test_state_that_can_not_be_understood_hurts_nobody(start: Any, fake_cluster: FakeCluster, saved: Any) -> None:
    after = after_restart(start, {"pod_name": "jupyter-alice", "hami": saved})
    assert await after.spawner.poll() == 1


async def test_choices_are_judged_as_on_one_machine(alice: Start) -> None:
    alice.spawner.user_options = {"profile": "other", "cores": "81"}
    with pytest.raises(ChoiceError, match="81 % is more than this profile allows"):
        alice.spawner.chosen()


# --- what is KubeSpawner's ------------------------------------------------------------------------------------------

MEANT = {
    *("start", "stop", "poll", "progress", "get_state", "load_state", "clear_state", "options_from_query"),
    *("get_pod_manifest", "is_pod_running", "load_user_options", "user_options", "start_timeout"),
    *("_make_create_pod_request", "_apply_overrides", "_get_initialized_profile_list", "_render_options_form"),
    *("_validate_user_options", "add_poll_callback", "__doc__", "__module__", "__annotations__"),
}


@pytest.mark.parametrize("ours", [GpuSlicesMixin, StrictProfileList, GpuKubeSpawner])
def test_nothing_of_kubespawners_is_hidden_but_what_is_meant_to_be(ours: type) -> None:
    names = {name for name in vars(ours) if not name.startswith(("_trait", "_all_trait", "_static"))}
    theirs = {name for name in dir(KubeSpawner) if name not in ("_descriptors", "_instance_inits")}
    assert names & theirs <= MEANT


# What is overridden or called although KubeSpawner doesn't promise it, and with which parameters.
PRIVATE = {
    "_apply_overrides": ["self", "spawner_override"],
    "_get_initialized_profile_list": ["self", "profile_list"],
    "_get_pod_url": ["self", "pod"],
    "_get_profile": ["self", "slug", "profile_list"],
    "_make_create_pod_request": ["self", "pod", "request_timeout"],
    "_namespace_default": None,
    "_options_form_default": None,
    "_options_from_form": ["self", "formdata"],
    "_render_options_form": ["self", "profile_list"],
    "_start": ["self"],
    "_start_watching_events": ["self", "replace"],
    "_start_watching_pods": ["self", "replace"],
    "_validate_user_options": ["self", "profile_list"],
}


@pytest.mark.parametrize("name", PRIVATE)
def test_what_is_private_to_kubespawner_is_where_it_was(name: str) -> None:
    found = vars(KubeSpawner)[name]
    if PRIVATE[name] is not None:
        assert list(inspect.signature(found).parameters) == PRIVATE[name]
