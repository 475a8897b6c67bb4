"""The webhook's judgement: what is filled in, what is refused and in which words, and what is left alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings

from hami_hub.core.admission import Judgement, judge_pod
from hami_hub.core.names import SCHEDULER_ANNOTATIONS
from hami_hub.core.pods import PodRules, view_pod
from hami_hub.core.resources import RequestDefaults

from .test_pods import SLICE, container, damaged, pod

RULES = PodRules()


def apply(of: dict[str, Any], judgement: Judgement) -> dict[str, Any]:
    """The pod with the patch, as the API server applies it: an "add" needs its parent to be there."""
    for operation in judgement.patch:
        assert operation["op"] == "add"
        at: Any = of
        *way, last = operation["path"].removeprefix("/").split("/")
        for step in way:
            at = at[int(step)] if isinstance(at, list) else at[step]
        at[last] = operation["value"]
    return of


def judged(of: dict[str, Any], rules: PodRules = RULES) -> dict[str, Any]:
    """What becomes of a pod that is let in."""
    judgement = judge_pod(of, rules)
    assert judgement.ours
    assert not judgement.refusals, judgement.text
    return apply(of, judgement)


def test_a_pod_with_a_slice_gets_scheduler_and_profile() -> None:
    spec = judged(pod(schedulerName="default-scheduler"))["spec"]
    assert spec["schedulerName"] == "hami-scheduler"
    assert spec["containers"][0]["securityContext"] == {"seccompProfile": {"type": "RuntimeDefault"}}
    assert spec["containers"][0]["resources"] == {"limits": SLICE}


def test_it_says_nothing_of_pods_without_a_slice() -> None:
    privileged = {"securityContext": {"privileged": True}}
    assert judge_pod(pod(container(limits={"cpu": "1"}, **privileged)), RULES) == Judgement()
    assert judge_pod({}, RULES) == Judgement()


@pytest.mark.parametrize("amount", ["nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores"])
def test_an_amount_without_a_card_gets_the_default_number_of_cards(amount: str) -> None:
    of = pod(container(limits={amount: "50", "cpu": "1"}))
    resources = judged(of)["spec"]["containers"][0]["resources"]
    assert resources["limits"] == {amount: "50", "cpu": "1", "nvidia.com/gpu": "1"}
    assert resources["requests"] == {amount: "50", "nvidia.com/gpu": "1"}
    assert view_pod(of, RULES) is not None


def test_with_no_default_such_a_pod_is_left_alone() -> None:
    rules = PodRules(defaults=RequestDefaults(count=0))
    assert judge_pod(pod(container(limits={"nvidia.com/gpumem": "0"})), rules) == Judgement()


def test_a_request_alone_becomes_a_limit_too() -> None:
    of = pod({"name": "main", "resources": {"requests": {"nvidia.com/gpu": "1", "cpu": "2"}}})
    resources = judged(of)["spec"]["containers"][0]["resources"]
    assert resources == {"limits": {"nvidia.com/gpu": "1"}, "requests": {"nvidia.com/gpu": "1", "cpu": "2"}}


def test_profiles_that_are_named_stay() -> None:
    own = container(securityContext={"seccompProfile": {"type": "Localhost", "localhostProfile": "x"}})
    assert judged(pod(own))["spec"]["containers"][0] == own
    of_pod = pod(securityContext={"seccompProfile": {"type": "RuntimeDefault"}})
    assert "securityContext" not in judged(of_pod)["spec"]["containers"][0]
    user = judged(pod(container(securityContext={"runAsUser": 1000})))["spec"]["containers"][0]["securityContext"]
    assert user == {"runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}}


def test_the_right_container_is_patched() -> None:
    sidecar = container("side", restartPolicy="Always")
    setup = container("setup", {}, securityContext={"privileged": True})
    spec = judged(pod(container("plain", {}), container("main"), init=[setup, sidecar]))["spec"]
    patched = [
        c["name"]
        for c in (*spec["initContainers"], *spec["containers"])
        if "seccompProfile" in c.get("securityContext", {})
    ]
    assert patched == ["side", "main"]


@pytest.mark.parametrize(
    ("scheduler", "taken"),
    [
        ("default-scheduler", True),
        ("jhub-user-scheduler", True),
        ("", True),
        ("volcano", False),
        ("hami-scheduler", False),
    ],
)
def test_whose_pods_are_taken_over(scheduler: str, taken: bool) -> None:
    of = pod(**({"schedulerName": scheduler} if scheduler else {}))
    judgement = judge_pod(of, RULES)
    assert any(operation["path"] == "/spec/schedulerName" for operation in judgement.patch) is taken
    if scheduler == "volcano":
        assert "schedulerName is volcano" in judgement.warnings[0]
        assert not judgement.patch
        assert judge_pod(of, PodRules(take_over=("*",))).patch


SECURITY = "securityContext"
REFUSED: list[Any] = [
    pytest.param(
        pod(container(limits={**SLICE, "nvidia.com/gpumem-percentage": "50"})),
        "amount",
        "gpumem is 4k and nvidia.com/gpumem-percentage is 50. Name one of the two",
        id="amount and percentage",
    ),
    pytest.param(
        pod(container(limits={"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "0"})),
        "amount",
        "is 0. Write 1 to 100",
        id="0 %",
    ),
    pytest.param(
        pod(container(limits={"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "101"})),
        "amount",
        "is 101. Write",
        id="101 %",
    ),
    pytest.param(
        pod(container(limits={"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "-1"})),
        "amount",
        "is -1. Write",
        id="-1 %",
    ),
    pytest.param(
        pod(container(limits={"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "half"})),
        "amount",
        '"half" is no quantity',
        id="text",
    ),
    pytest.param(
        pod(container(limits={"nvidia.com/gpu": "500m"})), "amount", '"500m" is not a whole number', id="a half card"
    ),
    pytest.param(
        pod(container(limits={"nvidia.com/gpu": "1", "nvidia.com/gpumem": "0"})),
        "amount",
        "gpumem is 0. Write the MiB",
        id="0 MiB",
    ),
    pytest.param(
        pod(container(limits={"nvidia.com/gpu": "1", "nvidia.com/gpumem": "4Gi"})),
        "amount",
        "write 4096 for 4 GiB",
        id="bytes for MiB",
    ),
    pytest.param(
        pod(container(env=[{"name": "GPU_CORE_UTILIZATION_POLICY", "value": "hard"}])),
        "amount",
        "Write default, force or disable",
        id="a policy that is none",
    ),
    pytest.param(
        pod({"name": "main", "resources": {"limits": SLICE, "requests": {"nvidia.com/gpu": "2"}}}),
        "requests-differ",
        "has the request 2 and the limit 1",
        id="requests differ",
    ),
    pytest.param(
        pod(container("plain", {}), init=[container("setup")]),
        "init-container",
        "make it a sidecar",
        id="init container",
    ),
    pytest.param(
        pod(container(securityContext={"privileged": True})), "privileged", "Leave privileged out", id="privileged"
    ),
    pytest.param(
        pod(container(securityContext={"capabilities": {"add": ["NET_ADMIN", "CAP_SYS_ADMIN"]}})),
        "capability",
        "the capability CAP_SYS_ADMIN",
        id="SYS_ADMIN",
    ),
    pytest.param(
        pod(container(securityContext={"capabilities": {"add": ["all"]}})),
        "capability",
        "Drop it",
        id="all capabilities",
    ),
    pytest.param(
        pod(container(securityContext={"seccompProfile": {"type": "Unconfined"}})),
        "seccomp",
        "Use RuntimeDefault",
        id="no seccomp",
    ),
    pytest.param(
        pod(securityContext={"seccompProfile": {"type": "Unconfined"}}),
        "seccomp",
        "Unconfined",
        id="no seccomp for the pod",
    ),
    pytest.param(
        pod(container(volumeMounts=[{"mountPath": "/run//hami/slice/../slice/limits"}])),
        "mount",
        "Mount it elsewhere",
        id="a volume over the limits",
    ),
    pytest.param(
        pod(container(volumeMounts=[{"mountPath": "etc/ld.so.preload"}])),
        "mount",
        "Mount it",
        id="a volume over the preload",
    ),
    pytest.param(
        pod(container(volumeDevices=[{"devicePath": "/usr/local/vgpu/x"}])), "mount", "Mount it", id="a device there"
    ),
    pytest.param(pod(node="node-a"), "node-name", "spec.nodeName is node-a", id="nodeName"),
    pytest.param(pod(hostPID=True), "host-pid", "Leave hostPID out", id="hostPID"),
]


@pytest.mark.parametrize(("of", "rule", "words"), REFUSED)
def test_refusals_name_value_rule_and_way_out(of: dict[str, Any], rule: str, words: str) -> None:
    judgement = judge_pod(of, RULES)
    assert [refusal.rule for refusal in judgement.refusals] == [rule]
    assert words in judgement.text
    assert not judgement.patch


@pytest.mark.parametrize(("of", "rule", "words"), REFUSED)
def test_another_scheduler_is_no_way_around(of: dict[str, Any], rule: str, words: str) -> None:
    of = {**of, "spec": {**of["spec"], "schedulerName": "volcano"}}
    assert [refusal.rule for refusal in judge_pod(of, RULES).refusals] == [rule]


@pytest.mark.parametrize("name", sorted(SCHEDULER_ANNOTATIONS))
def test_what_only_the_scheduler_writes_is_refused(name: str) -> None:
    judgement = judge_pod(pod(annotations={name: "{}"}, schedulerName="volcano"), RULES)
    assert [refusal.rule for refusal in judgement.refusals] == ["annotations"]
    assert name in judgement.text


def test_mounts_beside_ours_are_let_in() -> None:
    mounts = [{"mountPath": path} for path in ("/", "/run", "/run/hamish", "/etc/ld.so.preload.d", "/usr/local")]
    judged(pod(container(volumeMounts=mounts)))


def test_everything_wrong_is_said_at_once() -> None:
    of = pod(container(securityContext={"privileged": True}), node="n", hostPID=True)
    assert [refusal.rule for refusal in judge_pod(of, RULES).refusals] == ["privileged", "node-name", "host-pid"]


def test_a_static_pod_of_the_kubelet_is_shown_as_it_is() -> None:
    judgement = judge_pod(pod(node="n", annotations={"kubernetes.io/config.mirror": "x"}), RULES)
    assert judgement == Judgement(ours=True)


def test_a_pod_that_has_only_a_generated_name() -> None:
    of = pod()
    del of["metadata"]["name"]
    of["metadata"]["generateName"] = "job-"
    judged(of)


@settings(max_examples=300)
@given(damaged())
def test_whatever_comes_is_judged_and_never_panics(of: Any) -> None:
    judgement = judge_pod(of, RULES)
    assert not (judgement.refusals and judgement.patch)
    if judgement.patch:
        apply(of, judgement)
