"""What goes wrong with KubeSpawner as it is, and not with ours: each check is made of both.

KubeSpawner's own fails every one of them, or the trap is gone and the check with it.
"""

from __future__ import annotations

import asyncio
import html
import logging
from typing import Any

import pytest

pytest.importorskip("kubespawner", reason="jupyterhub-kubespawner is not installed")

from fake_cluster import FakeCluster, limits_of, running, waiting
from jupyterhub.spawner import SpawnException
from kube_start import HUB_PATIENCE, TOKEN, Start, as_shown, counts, listening
from kubespawner import KubeSpawner

from hami_hub.spawner import GpuSpawnError, Reason
from hami_hub.spawner.kube import GpuKubeSpawner

STOCK = pytest.param(
    KubeSpawner, id="stock", marks=pytest.mark.xfail(strict=True, raises=AssertionError, reason="the trap")
)
BOTH = pytest.mark.parametrize("kind", [STOCK, pytest.param(GpuKubeSpawner, id="ours")])

GPU = {"nvidia.com/gpu": "1"}
PROFILE_LIST = [
    {
        "slug": "gpu",
        "display_name": "A GPU",
        "kubespawner_override": {"extra_resource_limits": GPU, "node_selector": {"gpu": "on"}},
        "profile_options": {
            "image": {
                "display_name": "Image",
                "choices": {"base": {"display_name": "Base", "kubespawner_override": {"image": "base:1"}}},
            },
            "vram": {
                "display_name": "VRAM",
                "choices": {
                    "4": {
                        "display_name": "4",
                        "kubespawner_override": {"extra_resource_limits": {"nvidia.com/gpumem": "4096"}},
                    }
                },
                "unlisted_choice": {
                    "enabled": True,
                    "display_name": "Other",
                    "validation_regex": r"^\d{3,5}",
                    "kubespawner_override": {"extra_resource_limits": {"nvidia.com/gpumem": "{value}"}},
                },
            },
        },
    },
    {"slug": "cpu", "display_name": "No GPU"},
]
LIST = {"KubeSpawner": {"profile_list": PROFILE_LIST}}


@pytest.fixture(autouse=True)
def _with_traps(start: Any) -> None:
    """Each test has a fake cluster, whether it names it or not."""


def plain(start: Any, kind: Any, **config: Any) -> Start:
    """A spawner whose `cpu` is a profile of no GPU, for either kind to start."""
    if kind is KubeSpawner:
        config.setdefault("KubeSpawner", {})["profile_list"] = [{"slug": "cpu", "display_name": "No GPU"}]
    made: Start = start(kind, **config)
    return made


async def _refused_in_words(start: Start, options: Any, *words: str) -> None:
    error = await start.refused(options)
    assert not counts(error), f"the hub counts {error!r}"
    for word in words:
        assert word in html.unescape(as_shown(error))
    assert start.cluster.pod(start.name) is None


# --- what is chosen -------------------------------------------------------------------------------------------------


@BOTH
async def test_an_unknown_choice_is_refused_in_words(start: Any, kind: Any) -> None:
    await _refused_in_words(start(kind, **LIST), {"profile": "gpu", "image": "nope"}, '"nope"', "Choices are: base")


@BOTH
async def test_an_unknown_choice_of_the_preset_profile_is_refused_in_words(start: Any, kind: Any) -> None:
    only = {"KubeSpawner": {"profile_list": PROFILE_LIST[:1]}}
    await _refused_in_words(start(kind, **only), {"image": "nope"}, '"nope"', "Choices are: base")


@BOTH
async def test_an_unknown_profile_is_refused_in_words(start: Any, kind: Any) -> None:
    await _refused_in_words(start(kind, **LIST), {"profile": "gone"}, 'There is no profile "gone"', "gpu, cpu")


