"""Nodes and pods as the API server would send them, for tests of the scheduler without one."""

from __future__ import annotations

import json
from typing import Any

from cluster.scheduler.books import Books, NodeSink, PodSink
from hami_hub.core.pods import PodRules

VRAM = 15360


def node(name: str = "node-a", *, cards: int = 1, slots: int | None = None, **changed: Any) -> dict[str, Any]:
    """A ready node of T4s; `slots`: what its kubelet offers, ten a card unless told otherwise."""
    t4 = {"count": 10, "devmem": VRAM, "devcore": 100, "type": "NVIDIA-Tesla T4", "health": True}
    listed = [{"id": f"GPU-{name}-{card}", "index": card, **t4} for card in range(cards)]
    offered = {"nvidia.com/gpu": str(10 * cards if slots is None else slots)}
    return {
        "metadata": {"name": name, "annotations": {"hami.io/node-nvidia-register": json.dumps(listed)}},
        "status": {"allocatable": offered, "conditions": [{"type": "Ready", "status": "True"}]},
        **changed,
    }


def pod(
    name: str, *, gpumem: int = 4000, cores: int = 0, on: str = "", scheduler: str = "hami-scheduler", **meta: Any
) -> dict[str, Any]:
    """A pod that asks for a slice; `on`: the node it is bound to, with no slice unless `annotations` name one."""
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(gpumem)}
    if cores:
        limits["nvidia.com/gpucores"] = str(cores)
    placed = {"nodeName": on} if on else {}
    return {
        "metadata": {"namespace": "jhub", "name": name, "uid": f"uid-{name}", **meta},
        "spec": {
            "schedulerName": scheduler,
            "containers": [{"name": "main", "resources": {"limits": limits}}],
            **placed,
        },
        "status": {"phase": "Pending"},
    }


def holder(name: str, *, gpumem: int = 4000, on: str = "node-a", card: int = 0) -> dict[str, Any]:
    """A pod that holds a slice of a card of that node."""
    share = {"uuid": f"GPU-{on}-{card}", "vram": gpumem, "cores": 0, "exclusive": False, "whole": False}
    slices = {"main": {"shares": [share], "priority": 1, "policy": "default", "oomKiller": True}}
    return pod(name, gpumem=gpumem, on=on, annotations={"hami.io/slices": json.dumps(slices), "hami.io/vgpu-node": on})


def books(nodes: list[dict[str, Any]], pods: list[dict[str, Any]] | None = None, **settings: Any) -> Books:
    """Books that have read these lists."""
    made = Books(PodRules(), **settings)
    for sink, objects in ((NodeSink(made), nodes), (PodSink(made), pods or [])):
        read(sink, objects)
    return made


def read(sink: Any, objects: list[dict[str, Any]]) -> None:
    """A whole list, into a sink."""
    sink.begin_list()
    for each in objects:
        sink.put(each)
    sink.end_list()
