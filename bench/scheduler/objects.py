"""The nodes and pods of the benchmark: T4 nodes, pods that ask for 3000 MiB and 10 % of one card."""

from __future__ import annotations

import json
import time
import uuid
from typing import Any

CARDS, SLOTS, VRAM = 8, 10, 15360
POD_VRAM, POD_CORES = 3000, 10
# A plain extended resource, for kube-scheduler alone.
PLAIN = "example.com/slice"
_HANDSHAKES = (
    "", "-dcu", "-xpu", "-va", "-biren", "-MR-V100", "-MR-V50", "-BI-V150", "-BI-V100", "-Ascend910A", "-Ascend910B2",
    "-Ascend910B3", "-Ascend910B4-1", "-Ascend910B4", "-Ascend310P", "-Ascend910C",
)  # fmt: skip


def card_uuid(node: int, card: int) -> str:
    """As NVML prints one."""
    return "GPU-" + str(uuid.UUID(int=(node + 1) << 64 | card + 1))


def node_name(number: int) -> str:
    """A name of an ordinary length."""
    return f"gpu-node-{number:05d}"


def node(number: int, cards: int = CARDS, *, handshakes: bool = False) -> dict[str, Any]:
    """A ready node.  `handshakes`: with the marks that HAMi leaves on a node that it has seen before."""
    t4 = {
        "count": SLOTS,
        "devmem": VRAM,
        "devcore": 100,
        "type": "NVIDIA-Tesla T4",
        "mode": "hami-core",
        "health": True,
    }
    listed = [{"id": card_uuid(number, card), **({"index": card} if card else {}), **t4} for card in range(cards)]
    annotations = {"hami.io/node-nvidia-register": json.dumps(listed, separators=(",", ":"))}
    if handshakes:
        for kind in _HANDSHAKES:
            annotations[f"hami.io/node-handshake{kind}"] = "Requesting_2026-01-01 00:00:00"
    room = str(SLOTS * cards)
    has = {"cpu": "96", "memory": "512Gi", "pods": "250", "nvidia.com/gpu": room, PLAIN: room}
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ok"}
    name = node_name(number)
    labels = {"gpu": "on", "kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "annotations": annotations, "labels": labels},
        "status": {
            "allocatable": has,
            "capacity": has,
            "conditions": [{**ready, "lastHeartbeatTime": now, "lastTransitionTime": now}],
        },
    }


def pod(name: str, scheduler: str, *, plain: bool = False, annotations: dict[str, str] | None = None) -> dict[str, Any]:
    """A pod that waits for `scheduler`.  `plain`: it asks for the plain resource instead of a slice."""
    asked = {PLAIN: "1"} if plain else {
        "nvidia.com/gpu": "1", "nvidia.com/gpumem": str(POD_VRAM), "nvidia.com/gpucores": str(POD_CORES),
    }  # fmt: skip
    limits = {**asked, "cpu": "100m", "memory": "128Mi"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "annotations": annotations or {}},
        "spec": {
            "schedulerName": scheduler,
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "containers": [{"name": "c", "image": "busybox", "resources": {"limits": limits, "requests": limits}}],
        },
    }


def running_pod(number: int, nodes: int) -> dict[str, Any]:
    """Pod `number` of many that run already, spread evenly over `nodes` nodes and their cards."""
    on, card = number % nodes, (number // nodes) % CARDS
    now = str(int(time.time()))
    held = f"{card_uuid(on, card)},NVIDIA,{POD_VRAM},{POD_CORES}:;"
    share = {"uuid": card_uuid(on, card), "vram": POD_VRAM, "cores": POD_CORES, "exclusive": False, "whole": False}
    ours = {"c": {"shares": [share], "priority": 1, "policy": "default", "oomKiller": True}}
    made = pod(f"run-{number:06d}", "hami-scheduler")
    made["spec"]["nodeName"] = node_name(on)
    made["metadata"]["labels"] = {"hami.io/vgpu-node": node_name(on)}
    made["metadata"]["annotations"] = {
        "hami.io/vgpu-node": node_name(on), "hami.io/vgpu-time": now, "hami.io/vgpu-devices-allocated": held,
        "hami.io/vgpu-devices-to-allocate": ";", "hami.io/bind-phase": "success", "hami.io/bind-time": now,
        "hami.io/slices": json.dumps(ours, separators=(",", ":")),
    }  # fmt: skip
    return made
