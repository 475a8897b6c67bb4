"""What people get wrong, on the whole installation: each is refused or survived with a reason, nothing crashes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from tests.cluster.hami import COUNT, MEMORY, NAMESPACE, PERCENTAGE, Hami, slice_pod

ONE = {COUNT: 1, MEMORY: 1000}


@pytest.fixture(autouse=True)
def nothing_crashed(hami: Hami) -> Iterator[None]:
    before = restarts(hami)
    yield
    assert restarts(hami) == before


def restarts(hami: Hami) -> dict[str, int]:
    pods = [*hami.pods("scheduler"), *hami.pods("device-plugin")]
    return {
        f"{pod['metadata']['name']}/{each['name']}": each["restartCount"]
        for pod in pods
        for each in pod["status"]["containerStatuses"]
    }


@pytest.fixture(scope="module")
def refusals(hami: Hami) -> Iterator[str]:
    """A namespace for pods that are never created."""
    with hami.cluster.namespace("refusals"):
        yield "refusals"


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({COUNT: 1, PERCENTAGE: 0}, [PERCENTAGE, "0", "1 to 100"]),
        ({COUNT: 1, PERCENTAGE: 101}, [PERCENTAGE, "101", "100"]),
        ({COUNT: 1, PERCENTAGE: -1}, [PERCENTAGE, "-1"]),
        ({COUNT: 1, PERCENTAGE: "half"}, ["quantities must match"]),
        ({COUNT: 1, PERCENTAGE: "0.5"}, [PERCENTAGE, "whole number"]),
        ({COUNT: 1, MEMORY: 1000, PERCENTAGE: 10}, [MEMORY, PERCENTAGE, "one of the two"]),
    ],
    ids=str,
)
def test_amounts_that_make_no_sense_are_refused(
    hami: Hami, refusals: str, limits: dict[str, str | int], words: list[str]
) -> None:
    refused = hami.create(slice_pod("p", limits, namespace=refusals))
    assert refused
    assert [word for word in words if word not in refused] == [], refused


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"container": {"securityContext": {"privileged": True}}}, ["privileged"]),
        ({"container": {"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}}, ["SYS_ADMIN"]),
        ({"container": {"securityContext": {"seccompProfile": {"type": "Unconfined"}}}}, ["Unconfined"]),
        ({"hostPID": True}, ["hostPID"]),
        ({"nodeName": "node0"}, ["nodeName", "node0"]),
        ({"metadata": {"annotations": {"hami.io/slices": "{}"}}}, ["hami.io/slices"]),
        ({"metadata": {"annotations": {"hami.io/vgpu-devices-allocated": "GPU-x,NVIDIA,1,1:;"}}}, ["allocated"]),
    ],
    ids=["privileged", "SYS_ADMIN", "unconfined", "hostPID", "nodeName", "forged slices", "forged devices"],
)
def test_pods_that_could_get_around_their_slice_are_refused(
    hami: Hami, refusals: str, more: dict[str, Any], words: list[str]
) -> None:
    refused = hami.create(slice_pod("p", ONE, namespace=refusals, **more))
    assert refused
    assert [word for word in words if word not in refused] == [], refused


def test_an_init_container_gets_no_slice_and_is_told(hami: Hami, refusals: str) -> None:
    manifest = slice_pod("p", {}, namespace=refusals)
    first = {**manifest["spec"]["containers"][0], "name": "first", "resources": {"limits": ONE}}
    manifest["spec"]["initContainers"] = [first]
    assert "init container" in hami.create(manifest)


def test_a_sidecar_has_a_slice_like_any_container(hami: Hami, space: str) -> None:
    manifest = slice_pod("p", {COUNT: 1, MEMORY: 2000}, namespace=space)
    sidecar = {**manifest["spec"]["containers"][0], "name": "side", "restartPolicy": "Always"}
    manifest["spec"]["initContainers"] = [{**sidecar, "resources": {"limits": ONE}}]
    assert hami.create(manifest) == ""
    hami.cluster.wait_pod("p", namespace=space)
    query = ("python", "-m", "hami_hub.cli", "smi", "--query-gpu=memory.total", "--format=csv,noheader")
    seen = {name: hami.exec("p", *query, namespace=space, container=name).strip() for name in ("side", "main")}
    assert seen == {"side": "1000 MiB", "main": "2000 MiB"}


def test_a_privileged_container_beside_a_slice_is_no_obstacle(hami: Hami, space: str) -> None:
    """Stock zero-to-jupyterhub has a privileged init container in every server."""
    manifest = slice_pod("p", ONE, namespace=space)
    first = {**manifest["spec"]["containers"][0], "name": "block-cloud-metadata", "resources": {}}
    first |= {"command": ["true"], "securityContext": {"privileged": True}}
    manifest["spec"]["initContainers"] = [first]
    assert hami.create(manifest) == ""
    hami.cluster.wait_pod("p", namespace=space)


def test_more_cards_than_any_node_has(hami: Hami, space: str) -> None:
    hami.pod("p", {COUNT: 2, MEMORY: 1000}, namespace=space, wait=False)
    assert "2 cards" in hami.wait_event("p", space, "FilteringFailed")


@pytest.mark.parametrize("how", ["annotate", "status", "binding"])
def test_nobody_writes_the_schedulers_annotations_later(hami: Hami, space: str, how: str) -> None:
    hami.pod("p", {}, namespace=space, wait=False, nodeSelector={"no": "node"})
    forged = {"metadata": {"annotations": {"hami.io/slices": "{}"}}}
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p", **forged["metadata"]},
        "target": {"kind": "Node", "name": "node0"},
    }
    patch = ("patch", "pod", "p", "-n", space, "--type=merge", "-p", json.dumps(forged))
    result = {
        "annotate": lambda: hami.cluster.kubectl_run(*patch),
        "status": lambda: hami.cluster.kubectl_run(*patch, "--subresource=status"),
        "binding": lambda: hami.cluster.kubectl_run(
            "create", "--raw", f"/api/v1/namespaces/{space}/pods/p/binding", "-f", "-", stdin=json.dumps(binding)
        ),
    }[how]()
    assert result.returncode != 0
    assert "Only the scheduler of HAMi Hub writes hami.io/slices" in result.stderr


def test_the_annotations_of_a_running_slice_stay(hami: Hami, space: str) -> None:
    hami.pod("p", ONE, namespace=space)
    result = hami.cluster.kubectl_run("annotate", "pod", "p", "-n", space, "hami.io/slices-")
    assert "Only the scheduler of HAMi Hub" in result.stderr


def test_a_broken_register_on_one_node_leaves_the_others_alone(hami: Hami, space: str) -> None:
    hami.cluster.kubectl("annotate", "node", "node1", "hami.io/node-nvidia-register=[{broken")
    try:
        pod = hami.pod("p", ONE, namespace=space)
        assert pod["spec"]["nodeName"] == "node0"
    finally:
        hami.cluster.kubectl("annotate", "node", "node1", "hami.io/node-nvidia-register-")


def test_a_pod_that_no_scheduler_of_ours_placed_is_refused_on_the_node_and_takes_nobodys_slice(
    hami: Hami, space: str
) -> None:
    """In a namespace whose pods the webhook doesn't see, here the release's own."""
    manifest = slice_pod("stray", {COUNT: 1}, namespace=NAMESPACE, schedulerName="default-scheduler")
    assert hami.create(manifest) == ""
    try:
        hami.wait_event("stray", NAMESPACE, "Failed", "scheduler")
        assert hami.cluster.pod("stray", NAMESPACE)["status"]["phase"] == "Pending"
        hami.pod("p", ONE, namespace=space)
        assert "1000 MiB" in hami.smi("p", "--query-gpu=memory.total", "--format=csv", namespace=space)
    finally:
        hami.delete("stray", namespace=NAMESPACE)


REVIEW = {"kind": "AdmissionReview", "request": {"uid": "1", "object": {"kind": "Pod"}}}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"x" * (10 << 20), 413),
        (json.dumps({"apiVersion": "admission.k8s.io/v1", **REVIEW}).encode()[:40], 400),
        (json.dumps({"apiVersion": "admission.k8s.io/v1beta1", **REVIEW}).encode(), 400),
        (b"", 400),
        (b"[1, 2]", 400),
        (b"\xff\x00", 400),
    ],
    ids=["10 MiB", "truncated", "wrong version", "empty", "a list", "no text"],
)
def test_bodies_that_are_no_review(hami: Hami, body: bytes, status: int) -> None:
    address = hami.cluster.get(f"/api/v1/namespaces/{NAMESPACE}/services/hami-scheduler")["spec"]["clusterIP"]
    port = hami.cluster.forward(address, 443)
    headers = {"Content-Type": "application/json"}
    url = f"https://127.0.0.1:{port}/webhook"
    answer = requests.post(url, data=body, headers=headers, verify=False, timeout=30)
    assert answer.status_code == status
    assert "Traceback" not in answer.text
    assert answer.text.strip()


def test_a_pod_without_a_slice_never_meets_the_webhook(hami: Hami, space: str) -> None:
    hami.pod("plain", {"cpu": "10m"}, namespace=space, wait=False)
    hami.pod("slice", ONE, namespace=space, wait=False)

    def judged() -> dict[str, bool]:
        return {
            each["objectRef"]["name"]: "slices.hami.io" in json.dumps(each.get("annotations", {}))
            for each in hami.requests(f'"requestURI":"/api/v1/namespaces/{space}/pods?')
            if each["verb"] == "create"
        }

    hami.cluster.wait_for(lambda: len(judged()) == 2, "both are written down")
    assert judged() == {"plain": False, "slice": True}
