"""Restarts, a lost API server, two replicas: nothing lost, nothing doubled."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import requests

from tests.cluster.rig import Cluster
from tests.cluster.scheduler_rig import (  # noqa: F401  fixtures
    Nodes,
    Replica,
    bound_node,
    give_api,
    give_nodes,
    give_space,
    installed,
    over_committed,
    pod,
)

AWAY = 60


@pytest.fixture(scope="module")
def config(cluster: Cluster) -> Iterator[Path]:
    with installed(cluster) as config:
        yield config


@pytest.fixture
def replicas(cluster: Cluster, config: Path) -> Iterator[list[Replica]]:
    replicas = [Replica(cluster, number, config) for number in (1, 2)]
    yield replicas
    for replica in replicas:
        replica.stop()


@pytest.fixture
def replica(replicas: list[Replica]) -> Replica:
    replicas[0].start()
    replicas[0].wait_ready()
    return replicas[0]


def is_bound(cluster: Cluster, space: str, name: str) -> bool:
    found = cluster.pod(name, space)
    return bool(found and bound_node(found))


def filtered(replica: Replica, manifest: dict, names: list[str]) -> dict:
    """What the replica answers kube-scheduler; its port is on the loopback of the cluster's network."""
    port = replica.cluster.forward("127.0.0.1", replica.extender)
    body = {"Pod": manifest, "Nodes": None, "NodeNames": names}
    return requests.post(f"http://127.0.0.1:{port}/filter", json=body, timeout=15).json()


@pytest.mark.parametrize("how", ["ended", "killed"])
def test_a_restart_forgets_neither_who_holds_nor_who_waits(cluster, replica, api, nodes, space, how):
    nodes.add()
    api.create(space, pod("holder", gpumem=15000, **nodes.only()))
    cluster.wait_for(lambda: is_bound(cluster, space, "holder"), "the holder is bound")
    api.create(space, pod("waiting", gpumem=15000, **nodes.only()))
    cluster.wait_for(lambda: api.events(space, "waiting"), "the other is told that it waits")
    replica.stop(kill=how == "killed")
    api.create(space, pod("meanwhile", gpumem=15000, **nodes.only()))
    replica.start()
    replica.wait_ready()
    cluster.wait_for(lambda: api.events(space, "meanwhile"), "who came meanwhile is told that it waits")
    assert not is_bound(cluster, space, "waiting")
    api.delete(space, "holder")

    # which of the two is kube-scheduler's to say
    def placed() -> list[str]:
        return [name for name in ("waiting", "meanwhile") if is_bound(cluster, space, name)]

    cluster.wait_for(placed, "one of those who wait gets the place")
    (first,) = placed()
    assert over_committed(api.pods(space)) == []
    api.delete(space, first)
    cluster.wait_for(lambda: placed() not in ([], [first]), "the other gets it after that")
    assert over_committed(api.pods(space)) == []


def test_what_went_while_the_scheduler_was_away_is_free(cluster, replica, api, nodes, space):
    nodes.add()
    api.create(space, pod("holder", gpumem=15000, **nodes.only()))
    cluster.wait_for(lambda: is_bound(cluster, space, "holder"), "the holder is bound")
    replica.daemon.end()
    api.create(space, pod("waiting", gpumem=15000, **nodes.only()))
    api.delete(space, "holder")
    replica.start_daemon()
    cluster.wait_for(lambda: is_bound(cluster, space, "waiting"), "the waiting pod is bound")


def test_a_reservation_without_a_binding_is_given_up(cluster, config, api, nodes, space):
    name, other = nodes.add(2)
    brief = config.with_name("hami-config-brief.yaml")
    brief.write_text("scheduler: {reservationSeconds: 20}\n")
    replica = Replica(cluster, 3, brief)
    replica.start()
    try:
        replica.wait_ready()
        # what follows has to be over before the reservation is, so kube-scheduler must be at work already
        api.create(space, pod("first", **nodes.only(other)))
        cluster.wait_for(lambda: is_bound(cluster, space, "first"), "kube-scheduler is at work")
        cluster.wait_for(lambda: replica.metric("hami_scheduler_reservations ") == 0, "nothing is reserved")
        lost = api.create(space, pod("lost", gpumem=15000, schedulingGates=[{"name": "test/never"}]))
        assert filtered(replica, lost, [name])["NodeNames"] == [name]
        assert replica.metric("hami_scheduler_reservations ") == 1
        api.create(space, pod("waiting", gpumem=15000, **nodes.only(name)))
        cluster.wait_for(lambda: api.events(space, "waiting"), "it is told that it waits")
        assert not is_bound(cluster, space, "waiting")
        cluster.wait_for(lambda: is_bound(cluster, space, "waiting"), "the reservation is given up and the other woken")
        assert replica.metric("hami_scheduler_reservations_expired_total") == 1
    finally:
        replica.stop()


