"""A pod's JSON as the ledger sees it: what it asks for, what it holds, and whether that counts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hami_hub.core.codec import decode_slices, encode_slices
from hami_hub.core.names import ResourceNames
from hami_hub.core.pods import PodRules, Standing, view_pod
from hami_hub.core.resources import RequestDefaults
from hami_hub.core.slices import CorePolicy, NodePolicy, Priority
from hami_hub.core.units import Mib

RULES = PodRules()
SLICE = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "4k", "nvidia.com/gpucores": "25"}
HELD = json.dumps(
    {
        "main": {
            "shares": [{"uuid": "GPU-0", "vram": 4000, "cores": 25, "exclusive": False, "whole": False}],
            "priority": 1,
            "policy": "default",
            "oomKiller": True,
        }
    }
)


def container(name: str = "main", limits: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"name": name, "resources": {"limits": dict(SLICE if limits is None else limits)}, **more}


def pod(
    *containers: dict[str, Any], node: str = "", phase: str = "Pending", init: Any = None, **more: Any
) -> dict[str, Any]:
    annotations = more.pop("annotations", {})
    return {
        "metadata": {
            "namespace": "ns", "name": "p", "uid": "u-1", "creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": annotations, **more.pop("metadata", {}),
        },
        "spec": {
            "containers": list(containers) or [container()],
            **({"nodeName": node} if node else {}),
            **({"initContainers": init} if init else {}),
            **more,
        },
        "status": {"phase": phase},
    }  # fmt: skip


def test_a_pod_that_waits() -> None:
    view = view_pod(pod(schedulerName="hami-scheduler", priority=7), RULES)
    assert view is not None
    (ask,) = view.asks
    assert (ask.container, ask.request.vram, ask.request.cores) == ("main", 4000, 25)
    assert (view.namespace, view.name, view.uid, view.priority) == ("ns", "p", "u-1", 7)
    assert (view.standing, view.scheduler, view.slots) == (Standing.WAITING, "hami-scheduler", 1)
    assert ask.request.oom_killer


@pytest.mark.parametrize(
    "of",
    [
        pod(container(limits={"cpu": "1", "memory": "1Gi"})),
        pod(container(limits={"nvidia.com/gpu": "0"})),
        {"metadata": None, "spec": None},
        {"spec": {"containers": [{"name": "x"}]}},
        {},
    ],
    ids=["others' resources", "no card", "nulls", "nothing said", "empty"],
)
def test_pods_that_are_not_ours(of: dict[str, Any]) -> None:
    assert view_pod(of, RULES) is None


def test_containers_and_sidecars_ask_each_for_itself() -> None:
    sidecar = container("proxy", {"nvidia.com/gpumem": "1k"}, restartPolicy="Always")
    view = view_pod(pod(container(), container("plain", {}), init=[sidecar]), RULES)
    assert view is not None
    assert [(ask.container, ask.request.vram) for ask in view.asks] == [("proxy", 1000), ("main", 4000)]
    assert view.containers == ("proxy", "main", "plain")


def test_annotations_and_variables_shape_the_request() -> None:
    of = pod(
        container(env=[{"name": "GPU_CORE_UTILIZATION_POLICY", "value": "default"},
                       {"name": "GPU_CORE_UTILIZATION_POLICY", "value": "force"},
                       {"name": "ACTIVE_OOM_KILLER", "value": "false"}, {"name": "OTHER", "valueFrom": {}}]),
        annotations={"hami.io/node-scheduler-policy": "spread", "nvidia.com/use-gputype": "A100"},
    )  # fmt: skip
    view = view_pod(of, RULES)
    assert view is not None
    request = view.asks[0].request
    assert (request.policy, request.oom_killer, request.wishes.models) == (CorePolicy.FORCE, False, ("A100",))
    assert view.node_policy is NodePolicy.SPREAD


def test_renamed_resources_and_defaults() -> None:
    rules = PodRules(names=ResourceNames(count="example.com/gpu"), defaults=RequestDefaults(memory=Mib(2000)))
    view = view_pod(pod(container(limits={"example.com/gpu": "2"})), rules)
    assert view is not None
    assert (view.asks[0].request.cards, view.asks[0].request.vram, view.slots) == (2, 2000, 2)


def test_a_pod_with_its_slice() -> None:
    annotations = {"hami.io/slices": HELD, "hami.io/vgpu-node": "n", "hami.io/vgpu-time": "1700000000"}
    view = view_pod(pod(node="n", phase="Running", annotations=annotations), RULES)
    assert view is not None
    assert view.standing is Standing.HOLDING
    assert view.slices == decode_slices(HELD, "n")
    assert (view.placed_at, view.slots) == (1_700_000_000, 1)


@pytest.mark.parametrize(
    "annotations",
    [
        pytest.param({}, id="no annotation"),
        pytest.param({"hami.io/slices": HELD}, id="for no node"),
        pytest.param({"hami.io/slices": HELD, "hami.io/vgpu-node": "other"}, id="for another node"),
        pytest.param({"hami.io/slices": "{", "hami.io/vgpu-node": "n"}, id="unreadable"),
        pytest.param({"hami.io/slices": HELD.replace("main", "x"), "hami.io/vgpu-node": "n"}, id="of another pod"),
        pytest.param({"hami.io/slices": "{}", "hami.io/vgpu-node": "n"}, id="of no container"),
        pytest.param({"hami.io/vgpu-devices-allocated": "rubbish"}, id="rubbish in HAMi's"),
        pytest.param({"hami.io/vgpu-devices-allocated": ";;GPU-0,NVIDIA,1,0:;"}, id="more containers than there are"),
    ],
)
def test_a_pod_on_a_node_without_a_valid_slice_is_foreign(annotations: dict[str, str]) -> None:
    view = view_pod(pod(container(limits={"nvidia.com/gpu": "3"}), node="n", annotations=annotations), RULES)
    assert view is not None
    assert (view.standing, view.slices, view.slots) == (Standing.FOREIGN, {}, 3)


def test_a_pod_that_hami_placed_counts_too() -> None:
    annotations = {"hami.io/vgpu-node": "n", "hami.io/vgpu-devices-allocated": ";GPU-0,NVIDIA,3000,30:;;"}
    of = pod(container(limits={**SLICE, "nvidia.com/priority": "0"}), node="n", annotations=annotations,
             init=[container("setup", {})])  # fmt: skip
    view = view_pod(of, RULES)
    assert view is not None
    held = view.slices["main"]
    assert (held.node, held.priority, held.shares[0].uuid, held.shares[0].vram) == ("n", Priority.HIGH, "GPU-0", 3000)
    assert view.standing is Standing.HOLDING


@pytest.mark.parametrize(("phase", "standing"), [("Succeeded", Standing.FINISHED), ("Failed", Standing.FINISHED),
                                                 ("Unknown", Standing.HOLDING)])  # fmt: skip
def test_a_pod_holds_until_it_has_ended(phase: str, standing: Standing) -> None:
    annotations = {"hami.io/slices": HELD, "hami.io/vgpu-node": "n"}
    view = view_pod(pod(node="n", phase=phase, annotations=annotations), RULES)
    assert view is not None
    assert view.standing is standing


def test_a_terminating_pod_counts_until_it_is_gone() -> None:
    annotations = {"hami.io/slices": HELD, "hami.io/vgpu-node": "n"}
    of = pod(node="n", annotations=annotations, metadata={"deletionTimestamp": "2026-01-01T00:00:09Z"})
    view = view_pod(of, RULES)
    assert view is not None
    assert (view.terminating, view.standing) == (True, Standing.HOLDING)


@pytest.mark.parametrize(
    ("of", "words"),
    [
        (pod(container(limits={"nvidia.com/gpu": "1", "nvidia.com/gpumem": "4Gi"})), "gpumem is 4294967296 MiB"),
        (pod(init=[container("setup")]), "init container setup asks for a slice"),
        (pod(container(env=[{"name": "ACTIVE_OOM_KILLER", "value": "maybe"}])), "Write true or false"),
    ],
)
def test_what_can_not_be_granted_is_said(of: dict[str, Any], words: str) -> None:
    view = view_pod(of, RULES)
    assert view is not None
    assert words in view.problem
    assert view.asks == ()


def test_slots_and_cpu_are_counted_as_kubernetes_does() -> None:
    def asks(count: int, cpu: str, name: str = "c", **more: Any) -> dict[str, Any]:
        resources = {"limits": {"nvidia.com/gpu": str(count)}, "requests": {"cpu": cpu}}
        return {"name": name, "resources": resources, **more}

    of = pod(asks(1, "500m"), asks(2, "1", "d"), node="n",
             init=[asks(1, "0.25", "side", restartPolicy="Always"), asks(6, "4", "setup")])  # fmt: skip
    view = view_pod(of, RULES)
    assert view is not None
    assert (view.slots, view.cpu) == (7, 4250)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@st.composite
def damaged(draw: st.DrawFn) -> Any:
    """A pod with something in it replaced by something else."""
    annotations = {"hami.io/slices": HELD, "hami.io/vgpu-node": "n", "hami.io/vgpu-devices-allocated": "a,b,1,1:;"}
    of = pod(container(env=[{"name": "ACTIVE_OOM_KILLER", "value": "true"}], securityContext={"capabilities": {}},
                       volumeMounts=[{"mountPath": "/x"}]), node="n", init=[container("setup")],
             annotations=annotations)  # fmt: skip
    at: Any = of
    while True:
        key = draw(st.sampled_from(sorted(at) if isinstance(at, dict) else list(range(len(at)))))
        if isinstance(at[key], (dict, list)) and at[key] and draw(st.booleans()):
            at = at[key]
            continue
        at[key] = draw(json_values)
        return of


@settings(max_examples=300)
@given(damaged())
def test_nothing_that_may_come_makes_it_fail(of: Any) -> None:
    view = view_pod(of, RULES)
    if view is not None:
        assert view.standing in Standing
        assert decode_slices(encode_slices(view.slices), view.node) == view.slices
