"""Upgrade and removal of the release under running slices, and what is left of it afterwards."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.cluster.hami import COUNT, MEMORY, NAMESPACE, RELEASE, Hami
from tests.cluster.slices_at_work import SlicesAtWork

# docs/kubernetes.md, "What stays"
STAYS_ON_NODES = ("/usr/local/vgpu", "/run/hami", "/run/cdi")
# made by Kubernetes itself in every namespace, or about what happened
NOT_OURS = {"events", "events.events.k8s.io", "endpoints", "endpointslices.discovery.k8s.io", "pods.metrics.k8s.io"}


def test_upgrade_replaces_both_daemons_and_disturbs_nobody(hami: Hami, space: str) -> None:
    at_work = SlicesAtWork(hami, space)
    before = {pod["metadata"]["uid"] for each in ("scheduler", "device-plugin") for pod in hami.pods(each)}
    hami.install("scheduler.podAnnotations.next=yes", "devicePlugin.podAnnotations.next=yes")
    hami.cluster.wait_for(
        lambda: (
            not before & {pod["metadata"]["uid"] for each in ("scheduler", "device-plugin") for pod in hami.pods(each)}
        ),
        "all pods of the release are new ones",
    )
    hami.wait_cards()
    at_work.goes_on()
    at_work.books_are_right()


@pytest.fixture
def installed_again(hami: Hami) -> Iterator[None]:
    yield
    hami.install()
    hami.wait_cards()


@pytest.mark.usefixtures("installed_again")
def test_uninstall_leaves_running_slices_held_and_nothing_of_itself(hami: Hami, space: str) -> None:
    at_work = SlicesAtWork(hami, space)
    hami.uninstall()
    hami.cluster.wait_for(lambda: left_of_the_release(hami) == [], "nothing is left of the release", every=1)
    at_work.goes_on()
    inside = "from hami_hub.notebook import gpu; print(gpu.total_memory())"
    assert hami.python("works", inside, namespace=space).strip() == "4000 MiB"
    for folder in STAYS_ON_NODES:
        assert hami.cluster.nodes[0].path(folder).is_dir()

    # no pod starts without its slice while nobody gives out slices
    hami.cluster.wait_for(lambda: hami.node()["status"]["allocatable"][COUNT] == "0", "the kubelet has no slots")
    hami.pod("new", {COUNT: 1}, namespace=space, wait=False)
    hami.wait_event("new", space, "FailedScheduling", "nvidia.com/gpu")
    hami.delete("new", namespace=space)

    # what runs is in the books of the next release
    hami.install()
    hami.wait_cards()
    at_work.goes_on()
    at_work.books_are_right()
    hami.pod("whole", {COUNT: 1, MEMORY: 15360}, namespace=space, wait=False)
    hami.wait_event("whole", space, "FilteringFailed")


def left_of_the_release(hami: Hami) -> list[str]:
    """Every object with the release's label, and every object in its namespace that Kubernetes didn't make."""
    kubectl = hami.cluster.kubectl
    everywhere = kubectl("api-resources", "--verbs=list", "-o", "name").split()
    namespaced = kubectl("api-resources", "--verbs=list", "--namespaced", "-o", "name").split()
    labelled = kubectl(
        "get", ",".join(sorted(set(everywhere) - NOT_OURS)), "--all-namespaces",
        "-l", f"app.kubernetes.io/instance={RELEASE}", "-o", "name", "--ignore-not-found",
    )  # fmt: skip
    inside = json.loads(
        kubectl(
            "get", ",".join(sorted(set(namespaced) - NOT_OURS)), "-n", NAMESPACE, "-o", "json", "--ignore-not-found"
        )
        or '{"items": []}'
    )
    ours = [
        f"{each['kind']}/{each['metadata']['name']}"
        for each in inside["items"]
        if each["metadata"]["name"] not in ("kube-root-ca.crt", "default")
    ]
    return [*labelled.split(), *ours]
