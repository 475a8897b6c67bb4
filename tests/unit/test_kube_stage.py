"""Where a pod is, and when it can't become a server any more.

The pods are what a real API server shows, shortened; each row says what the person reads.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("kubespawner", reason="jupyterhub-kubespawner is not installed")

from hami_hub.spawner.kube.stage import Stage, parse_time, stage_of, why_unplaced
from hami_hub.spawner.kube.words import (
    CONTAINER_WAITS,
    DISRUPTIONS,
    EVENTS,
    NO_PLACE,
    POD_FAILS,
    PROGRESS,
    REASONS,
    SENTENCES,
)

Json = dict[str, Any]
PREFIX = "0/3 nodes are available: "
TAIL = " preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod."
PRESTART = (
    "device plugin PreStartContainer rpc failed with err: rpc error: code = {code} desc = "
    "The pod jhub/jupyter-alice has no slice on this node. Have it placed by hami-scheduler."
)


def pod(status: Json | None = None, *, node: str = "node-a", **metadata: Any) -> Json:
    spec: Json = {"containers": [{"name": "notebook", "image": "quay.io/jupyter/base:1"}]}
    if node:
        spec["nodeName"] = node
    return {"metadata": {"name": "jupyter-alice", "uid": "u1", **metadata}, "spec": spec, "status": status or {}}


def waits(reason: str, message: str = "", **more: Any) -> Json:
    state = {"waiting": {"reason": reason, "message": message}}
    return {"phase": "Pending", "containerStatuses": [{"name": "notebook", "image": "img:1", "state": state, **more}]}


def ended(phase: str, **terminated: Any) -> Json:
    return {"phase": phase, "containerStatuses": [{"name": "notebook", "state": {"terminated": terminated}}]}


def unplaced(message: str, reason: str = "Unschedulable") -> Json:
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
    return pod({"phase": "Pending", "conditions": [condition]}, node="")


def event(reason: str, message: str = "", at: str | None = "2026-11-29T10:00:00Z", **more: Any) -> Json:
    return {"metadata": {"name": reason}, "reason": reason, "message": message, "lastTimestamp": at, **more}


def failed(reason: str, message: str = "") -> Json:
    return pod({"phase": "Failed", "reason": reason, "message": message})


OVER: dict[str, tuple[Json, list[Json], str]] = {
    "admission": (
        failed("UnexpectedAdmissionError", "Pod was rejected: Allocate failed due to no containers return"),
        [],
        "The node node-a could not take your server after all: Pod was rejected: Allocate failed due to no containers "
        "return. Start it again.",
    ),
    "admission by our plugin": (
        failed(
            "UnexpectedAdmissionError",
            "Pod was rejected: Allocate failed due to rpc error: code = Unknown desc = device plugin says no, which is "
            "unexpected",
        ),
        [],
        "Your server did not get its slice: device plugin says no, which is unexpected.",
    ),
    "out of slots": (
        failed("OutOfnvidia.com/gpu", "Pod was rejected: Node didn't have enough resource"),
        [],
        "The node node-a ran out of nvidia.com/gpu just before your server came. Start it again.",
    ),
    "evicted": (
        failed("Evicted", "The node was low on resource: memory."),
        [],
        "The cluster took your server away from node-a: The node was low on resource: memory. Start it again.",
    ),
    "shutdown": (
        failed("NodeShutdown", "Pod was terminated in response to imminent node shutdown."),
        [],
        "The node node-a was shut down or lost while your server started. Start it again.",
    ),
    "failed without a word": (
        pod({"phase": "Failed"}),
        [],
        "Your server failed on node-a: it gives no reason. Start it again; if that doesn't help, ask an admin.",
    ),
    "preempted": (
        pod(
            {
                "phase": "Pending",
                "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}],
            },
            deletionTimestamp="2026-11-29T10:00:00Z",
        ),
        [],
        "Your server made room for one of higher priority. Start it again to wait for its next turn.",
    ),
    "deleted": (
        pod({"phase": "Running"}, deletionTimestamp="2026-11-29T10:00:00Z"),
        [],
        "Your server was removed from the cluster while it started. Start it again; if you didn't do that, ask "
        "an admin.",
    ),
    "no such image": (
        pod(
            waits(
                "ErrImagePull", 'rpc error: code = NotFound desc = failed to pull and unpack image "img:1": not found'
            )
        ),
        [],
        'The image img:1 can\'t be fetched: failed to pull and unpack image "img:1": not found. Pick another one, or '
        "ask an admin to put it right.",
    ),
    "a registry that is silent three times": (
        pod(waits("ImagePullBackOff", 'Back-off pulling image "img:1"')),
        [event("Failed", 'Failed to pull image "img:1": dial tcp: i/o timeout', count=3), event("Failed", "Error: x")],
        'The image img:1 can\'t be fetched: Failed to pull image "img:1": dial tcp: i/o timeout. Pick another one, or '
        "ask an admin to put it right.",
    ),
    "not an image's name": (
        pod(waits("InvalidImageName", "couldn't parse image reference")),
        [],
        "img:1 is not the name of an image. Pick another one, or ask an admin to put it right.",
    ),
    "an image that may not be pulled": (
        pod(waits("ErrImageNeverPull", 'Container image "img:1" is not present with pull policy of Never')),
        [],
        'The image img:1 can\'t be fetched: Container image "img:1" is not present with pull policy of Never. Pick '
        "another one, or ask an admin to put it right.",
    ),
    "the device plugin says no": (
        pod(waits("CreateContainerConfigError", PRESTART.format(code="FailedPrecondition"))),
        [],
        "Your server did not get its slice: The pod jhub/jupyter-alice has no slice on this node. Have it placed by "
        "hami-scheduler.",
    ),
    "a missing secret": (
        pod(waits("CreateContainerConfigError", 'secret "keys" not found')),
        [],
        'Your server could not be made: secret "keys" not found. Start it again; if that doesn\'t help, ask an admin.',
    ),
    "no such program": (
        pod(
            waits(
                "RunContainerError",
                'failed to create containerd task: exec: "nope": executable file not found in $PATH: unknown',
            )
        ),
        [],
        'Your server could not be made: failed to create containerd task: exec: "nope": executable file not found in '
        "$PATH: unknown. Start it again; if that doesn't help, ask an admin.",
    ),
    "ended": (
        pod(ended("Failed", exitCode=3, reason="Error")),
        [],
        "Your server ended while it was starting (exit status 3). Start it again; if that doesn't help, ask an admin "
        "to look into the hub's log.",
    ),
    "ended well": (
        pod(ended("Succeeded", exitCode=0)),
        [],
        "Your server ended while it was starting (exit status 0). Start it again; if that doesn't help, ask an admin "
        "to look into the hub's log.",
    ),
    "out of memory": (
        pod(ended("Running", exitCode=137, reason="OOMKilled")),
        [],
        "Your server ran out of main memory while it was starting. Pick a profile with more, or ask an admin.",
    ),
    "crashes again and again": (
        pod(waits("CrashLoopBackOff", "back-off", lastState={"terminated": {"exitCode": 1}})),
        [],
        "Your server ended while it was starting (exit status 1). Start it again; if that doesn't help, ask an admin "
        "to look into the hub's log.",
    ),
    "an init container fails": (
        pod(
            {"phase": "Failed", "initContainerStatuses": [{"name": "block", "state": {"terminated": {"exitCode": 2}}}]}
        ),
        [],
        "Your server failed on node-a: its container block ended with exit status 2. Start it again; if that doesn't "
        "help, ask an admin.",
    ),
}


@pytest.mark.parametrize(("seen", "events", "text"), OVER.values(), ids=OVER)
def test_a_pod_that_can_not_become_a_server_is_over(seen: Json, events: list[Json], text: str) -> None:
    stage = stage_of(seen, events)
    assert stage.over
    assert stage.text == text


ON_THE_WAY: dict[str, tuple[Json, list[Json], str]] = {
    "just made": (pod(node=""), [], "The cluster looks for a place for your server."),
    "placed": (pod({"phase": "Pending"}), [], "Your server has its place on node-a and is being prepared."),
    "image": (
        pod(waits("ContainerCreating")),
        [event("Scheduled"), event("Pulling", 'Pulling image "img:1"', "2026-11-29T10:00:01Z")],
        "The image img:1 is being fetched. The first time on a node this can take minutes.",
    ),
    "image is there": (
        pod(waits("ContainerCreating")),
        [event("Pulled", 'Successfully pulled image "img:1" in 3s', at="2026-11-29T10:00:02Z"), event("Pulling")],
        "The image is there. Your server is being made.",
    ),
    "a registry that was silent once": (
        pod(waits("ImagePullBackOff", 'Back-off pulling image "img:1"')),
        [event("Failed", 'Failed to pull image "img:1": dial tcp: i/o timeout')],
        "The image img:1 is being fetched. The first time on a node this can take minutes.",
    ),
    "storage": (
        pod(waits("ContainerCreating")),
        [event("FailedMount", 'MountVolume.SetUp failed for volume "home": timed out', at=None, eventTime=None)],
        'Your server waits for its storage: MountVolume.SetUp failed for volume "home": timed out.',
    ),
    "network": (
        pod(waits("ContainerCreating")),
        [event("FailedCreatePodSandBox", "no address left")],
        "Your server waits for its network: no address left.",
    ),
    "the device plugin can't tell yet": (
        pod(waits("CreateContainerConfigError", PRESTART.format(code="Unavailable"))),
        [],
        "Your slice isn't ready yet: The pod jhub/jupyter-alice has no slice on this node. Have it placed by "
        "hami-scheduler.",
    ),
    "a busy node": (
        pod(waits("CreateContainerError", "context deadline exceeded")),
        [],
        "Your server is being made.",
    ),
    "init container": (
        pod(
            {
                **waits("PodInitializing"),
                "initContainerStatuses": [{"name": "block", "state": {"running": {}}, "started": False}],
            }
        ),
        [],
        "Your server's home and tools are being made ready.",
    ),
    "running, not ready": (
        pod({"phase": "Running", "containerStatuses": [{"name": "notebook", "state": {"running": {}}}]}),
        [event("Started")],
        "Your server is starting.",
    ),
    "gated": (
        unplaced("", reason="SchedulingGated"),
        [],
        "Your server is held back by the cluster's admins and starts when they let it.",
    ),
    "scale up": (
        unplaced(f"{PREFIX}3 Insufficient cpu."),
        [event("TriggeredScaleUp", "pod triggered scale-up")],
        "The cluster is adding a machine for your server. That takes some minutes.",
    ),
}


@pytest.mark.parametrize(("seen", "events", "text"), ON_THE_WAY.values(), ids=ON_THE_WAY)
def test_a_pod_on_its_way_is_told_in_words(seen: Json, events: list[Json], text: str) -> None:
    stage = stage_of(seen, events)
    assert not stage.over
    assert stage.text == text
    assert stage.key in PROGRESS


SOON = " Your server starts by itself as soon as it can."
NO_ROOM: dict[str, tuple[str, str]] = {
    "cpu": (f"{PREFIX}3 Insufficient cpu.{TAIL}", SENTENCES["cpu"] + SOON),
    "memory": (f"{PREFIX}1 Insufficient cpu, 3 Insufficient memory.{TAIL}", SENTENCES["memory"] + SOON),
    "gpu": (f"{PREFIX}1 Insufficient nvidia.com/gpu, 2 Insufficient memory.", SENTENCES["gpu"] + SOON),
    "another resource": (
        f"{PREFIX}3 Insufficient example.com/foo.",
        "No machine of the cluster has enough free example.com/foo for your server." + SOON,
    ),
    "taint": (
        f"{PREFIX}3 node(s) had untolerated taint(s) {{nvidia.com/gpu: }}.",
        "The machines with room are kept for others (taint nvidia.com/gpu). Ask an admin if that stays so." + SOON,
    ),
    "old taint": (
        f"{PREFIX}3 node(s) had untolerated taint {{node.kubernetes.io/unreachable: }}.",
        "The machines with room are kept for others (taint node.kubernetes.io/unreachable). Ask an admin if that stays "
        "so." + SOON,
    ),
    "selector": (f"{PREFIX}3 node(s) didn't match Pod's node affinity/selector.", SENTENCES["selector"] + SOON),
    "volume": (f"{PREFIX}3 pod has unbound immediate PersistentVolumeClaims.", SENTENCES["storage"] + SOON),
    "pods": (f"{PREFIX}3 Too many pods.", SENTENCES["pods"] + SOON),
    "ours": (
        f"{PREFIX}3 4 GiB · 25 % is not free now: the Tesla T4 has 2 GiB free, 4 GiB are asked for.{TAIL}",
        "The cluster has no place for your server yet: 4 GiB · 25 % is not free now: the Tesla T4 has 2 GiB free, 4 "
        "GiB are asked for.",
    ),
}


@pytest.mark.parametrize(("said", "text"), NO_ROOM.values(), ids=NO_ROOM)
def test_why_a_pod_has_no_place_is_told_in_words(said: str, text: str) -> None:
    stage = stage_of(unplaced(said))
    assert not stage.over
    assert not stage.placed
    assert stage.text == text
    assert why_unplaced(said) == stage


def test_the_newest_event_counts_whatever_field_its_time_is_in() -> None:
    old = event("Pulling", at="2026-11-29T10:00:05Z")
    new = event("Pulled", at=None, eventTime="2026-11-29T10:00:06.123456Z")
    assert stage_of(pod(waits("ContainerCreating")), [new, old]).key == "pulled"


@pytest.mark.parametrize("stamp", [None, "", "yesterday", 7, "2026-11-29T10:00:00.1234567Z"])
def test_no_time_is_too_odd(stamp: object) -> None:
    assert parse_time(stamp).tzinfo is not None


LEAF = st.none() | st.booleans() | st.integers() | st.text(max_size=20)
KEYS = st.sampled_from(["phase", "reason", "message", "conditions", "containerStatuses", "state", "waiting", "type"])


@given(
    reason=st.sampled_from([*CONTAINER_WAITS, *POD_FAILS, "OutOfcpu", "SomethingNew", ""]) | st.text(max_size=20),
    message=st.none() | st.text(max_size=2000),
    phase=st.sampled_from(["Pending", "Running", "Failed", "Succeeded", "Unknown", ""]),
    node=st.sampled_from(["", "node-a"]),
    kind=st.sampled_from(["waiting", "terminated", "running"]),
    more=st.lists(st.fixed_dictionaries({"reason": st.sampled_from([*EVENTS, "Failed", "?"]), "message": LEAF})),
)
def test_whatever_kubernetes_says_there_is_a_sentence(
    reason: str, message: str | None, phase: str, node: str, kind: str, more: list[Json]
) -> None:
    state = {kind: {"reason": reason, "message": message, "exitCode": 1}}
    status = {"phase": phase, "reason": reason, "message": message}
    container = {"name": "notebook", "image": "img", "state": state}
    stage = stage_of(pod({**status, "containerStatuses": [container]}, node=node), more)
    assert stage.text
    assert len(stage.text) < 1000
    assert "\n" not in stage.text


def test_every_word_has_its_sentence() -> None:
    keys = {
        *(rule.key for rule in NO_PLACE),
        *POD_FAILS.values(),
        *DISRUPTIONS.values(),
        *EVENTS.values(),
        *PROGRESS,
        *REASONS,
    }
    assert keys <= set(SENTENCES)
    for sentence in SENTENCES.values():
        assert sentence.endswith((".", "}"))


def test_sentences_are_plain_data() -> None:
    assert json.loads(json.dumps(SENTENCES)) == SENTENCES
    assert Stage("gated").text == SENTENCES["gated"]