@BOTH
async def test_what_is_typed_has_to_match_to_its_end(start: Any, kind: Any) -> None:
    made = start(kind, Spawner={"start_timeout": 2}, **LIST)
    options = {"profile": "gpu", "vram--unlisted-choice": "4096; rm -rf"}
    await _refused_in_words(made, options, '"4096; rm -rf" is no VRAM')


@BOTH
@pytest.mark.parametrize("options", [{}, {"profile": ""}], ids=["empty", "no name"])
async def test_who_names_no_profile_gets_no_gpu(start: Any, kind: Any, options: Any) -> None:
    made = start(kind, **LIST)
    await made.begin(options)
    assert limits_of(await made.pod()) == {}


@BOTH
async def test_a_profile_changes_nothing_for_the_next_start(start: Any, kind: Any, fake_cluster: FakeCluster) -> None:
    made = start(kind, **LIST)
    with listening() as port:
        made.spawner.port = port
        fake_cluster.life = lambda name: fake_cluster.status(name, running(port), node="node-a")
        await made.run({"profile": "gpu"})
        await made.spawner.stop(now=True)
        await made.run({"profile": "cpu"})
    first, second = fake_cluster.made
    assert limits_of(first) == {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "4096"}
    assert limits_of(second) == {}
    assert not second["spec"].get("nodeSelector")
    assert second["spec"]["containers"][0]["image"] == "img:1"


@BOTH
async def test_options_that_are_used_are_not_called_unhandled(start: Any, kind: Any, caplog: Any) -> None:
    made = start(kind, **LIST)
    await made.begin({"profile": "cpu"})
    await made.pod()
    assert "unhandled user_options" not in caplog.text


# --- the form -------------------------------------------------------------------------------------------------------


@BOTH
async def test_what_an_admin_or_a_user_writes_is_no_html(start: Any, kind: Any) -> None:
    evil = '<script>alert("x")</script>'
    config: dict[str, Any] = {
        "GpuSlices": {"profiles": [{"name": "x", "title": evil, "description": evil, "gpu": False}]}
    }
    if kind is KubeSpawner:
        config = {"KubeSpawner": {"profile_list": [{"display_name": evil, "description": evil}]}}
    form = await start(kind, **config).spawner.get_options_form()
    assert "alert" in form
    assert "<script>alert" not in form


@BOTH
async def test_saved_options_that_are_good_no_more_are_not_shown(start: Any, kind: Any) -> None:
    made = start(kind, **LIST)
    made.spawner.user_options = {"profile": "gpu", "vram--unlisted-choice": "none of it"}
    assert "none of it" not in await made.spawner.get_options_form()


# --- what becomes of a start ----------------------------------------------------------------------------------------


@BOTH
async def test_a_pod_that_the_kubelet_refuses_is_explained_at_once(
    start: Any, kind: Any, fake_cluster: FakeCluster
) -> None:
    made = plain(start, kind, Spawner={"start_timeout": 4})
    failed = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "Allocate failed: no slot"}
    fake_cluster.life = lambda name: fake_cluster.status(name, failed, node="node-a")
    await _refused_in_words(made, {"profile": "cpu"}, "node-a could not take your server", "Allocate failed: no slot")


@BOTH
async def test_a_start_that_takes_too_long_has_words(start: Any, kind: Any, fake_cluster: FakeCluster) -> None:
    made = plain(start, kind, Spawner={"start_timeout": 1})
    fake_cluster.life = lambda name: fake_cluster.status(name, waiting("ContainerCreating"), node="node-a")
    await _refused_in_words(made, {"profile": "cpu"}, "did not start within 1 seconds")


@BOTH
async def test_no_place_in_time_has_words(start: Any, kind: Any, fake_cluster: FakeCluster) -> None:
    made = plain(start, kind, Spawner={"start_timeout": 1}, GpuSlices={"wait_timeout": 1})
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    status = {
        "phase": "Pending",
        "conditions": [{**condition, "message": "0/1 nodes are available: 1 Insufficient cpu."}],
    }
    fake_cluster.life = lambda name: fake_cluster.status(name, status)
    await _refused_in_words(made, {"profile": "cpu"}, "found no place", "enough free CPU")


