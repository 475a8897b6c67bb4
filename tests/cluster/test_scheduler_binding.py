"""From create to bound, on a real API server with a real kube-scheduler."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.cluster.rig import Cluster
from tests.cluster.scheduler_rig import (  # noqa: F401  fixtures
    Replica,
    bound_node,
    give_api,
    give_nodes,
    give_space,
    installed,
    over_committed,
    pod,
)

ROUNDS = 5


@pytest.fixture(scope="module")
def replica(cluster: Cluster) -> Iterator[Replica]:
    with installed(cluster) as config:
        replica = Replica(cluster, 0, config)
        replica.start()
        replica.wait_ready()
        yield replica
        replica.stop()


def test_a_pod_is_bound_with_its_slice_by_one_write(cluster, replica, api, nodes, space):
    (name,) = nodes.add()
    api.create(space, pod("one", **nodes.only()))
    bound = cluster.wait_for(lambda: bound_node(found := cluster.pod("one", space)) and found, "the pod is bound")
    assert bound_node(bound) == name
    annotations = bound["metadata"]["annotations"]
    (share,) = json.loads(annotations["hami.io/slices"])["main"]["shares"]
    assert (share["vram"], share["cores"]) == (3000, 10)
    assert annotations["hami.io/vgpu-devices-allocated"] == f"{share['uuid']},NVIDIA,3000,10:;"
    assert all_writes(cluster, space, "one") == ["create pods/binding"]


def test_many_at_once_are_bound_without_over_committing_a_card(cluster, replica, api, nodes, space):
    nodes.add(3, cards=2)  # 6 cards of 15360 MiB: 5 slices of 3000 each
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: api.create(space, pod(f"many-{number}", **nodes.only())), range(36)))

    def refused(name: str) -> bool:
        return any(event["reason"] == "FilteringFailed" for event in api.events(space, name))

    def settled() -> bool:
        waiting = [each["metadata"]["name"] for each in api.pods(space) if not bound_node(each)]
        return len(waiting) <= 6 and all(map(refused, waiting))

    cluster.wait_for(settled, "30 of the pods are bound, and the others refused")
    pods = api.pods(space)
    assert Counter(bool(bound_node(each)) for each in pods) == {True: 30, False: 6}
    assert over_committed(pods) == []
    for each in pods:
        name = each["metadata"]["name"]
        if bound_node(each):
            assert all_writes(cluster, space, name) == ["create pods/binding"]
        else:
            assert writes(cluster, space, name) == []


def test_who_waits_is_told_which_cards_fall_short_by_how_much(cluster, replica, api, nodes, space):
    (name,) = nodes.add()
    api.create(space, pod("holder", gpumem=12000, **nodes.only()))
    cluster.wait_for(lambda: bound_node(cluster.pod("holder", space)), "the first pod is bound")
    api.create(space, pod("waiting", gpumem=4000, **nodes.only()))
    api.create(space, pod("never", gpumem=20000, **nodes.only()))

    def words(name: str, reason: str) -> str:
        return " ".join(event["message"] for event in api.events(space, name) if event["reason"] == reason)

    for reason in ("FilteringFailed", "FailedScheduling"):
        cluster.wait_for(lambda reason=reason: words("waiting", reason), f"{reason} is told")
        cluster.wait_for(lambda reason=reason: words("never", reason), f"{reason} is told")
        assert "3360 MiB" in words("waiting", reason)
        assert "4000 MiB" in words("waiting", reason)
        assert name in words("waiting", reason)
        assert "15 GiB" in words("never", reason)


@pytest.mark.parametrize("how", ["deleted", "finished"])
def test_a_freed_slice_wakes_who_waits_at_once(cluster, replica, api, nodes, space, how, record_property):
    nodes.add()
    took = []
    for number in range(ROUNDS):
        holder, waiting = f"holder-{number}", f"waiting-{number}"
        api.create(space, pod(holder, gpumem=15000, **nodes.only()))
        cluster.wait_for(lambda name=holder: bound_node(cluster.pod(name, space)), "the holder is bound")
        api.create(space, pod(waiting, gpumem=15000, **nodes.only()))
        events = f"{waiting} is told that there is no room"
        cluster.wait_for(lambda name=waiting: api.events(space, name), events)
        began = time.monotonic()
        if how == "deleted":
            api.delete(space, holder)
        else:
            path = f"/api/v1/namespaces/{space}/pods/{holder}/status"
            api.call("PATCH", path, {"status": {"phase": "Succeeded"}}, "application/merge-patch+json")
        cluster.wait_for(lambda name=waiting: bound_node(cluster.pod(name, space)), "it is bound", every=0.02)
        took.append(time.monotonic() - began)
        api.delete(space, waiting)
        cluster.wait_for(lambda name=waiting: cluster.pod(name, space) is None, "it is gone")
    said = f"bound after the slice was {how}, s: " + " ".join(f"{seconds:.3f}" for seconds in took)
    print(said)
    record_property("woken", said)
    assert max(took) < 60  # kube-scheduler by itself looks again after 5 minutes


def test_a_broken_list_of_cards_is_that_nodes_matter_only(cluster, replica, api, nodes, space):
    (broken,) = nodes.add(register='[{"id": "GPU-x", "devmem": ')
    (sound,) = nodes.add()
    api.create(space, pod("one", **nodes.only()))
    cluster.wait_for(lambda: bound_node(cluster.pod("one", space)) == sound, "the sound node takes the pod")
    api.create(space, pod("two", **nodes.only(broken)))
    cluster.wait_for(lambda: api.events(space, "two"), "the second is told why it waits")
    good = json.loads(cluster.get(f"/api/v1/nodes/{sound}")["metadata"]["annotations"]["hami.io/node-nvidia-register"])
    good[0]["id"] = "GPU-repaired"
    patch = {"metadata": {"annotations": {"hami.io/node-nvidia-register": json.dumps(good)}}}
    api.call("PATCH", f"/api/v1/nodes/{broken}", patch, "application/merge-patch+json")
    cluster.wait_for(lambda: bound_node(cluster.pod("two", space)) == broken, "the repaired node takes the pod")


def test_pods_that_others_placed_use_slots_and_no_slice(cluster, replica, api, nodes, space):
    (name,) = nodes.add(split=2)
    api.create(space, pod("by-name", nodeName=name))
    api.create(space, pod("by-another", scheduler="another"))
    binding = {"metadata": {"name": "by-another"}, "target": {"kind": "Node", "name": name}}
    api.call("POST", f"/api/v1/namespaces/{space}/pods/by-another/binding", binding)
    api.create(space, pod("ours", gpumem=1000, **nodes.only()))
    cluster.wait_for(lambda: api.events(space, "ours"), "it is told why it waits")
    assert not bound_node(cluster.pod("ours", space))
    api.delete(space, "by-another")
    bound = cluster.wait_for(lambda: bound_node(p := cluster.pod("ours", space)) and p, "a slot is free for it")
    assert json.loads(bound["metadata"]["annotations"]["hami.io/slices"])["main"]["shares"][0]["vram"] == 1000


def test_forged_annotations_hold_nothing_and_are_written_over(cluster, replica, api, nodes, space):
    (name,) = nodes.add()
    stolen = {"shares": [{"uuid": "GPU-stolen", "vram": 15360, "cores": 100, "exclusive": True, "whole": True}]}
    forged = {"hami.io/slices": json.dumps({"main": stolen}), "hami.io/vgpu-node": name}
    api.create(space, pod("forger", annotations=forged, **nodes.only()))
    bound = cluster.wait_for(lambda: bound_node(p := cluster.pod("forger", space)) and p, "it is bound")
    (share,) = json.loads(bound["metadata"]["annotations"]["hami.io/slices"])["main"]["shares"]
    assert (share["vram"], share["exclusive"]) == (3000, False)
    assert over_committed(api.pods(space)) == []


def test_a_node_that_goes_and_comes_back_is_still_held(cluster, replica, api, nodes, space):
    (name,) = nodes.add()
    api.create(space, pod("holder", gpumem=15000, **nodes.only()))
    cluster.wait_for(lambda: bound_node(cluster.pod("holder", space)), "the holder is bound")
    manifest = cluster.get(f"/api/v1/nodes/{name}")
    api.call("DELETE", f"/api/v1/nodes/{name}")
    for key in ("resourceVersion", "uid", "creationTimestamp", "managedFields"):
        manifest["metadata"].pop(key, None)
    manifest["spec"] = {}
    api.add_node(manifest)
    api.create(space, pod("waiting", gpumem=1000, **nodes.only()))
    cluster.wait_for(lambda: api.events(space, "waiting"), "it is told why it waits")
    assert not bound_node(cluster.pod("waiting", space))
    api.delete(space, "holder")
    cluster.wait_for(lambda: bound_node(cluster.pod("waiting", space)), "it takes the place")


def all_writes(cluster: Cluster, namespace: str, name: str) -> list[str]:
    """The same of a pod that is bound: its binding is among them."""
    return cluster.wait_for(lambda: writes(cluster, namespace, name), "the binding is written down")


def writes(cluster: Cluster, namespace: str, name: str) -> list[str]:
    """What our daemon wrote about a pod, events left out, by the API server's audit log."""
    found = []
    for event in cluster.audit_events(f"/namespaces/{namespace}/pods/{name}"):
        about = event.get("objectRef", {})
        ours = event.get("userAgent") == "hami-hub-scheduler" and event["stage"] == "ResponseComplete"
        pod = (about.get("namespace"), about.get("name"), about.get("resource")) == (namespace, name, "pods")
        if ours and pod and event["verb"] not in ("get", "list", "watch"):
            found.append(f"{event['verb']} pods/{about.get('subresource', '')}".rstrip("/"))
    return found
