"""What is left over goes, what may still run stays."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from cluster.deviceplugin.cdi import Owner
from cluster.deviceplugin.garbage import Garbage, running_keys
from cluster.deviceplugin.owner import Assigned

from .plugin_parts import INDICES, OWNER, make_slices, placed, pod

PODS = {"uid-alice": pod()}


def test_the_slice_of_a_pod_that_is_gone_goes_after_the_grace() -> None:
    garbage = Garbage(grace=30)
    assert garbage.ripe(["uid-alice_main"], pods={}, running=(), now=0) == frozenset()
    assert garbage.waiting
    assert garbage.ripe(["uid-alice_main"], pods={}, running=(), now=29) == frozenset()
    assert garbage.ripe(["uid-alice_main"], pods={}, running=(), now=30) == {"uid-alice_main"}
    assert garbage.ripe([], pods={}, running=(), now=31) == frozenset()
    assert not garbage.waiting


def test_a_finished_pod_is_gone_and_one_that_ends_is_not() -> None:
    garbage = Garbage(grace=0)
    assert garbage.ripe(["uid-alice_main"], pods={"uid-alice": pod(phase="Failed")}, running=(), now=0)
    assert not garbage.ripe(["uid-alice_main"], pods={"uid-alice": pod(ending=True)}, running=(), now=0)


def test_a_pod_that_was_deleted_by_force_keeps_its_slice_while_the_kubelet_runs_it() -> None:
    garbage = Garbage(grace=30)
    for now in range(0, 300, 10):
        assert not garbage.ripe(["uid-alice_main"], pods={}, running=["uid-alice_main"], now=now)
    assert not garbage.ripe(["uid-alice_main"], pods={}, running=(), now=300)
    assert garbage.ripe(["uid-alice_main"], pods={}, running=(), now=330)


def test_a_pod_that_is_seen_again_starts_its_grace_anew() -> None:
    garbage = Garbage(grace=30)
    garbage.ripe(["uid-alice_main"], pods={}, running=(), now=0)
    garbage.ripe(["uid-alice_main"], pods=PODS, running=(), now=20)
    assert not garbage.ripe(["uid-alice_main"], pods={}, running=(), now=40)


def test_who_runs_is_known_by_slot_and_name_together(tmp_path: Path) -> None:
    slices = make_slices(tmp_path)
    slices.prepare(OWNER, ["slot-0001"], placed("GPU-0"), INDICES)
    here = Assigned("default", "alice", "main", frozenset({"slot-0001"}))
    assert running_keys(slices, [here]) == {OWNER.key}
    assert not running_keys(slices, [Assigned("default", "bob", "main", frozenset({"slot-0001"}))])
    assert not running_keys(slices, [Assigned("default", "alice", "main", frozenset({"slot-0002"}))])


def test_of_two_pods_of_one_name_only_the_one_that_is_gone_goes(tmp_path: Path) -> None:
    """A notebook server that was stopped and started again has a pod of the same name."""
    slices = make_slices(tmp_path)
    slices.prepare(OWNER, ["slot-0001"], placed("GPU-0"), INDICES)
    again = Owner(OWNER.namespace, OWNER.pod, "uid-again", OWNER.container)
    slices.prepare(again, ["slot-0001"], placed("GPU-1"), INDICES)
    garbage = Garbage(grace=0)
    pods = {"uid-again": pod(uid="uid-again")}
    assert garbage.ripe(slices.keys(), pods=pods, running=(), now=0) == {OWNER.key}
    slices.remove(OWNER.key)
    assert slices.holds["slot-0001"].owner == again
    assert slices.directory(again).is_dir()


uids = st.sampled_from(["a", "b", "c"])


@given(st.lists(st.tuples(st.sets(uids), st.sets(uids), st.integers(0, 20)), max_size=20))
def test_nothing_that_runs_is_ever_removed(history: list[tuple[set[str], set[str], int]]) -> None:
    garbage, now = Garbage(grace=30), 0
    keys = ["a_main", "b_main", "c_main"]
    for alive, running, pause in history:
        now += pause
        pods = {uid: pod(uid=uid) for uid in alive}
        ripe = garbage.ripe(keys, pods=pods, running=[f"{uid}_main" for uid in running], now=now)
        assert not ripe & {f"{uid}_main" for uid in alive | running}
