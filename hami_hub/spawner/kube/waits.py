"""Why a start's pod waits: the scheduler's word for it, with what frees next as far as the hub knows.

When to ask, and what the person is told of it, is `watch`'s; what would help is worked out in `frees`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace

from ...core.line import Frees
from ...core.names import ResourceNames
from ...core.slices import SliceId, SliceRequest
from .cluster import GpuCluster, Waiting
from .frees import frees_for, request_of
from .own_pod import OwnPod

_FREES_SECONDS = 10.0  # what frees next is looked for so seldom: among all servers, for each one that waits


class WhyWaiting:
    """Asks for one pod.

    Args:
        namespace: the hub's.
        request: what the pod asks for; by its resources' names: that is read from the pod.
        ends: Unix time when this hub's servers end by their time limits; when others end, nobody knows.
    """

    def __init__(
        self,
        own: OwnPod,
        cluster: GpuCluster,
        namespace: str,
        request: SliceRequest | ResourceNames,
        ends: Callable[[], Mapping[SliceId, float]],
    ) -> None:
        self._own, self._cluster, self._namespace = own, cluster, namespace
        self._request, self._ends = request, ends
        self._frees: Frees | None = None
        self._frees_until = 0.0  # it is looked for again then

    async def ask(self) -> Waiting | None:
        """None: the scheduler can't say."""
        said = await self._cluster.waiting(self._own.namespace, self._own.name, self._namespace)
        if said is None or not said.reason:
            return said
        now = asyncio.get_running_loop().time()
        if now >= self._frees_until:
            self._frees, self._frees_until = self._next_freed(), now + _FREES_SECONDS
        return replace(said, frees=self._frees)

    def _next_freed(self) -> Frees | None:
        pod, asks = self._own.now(), self._request
        if pod is None:
            return None
        request = request_of(pod, asks) if isinstance(asks, ResourceNames) else asks
        return frees_for(pod, request, self._own.and_others(), self._cluster.last.nodes.values(), self._ends())