def test_while_the_api_server_is_away_it_answers_from_memory_and_says_it_is_not_ready(
    cluster, replica, api, nodes, space
):
    (name,) = nodes.add()
    api.create(space, pod("holder", gpumem=12000, **nodes.only()))
    cluster.wait_for(lambda: is_bound(cluster, space, "holder"), "the holder is bound")
    candidate = api.create(space, pod("candidate", scheduler="nobody"))
    candidate["spec"]["schedulerName"] = "hami-scheduler"
    cluster.apiserver.stop(kill=True)
    gone = time.monotonic()
    try:
        cluster.wait_for(lambda: "watch" in replica.asked("/readyz")[1], "the replica says why it isn't ready")
        assert replica.asked("/healthz")[0] == 200
        assert filtered(replica, candidate, [name])["NodeNames"] == [name]
        too_big = json.loads(json.dumps(candidate).replace('"3000"', '"4000"').replace('"3k"', '"4k"'))
        too_big["metadata"]["uid"] = "another"
        answer = filtered(replica, too_big, [name])
        assert not answer.get("NodeNames")
        assert name in answer["FailedAndUnresolvableNodes"]
        time.sleep(max(0.0, AWAY - (time.monotonic() - gone)))
    finally:
        cluster.apiserver.start()
    replica.wait_ready()
    # kube-scheduler gives up its lease and ends after 10 s without an API server; its container starts it again
    if not replica.scheduler.alive:
        replica.start_scheduler()
    api.delete(space, "candidate")
    api.create(space, pod("after", **nodes.only()))
    cluster.wait_for(lambda: is_bound(cluster, space, "after"), "a pod is bound again")
    assert is_bound(cluster, space, "holder")
    assert over_committed(api.pods(space)) == []


def test_a_replica_that_dies_in_the_middle_of_many_pods_loses_and_doubles_nothing(cluster, replicas, api, nodes, space):
    for replica in replicas:
        replica.start()
    for replica in replicas:
        replica.wait_ready()
    nodes.add(4, cards=4)  # 16 cards with room for 5 each: 80 of 100 pods
    died = threading.Event()

    def create() -> None:
        for number in range(100):
            if number == 60:  # however quick they are bound, some come after the end
                died.wait()
            api.create(space, pod(f"many-{number}", **nodes.only()))

    with ThreadPoolExecutor(1) as pool, contextlib.ExitStack() as stack:
        stack.callback(died.set)
        creating = pool.submit(create)
        cluster.wait_for(
            lambda: sum(map(bool, map(bound_node, api.pods(space)))) >= 15, "15 pods are bound", every=0.01
        )
        leader = next(replica for replica in replicas if replica.metric("hami_scheduler_bind_seconds_count") > 0)
        leader.stop(kill=True)
        before = sum(map(bool, map(bound_node, api.pods(space))))
        died.set()
        creating.result()
    other = next(replica for replica in replicas if replica is not leader)
    cluster.wait_for(lambda: sum(map(bool, map(bound_node, api.pods(space)))) == 80, "80 pods are bound")
    print(f"the leader died after {before} of 100 pods")
    assert before < 80
    assert other.ready()
    assert over_committed(api.pods(space)) == []
    waiting = [each["metadata"]["name"] for each in api.pods(space) if not bound_node(each)]
    assert len(waiting) == 20
    api.delete(space, next(each["metadata"]["name"] for each in api.pods(space) if bound_node(each)))
    cluster.wait_for(
        lambda: sum(is_bound(cluster, space, name) for name in waiting) == 1, "a waiting pod takes its place"
    )
