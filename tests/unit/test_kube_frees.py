"""By when a slice comes free in a cluster, as far as a hub can know."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("kubespawner", reason="jupyterhub-kubespawner is not installed")

from hami_hub.core.cards import Card, CardState, CardUuid
from hami_hub.core.line import Frees
from hami_hub.core.names import ResourceNames
from hami_hub.core.slices import CardWishes, SliceId, SliceRequest
from hami_hub.core.units import Mib, Percent
from hami_hub.spawner.kube.frees import frees_for, request_of

SMALL = SliceRequest(vram=Mib(4096), cores=Percent(25))
ENDS = {SliceId("alice/"): 3000.0, SliceId("bob/lab"): 2000.0}


def cards(*uuids: str, model: str = "Tesla T4") -> list[CardState]:
    return [
        CardState(Card(uuid=CardUuid(uuid), index=index, model=model, vram=Mib(15360)))
        for index, uuid in enumerate(uuids)
    ]


def pod(user: str = "carol", server: str = "", *, on: str = "", **spec: Any) -> dict[str, Any]:
    """Somebody's pod, with a slice of 8 GiB on a card or still without."""
    annotations = {"hub.jupyter.org/username": user}
    if server:
        annotations["hub.jupyter.org/servername"] = server
    if on:
        share = {"uuid": on, "vram": 8192, "cores": 50, "exclusive": False, "whole": False}
        placed = {"shares": [share], "priority": 1, "policy": "default", "oomKiller": False}
        annotations["hami.io/slices"] = json.dumps({"notebook": placed})
    return {"metadata": {"annotations": annotations}, "spec": spec}


PODS = [pod("alice", on="GPU-a"), pod("bob", "lab", on="GPU-b"), pod("dora", on="GPU-b"), pod("emil")]
NODES = [cards("GPU-a"), cards("GPU-b", "GPU-c", model="NVIDIA A10")]


@pytest.mark.parametrize(
    ("request_", "found"),
    [
        (SMALL, Frees(Mib(8192), 2000.0)),
        (SliceRequest(vram=Mib(4096), wishes=CardWishes(models=("T4",))), Frees(Mib(8192), 3000.0)),
        (SliceRequest(vram=Mib(4096), wishes=CardWishes(models=("H200",))), None),
        (SliceRequest(vram=Mib(4096), cards=2), Frees(Mib(8192), 2000.0)),
        (SliceRequest(vram=Mib(4096), cards=3), None),
        (None, None),
    ],
    ids=["any card", "of one model", "of a model that is nowhere", "two cards of one node", "more than a node has",
         "no GPU"],
)  # fmt: skip
def test_the_next_that_helps(request_: SliceRequest | None, found: Frees | None) -> None:
    assert frees_for(pod(), request_, PODS, NODES, ENDS) == found


def test_of_servers_without_a_time_limit_and_of_other_hubs_nobody_knows() -> None:
    assert frees_for(pod(), SMALL, PODS, NODES, {}) is None
    assert frees_for(pod(), SMALL, PODS, NODES, {SliceId("frank/"): 1.0}) is None


REQUIRED = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}
PREFERRED = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}}


@pytest.mark.parametrize(
    ("spec", "known"),
    [
        ({"nodeSelector": {"gpu": "a10"}}, False),
        ({"affinity": REQUIRED}, False),
        ({"affinity": PREFERRED}, True),
        ({"nodeSelector": None, "affinity": None}, True),
    ],
    ids=["selector", "affinity", "preference", "neither"],
)
def test_where_a_pod_picks_its_nodes_nobody_knows(spec: dict[str, Any], known: bool) -> None:
    assert (frees_for(pod(**spec), SMALL, PODS, NODES, ENDS) is not None) == known


def test_what_a_profile_list_asks_for_is_read_from_the_pod() -> None:
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "2000", "nvidia.com/gpucores": "10"}
    containers = [{"name": "other"}, {"name": "notebook", "resources": {"limits": limits}}]
    found = request_of(pod(containers=containers), ResourceNames())
    assert found is not None
    assert (found.cards, found.vram, found.cores) == (1, 2000, 10)
    assert request_of(pod(containers=containers[:1]), ResourceNames()) is None
    limits["nvidia.com/gpumem"] = "lots"
    assert request_of(pod(containers=containers), ResourceNames()) is None