@BOTH
@pytest.mark.parametrize(
    ("status", "message", "words"),
    [
        pytest.param(
            403, "pods is forbidden: exceeded quota: gpus, used: 4", "quota for servers here is used up", id="quota"
        ),
        pytest.param(403, 'admission webhook "w" denied the request: Ask for less.', "Ask for less.", id="webhook"),
        pytest.param(422, 'Pod "x" is invalid: spec.y: wrong', "spec.y: wrong", id="invalid"),
        pytest.param(500, 'failed calling webhook "w": refused', "GPU scheduler doesn't answer", id="webhook away"),
    ],
)
async def test_a_pod_that_the_cluster_refuses_is_explained(
    start: Any, kind: Any, fake_cluster: FakeCluster, status: int, message: str, words: str
) -> None:
    fake_cluster.refuse = (status, message)
    await _refused_in_words(plain(start, kind), {"profile": "cpu"}, words)


@BOTH
async def test_a_cluster_that_does_not_answer_is_no_fault_of_the_hubs(
    start: Any, kind: Any, fake_cluster: FakeCluster
) -> None:
    fake_cluster.refuse = (503, "the server is currently unable to handle the request")
    await _refused_in_words(plain(start, kind), {"profile": "cpu"}, "The cluster doesn't answer")


@BOTH
async def test_a_refused_pods_token_stays_out_of_the_log(
    start: Any, kind: Any, fake_cluster: FakeCluster, caplog: Any
) -> None:
    fake_cluster.refuse = (403, "pods is forbidden: exceeded quota: x")
    made = plain(start, kind)
    with caplog.at_level(logging.DEBUG):
        await made.refused({"profile": "cpu"})
    assert TOKEN in str(fake_cluster.made[0])
    assert TOKEN not in caplog.text


@BOTH
async def test_a_dead_pod_is_removed_when_it_is_seen(start: Any, kind: Any, fake_cluster: FakeCluster) -> None:
    made = plain(start, kind)
    with listening() as port:
        made.spawner.port = port
        fake_cluster.life = lambda name: fake_cluster.status(name, running(port), node="node-a")
        await made.run({"profile": "cpu"})
    fake_cluster.status(made.name, {"phase": "Failed", "reason": "Evicted", "message": "low on memory"})
    await made.seen(lambda: made.spawner.pod_reflector.pods[f"default/{made.name}"]["status"]["phase"] == "Failed")
    assert await made.spawner.poll() == 1
    assert fake_cluster.pod(made.name) is None


@BOTH
async def test_an_event_without_a_time_does_not_end_the_progress(
    start: Any, kind: Any, fake_cluster: FakeCluster
) -> None:
    made = plain(start, kind)
    await made.begin({"profile": "cpu"})
    await made.pod()
    fake_cluster.status(made.name, {"phase": "Pending"}, node="node-a")
    fake_cluster.event(made.name, "Pulling", 'Pulling image "img:1"')
    fake_cluster.event(made.name, "Pulled", "Pulled it", lastTimestamp=None, eventTime=None)

    async def follow() -> bool:
        try:
            async for message in made.spawner.progress():
                if "image" in message["message"] and "there" in message["message"]:
                    return True
        except TypeError:
            return False
        return False

    assert await asyncio.wait_for(follow(), HUB_PATIENCE)


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(
            SpawnException("No <b>room</b>.", reason="x", message_html="No <b>room</b>."),
            id="stock",
            marks=pytest.mark.xfail(strict=True, raises=AssertionError, reason="the trap"),
        ),
        pytest.param(GpuSpawnError("No <b>room</b>.", reason=Reason.NO_ROOM), id="ours"),
    ],
)
def test_a_refusals_words_reach_the_progress_page(error: SpawnException) -> None:
    assert html.unescape(as_shown(error)) == "No <b>room</b>."
