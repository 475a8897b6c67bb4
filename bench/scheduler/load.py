"""The benchmark's own client: creates many objects quickly, and sees on a watch when pods are bound."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from cluster.apiserver import ApiServer
from cluster.scheduler.shapes import Pod
from cluster.watch import Watch

from .objects import SLOTS, VRAM

PODS, NODES = "/api/v1/namespaces/default/pods", "/api/v1/nodes"
_AT_ONCE = 16
T = TypeVar("T")


async def each(items: Iterable[T], work: Callable[[T], Awaitable[object]], at_once: int = _AT_ONCE) -> None:
    """`work` on all of `items`, so many at once."""
    waiting = iter(items)

    async def worker() -> None:
        for item in waiting:
            await work(item)

    await asyncio.gather(*(worker() for _ in range(at_once)))


async def create(api: ApiServer, path: str, manifests: Iterable[dict[str, Any]]) -> None:
    """All of them; no order is promised."""

    async def one(manifest: dict[str, Any]) -> None:
        await api.request("POST", path, json.dumps(manifest).encode(), timeout=120)

    await each(manifests, one)


async def create_nodes(api: ApiServer, manifests: Iterable[dict[str, Any]]) -> None:
    """Nodes that pods may go to at once: a new node is tainted as not ready until somebody says otherwise."""

    async def one(manifest: dict[str, Any]) -> None:
        await api.request("POST", NODES, json.dumps(manifest).encode(), timeout=120)
        path = f"{NODES}/{manifest['metadata']['name']}"
        patch = b'{"spec":{"taints":null}}'
        await api.request("PATCH", path, patch, content_type="application/merge-patch+json", timeout=120)

    await each(manifests, one)


async def all_items(api: ApiServer, path: str) -> list[dict[str, Any]]:
    """A whole list."""
    return list(json.loads(await api.request("GET", path, timeout=120))["items"])


class Bound:
    """When each pod was first seen with a node, and which."""

    def __init__(self, wanted: int) -> None:
        self.at: dict[str, float] = {}
        self.node: dict[str, str] = {}
        self.all = asyncio.Event()
        self._wanted = wanted

    def begin_list(self) -> None:
        """Part of a sink."""

    def end_list(self) -> None:
        """Part of a sink."""

    def drop(self, obj: Pod) -> None:
        """Part of a sink."""

    def put(self, obj: Pod) -> None:
        """A pod as it is now."""
        name, on = obj["metadata"]["name"], obj["spec"].get("nodeName")
        if on and name not in self.at and name.startswith("e2e-"):
            self.at[name], self.node[name] = time.time(), on
            if len(self.at) >= self._wanted:
                self.all.set()


async def watch_bound(api: ApiServer, wanted: int) -> tuple[Bound, asyncio.Task[None]]:
    """A watch that fills a `Bound`; its list is read when this returns."""
    bound = Bound(wanted)
    watch = Watch(api, PODS, Pod, bound, name="bound pods")
    task = asyncio.create_task(watch.run())
    await watch.synced.wait()
    return bound, task


def over_committed(pods: Iterable[dict[str, Any]]) -> int:
    """How many cards were promised more than they have, by the annotation that both HAMi and we write."""
    held: dict[str, list[int]] = {}
    for pod in pods:
        if pod["spec"].get("nodeName"):
            text = pod["metadata"].get("annotations", {}).get("hami.io/vgpu-devices-allocated", "")
            for part in filter(None, text.replace(";", "").split(":")):
                uuid, _vendor, vram, cores = part.split(",")
                sums = held.setdefault(uuid, [0, 0, 0])
                for index, amount in enumerate((1, int(vram), int(cores))):
                    sums[index] += amount
    return sum(slices > SLOTS or vram > VRAM or cores > 100 for slices, vram, cores in held.values())


async def events(api: ApiServer) -> Counter[str]:
    """How often each reason was told."""
    found: Counter[str] = Counter()
    for event in await all_items(api, "/api/v1/namespaces/default/events"):
        found[event["reason"]] += event.get("count") or (event.get("series") or {}).get("count") or 1
    return found
