"""Whose slots they are and what the container gets: one decision, and every way in which it doesn't fit together."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.deviceplugin.owner import Assigned, Pod, Refused, find_holder, judge
from hami_hub.core.slices import Placement

from .plugin_parts import CARDS, NODE, OWNER, placed, pod

ALICE = Assigned("default", "alice", "main", frozenset({"slot-0001"}))
HEALTHY = [card.uuid for card in CARDS]


def decide(
    found: Pod, holder: Assigned = ALICE, *, healthy: list[str] | None = None, ill: Mapping[str, str] | None = None
) -> Placement:
    owner, placement = judge(
        found, holder, node=NODE, healthy=healthy or HEALTHY, ill=ill or {}, scheduler="hami-scheduler"
    )
    assert (owner.namespace, owner.pod, owner.container) == (holder.namespace, holder.pod, holder.container)
    return placement


def test_a_container_gets_what_was_decided_for_it_and_not_for_its_neighbour() -> None:
    slices = {"main": placed("GPU-0", vram=4000, cores=25), "side": placed("GPU-1", vram=1000)}
    assert decide(pod(slices=slices)) == slices["main"]
    side = Assigned("default", "alice", "side", frozenset({"slot-0007"}))
    assert decide(pod(slices=slices), side) == slices["side"]


def test_the_owner_is_known_by_its_uid() -> None:
    owner, _ = judge(
        pod(slices={"main": placed("GPU-0")}), ALICE, node=NODE, healthy=HEALTHY, ill={}, scheduler="hami-scheduler"
    )
    assert owner == OWNER
    assert owner.key == "uid-alice_main"


REFUSED: dict[str, tuple[Pod, str, bool, str]] = {
    "by nodeName or another scheduler": (pod(), "not-placed", False, "schedulerName to hami-scheduler"),
    "with only HAMi's annotation": (pod(slices=None), "not-placed", False, "not placed by hami-scheduler"),
    "on another node": (pod(slices={"main": placed("GPU-0")}, node="node-b"), "other-node", True, "node-a"),
    "placed on another node": (
        pod(slices={"main": placed("GPU-0")}, placed_on="node-b"),
        "other-node",
        False,
        "node-b",
    ),
    "finished": (pod(slices={"main": placed("GPU-0")}, phase="Succeeded"), "finished", False, "ending"),
    "ending": (pod(slices={"main": placed("GPU-0")}, ending=True), "finished", False, "ending"),
    "another container's": (pod(slices={"other": placed("GPU-0")}), "no-slice", False, "main"),
    "two cards for one slot": (pod(slices={"main": placed("GPU-0", "GPU-1")}), "wrong-count", False, "2 cards"),
    "a card that isn't here": (pod(slices={"main": placed("GPU-9")}), "unknown-card", False, "GPU-9"),
    "no JSON": (pod(slices="{"), "unreadable", False, "hami.io/slices"),
    "a list": (pod(slices="[]"), "unreadable", False, "hami.io/slices"),
    "a negative amount": (
        pod(slices=json.dumps({"main": {"shares": [{"uuid": "GPU-0", "vram": -1, "cores": 0}]}})),
        "unreadable",
        False,
        "hami.io/slices",
    ),
}


@pytest.mark.parametrize(("found", "rule", "retry", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_a_pod_that_does_not_fit_together_is_refused(found: Pod, rule: str, retry: bool, words: str) -> None:
    with pytest.raises(Refused) as refused:
        decide(found)
    assert (refused.value.rule, refused.value.retry) == (rule, retry)
    assert words in refused.value.text
    assert refused.value.text.endswith(".")


def test_a_slice_on_a_card_out_of_order_is_refused_with_the_reason_until_the_card_is_back() -> None:
    found = pod(slices={"main": placed("GPU-0")})
    with pytest.raises(Refused, match="XID 79") as refused:
        decide(found, healthy=["GPU-1"], ill={"GPU-0": "XID 79"})
    assert refused.value.retry
    assert decide(found, ill={"GPU-1": "XID 79"}) == placed("GPU-0")


@given(
    text=st.text()
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["main", "shares", "uuid", "vram"]), inner)
        ),
    ).map(json.dumps)
)
def test_whatever_the_annotation_says_is_decided_or_refused(text: str) -> None:
    with contextlib.suppress(Refused):
        assert decide(pod(slices=text)).shares


@given(
    st.lists(
        st.builds(
            Assigned,
            namespace=st.just("default"),
            pod=st.sampled_from("abcd"),
            container=st.sampled_from(["main", "side"]),
            slots=st.frozensets(st.sampled_from([f"slot-{n}" for n in range(6)]), min_size=1, max_size=3),
        ),
        max_size=5,
    ),
    st.frozensets(st.sampled_from([f"slot-{n}" for n in range(6)]), min_size=1, max_size=3),
)
def test_the_holder_is_the_only_one_that_touches_the_slots(assigned: list[Assigned], slots: frozenset[str]) -> None:
    touching = [each for each in assigned if each.slots & slots]
    if len(touching) == 1 and touching[0].slots == slots:
        assert find_holder(assigned, slots) is touching[0]
    else:
        with pytest.raises(Refused):
            find_holder(assigned, slots)
