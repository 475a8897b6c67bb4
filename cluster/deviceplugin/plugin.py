"""The device plugin as the kubelet calls it: slots are listed, given out, and filled when their container starts."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import grpc.aio

from . import cdi
from .owner import Refused
from .protos.deviceplugin_pb2 import (
    AllocateRequest,
    AllocateResponse,
    CDIDevice,
    ContainerAllocateResponse,
    Device,
    DevicePluginOptions,
    Empty,
    ListAndWatchResponse,
    PreStartContainerRequest,
    PreStartContainerResponse,
)
from .protos.deviceplugin_pb2_grpc import DevicePluginServicer
from .slots import Slot

_log = logging.getLogger(__name__)
HEALTHY, UNHEALTHY = "Healthy", "Unhealthy"


class Offer:
    """A list for the kubelet that changes: whoever reads it meets each new state once, however many were between."""

    def __init__(self) -> None:
        self._devices: tuple[Slot, ...] | None = None
        self._changed = asyncio.Event()

    @property
    def devices(self) -> tuple[Slot, ...]:
        """What is offered now."""
        return self._devices or ()

    def set(self, devices: tuple[Slot, ...]) -> None:
        """Offer `devices`."""
        if devices != self._devices:
            self._devices = devices
            self._changed.set()
            self._changed = asyncio.Event()

    async def follow(self) -> AsyncIterator[tuple[Slot, ...]]:
        """The present state, then each new one; nothing until there is one."""
        seen: tuple[Slot, ...] | None = None
        while True:
            changed = self._changed
            if self._devices is not None and self._devices != seen:
                seen = self._devices
                yield seen
            else:
                await changed.wait()


class Outcomes:
    """What became of the starts; `metrics` shows it."""

    def started(self, seconds: float) -> None:
        """A container got its slice."""

    def refused(self, rule: str) -> None:
        """A container got none."""


class SliceService(DevicePluginServicer):
    """The service of one resource.

    Args:
        offer: what there is to be had.
        device_name: what the runtime calls a device that was given out.
        prepare: fills the slots of a container that starts, raising `Refused`; None: they need no filling.
        outcomes: told how each start went.
        lost: called when the kubelet stops listening, so that it is registered with anew.
    """

    def __init__(
        self,
        offer: Offer,
        *,
        device_name: Callable[[str], str] = cdi.device_name,
        prepare: Callable[[frozenset[str]], Awaitable[None]] | None,
        outcomes: Outcomes,
        lost: Callable[[], None],
    ) -> None:
        self._offer, self._device_name, self._prepare = offer, device_name, prepare
        self._outcomes, self._lost = outcomes, lost

    @property
    def options(self) -> DevicePluginOptions:
        """What the kubelet is to do for this resource."""
        return DevicePluginOptions(pre_start_required=self._prepare is not None)

    async def GetDevicePluginOptions(self, request: Empty, context: grpc.aio.ServicerContext) -> DevicePluginOptions:  # noqa: N802
        """See the kubelet's protocol."""
        return self.options

    async def ListAndWatch(  # noqa: N802
        self, request: Empty, context: grpc.aio.ServicerContext
    ) -> AsyncIterator[ListAndWatchResponse]:
        """See the kubelet's protocol."""
        try:
            async for devices in self._offer.follow():
                yield ListAndWatchResponse(
                    devices=[Device(ID=each.name, health=HEALTHY if each.healthy else UNHEALTHY) for each in devices]
                )
        finally:
            self._lost()

    async def Allocate(self, request: AllocateRequest, context: grpc.aio.ServicerContext) -> AllocateResponse:  # noqa: N802
        """See the kubelet's protocol.  Whose the devices are isn't known yet: they only get their names."""
        return AllocateResponse(
            container_responses=[
                ContainerAllocateResponse(
                    cdi_devices=[CDIDevice(name=self._device_name(device)) for device in sorted(each.devices_ids)]
                )
                for each in request.container_requests
            ]
        )

    async def PreStartContainer(  # noqa: N802
        self, request: PreStartContainerRequest, context: grpc.aio.ServicerContext
    ) -> PreStartContainerResponse:
        """See the kubelet's protocol.  A failure is told among the pod's events, and the kubelet tries again."""
        if self._prepare is None:
            return PreStartContainerResponse()
        slots = frozenset(request.devices_ids)
        begun = time.monotonic()
        try:
            await self._prepare(slots)
        except Refused as refusal:
            self._outcomes.refused(refusal.rule)
            _log.warning("No slice for %s: %s", ", ".join(sorted(slots)), refusal.text)
            code = grpc.StatusCode.UNAVAILABLE if refusal.retry else grpc.StatusCode.FAILED_PRECONDITION
            await context.abort(code, refusal.text)
        except Exception:
            self._outcomes.refused("internal")
            _log.exception("No slice for %s", ", ".join(sorted(slots)))
            await context.abort(
                grpc.StatusCode.INTERNAL,
                "The slice could not be made. The plugin's log on this node says why.",
            )
        self._outcomes.started(time.monotonic() - begun)
        return PreStartContainerResponse()
