"""What the kubelet says of its containers: which holds which slots.

Many containers may start at once, and the kubelet answers a limited number of questions a second: those who ask while a
question is on its way share the next one.  Whose question was on its way already could get an answer from before.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import grpc.aio

from .owner import Assigned, Refused
from .protos.podresources_pb2 import ListPodResourcesRequest, ListPodResourcesResponse
from .protos.podresources_pb2_grpc import PodResourcesListerStub

_TIMEOUT = 5.0
_TRIES, _PAUSE = 5, 0.05
_MANY_PODS = 16 << 20  # bytes of one answer; the library's own 4 MiB are not enough for every node


class PodResources:
    """The kubelet's PodResources API.

    Args:
        socket: the kubelet's, which it makes anew at each start.
        resource: the extended resource whose devices are slots.
    """

    def __init__(self, socket: Path, resource: str) -> None:
        options = [
            ("grpc.max_receive_message_length", _MANY_PODS),
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.max_reconnect_backoff_ms", 1000),
        ]
        self._channel = grpc.aio.insecure_channel(f"unix://{socket}", options=options)
        self._stub = PodResourcesListerStub(self._channel)
        self._resource = resource
        self._asking: asyncio.Task[tuple[Assigned, ...]] | None = None
        self._next: asyncio.Task[tuple[Assigned, ...]] | None = None

    async def assigned(self) -> tuple[Assigned, ...]:
        """All containers with slots, as they were at some time after this call.

        Raises:
            Refused: the kubelet doesn't answer.
        """
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask())
            return await asyncio.shield(self._asking)
        if self._next is None:
            self._next = asyncio.create_task(self._ask_after(self._asking))
        return await asyncio.shield(self._next)

    async def close(self) -> None:
        """End the connection."""
        await self._channel.close()

    async def _ask_after(self, earlier: asyncio.Task[tuple[Assigned, ...]]) -> tuple[Assigned, ...]:
        await asyncio.wait([earlier])
        self._asking, self._next = self._next, None
        return await self._ask()

    async def _ask(self) -> tuple[Assigned, ...]:
        for attempt in range(_TRIES):
            try:
                answer = await self._stub.List(ListPodResourcesRequest(), timeout=_TIMEOUT, wait_for_ready=True)
                return assignments(answer, self._resource)
            except grpc.aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED or attempt == _TRIES - 1:
                    raise Refused(
                        "kubelet", f"The kubelet doesn't say whose slots these are: {error.details()}.", retry=True
                    ) from None
            await asyncio.sleep(_PAUSE * 2**attempt)
        raise AssertionError


def assignments(answer: ListPodResourcesResponse, resource: str) -> tuple[Assigned, ...]:
    """The containers in the kubelet's answer that hold slots of `resource`."""
    return tuple(
        Assigned(pod.namespace, pod.name, container.name, slots)
        for pod in answer.pod_resources
        for container in pod.containers
        if (
            slots := frozenset(
                slot
                for devices in container.devices
                if devices.resource_name == resource
                for slot in devices.device_ids
            )
        )
    )
