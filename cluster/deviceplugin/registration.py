"""One resource's place at the kubelet: its socket served and registered, and again whenever the kubelet was restarted.

A kubelet that starts removes every socket in its folder and forgets every plugin.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
from collections.abc import Callable
from pathlib import Path

import grpc.aio

from .plugin import SliceService
from .protos.deviceplugin_pb2 import RegisterRequest
from .protos.deviceplugin_pb2_grpc import RegistrationStub, add_DevicePluginServicer_to_server

_log = logging.getLogger(__name__)
KUBELET_SOCKET = "kubelet.sock"
_VERSION = "v1beta1"
_LOOK_SECONDS = 0.5
_PAUSE_SECONDS = 0.5
_ANSWER_SECONDS = 10.0


class Registration:
    """Keeps one resource registered.

    Args:
        folder: the kubelet's folder of sockets.
        resource: name of the extended resource.
        service: makes the service, given what to call when the kubelet stops listening.
        changed: called when `registered` changes.

    Attributes:
        registered: whether the kubelet knows of us.
    """

    def __init__(
        self,
        folder: Path,
        resource: str,
        service: Callable[[Callable[[], None]], SliceService],
        *,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._folder, self._resource, self._changed = folder, resource, changed
        self._endpoint = f"hami-{re.sub(r'[^a-zA-Z0-9.-]', '_', resource)}.sock"
        self._service = service
        self.registered = False

    async def run(self) -> None:
        """Serve and register, for as long as this isn't cancelled."""
        complained = False
        while True:
            try:
                await self._once()
                complained = False
            except (grpc.aio.AioRpcError, OSError, RuntimeError) as error:
                if not complained:
                    _log.warning("Not registered with the kubelet for %s: %s", self._resource, _why(error))
                    complained = True
            self._set(False)
            await asyncio.sleep(_PAUSE_SECONDS if complained else 0)

    async def _once(self) -> None:
        """Serve, register, and return when the kubelet must be met anew."""
        socket = self._folder / self._endpoint
        socket.unlink(missing_ok=True)
        kubelet = _identity(self._folder / KUBELET_SOCKET)
        if kubelet is None:
            raise FileNotFoundError(f"there is no {self._folder / KUBELET_SOCKET}")
        lost = asyncio.Event()  # of this session: a stream of the one before may end late
        service = self._service(lost.set)
        server = grpc.aio.server()
        add_DevicePluginServicer_to_server(service, server)
        server.add_insecure_port(f"unix://{socket}")
        await server.start()
        try:
            own = _identity(socket)
            await self._register(service)
            self._set(True)
            _log.info("Registered with the kubelet for %s", self._resource)
            while (_identity(self._folder / KUBELET_SOCKET), _identity(socket)) == (kubelet, own):
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(lost.wait(), _LOOK_SECONDS)
                    break
            _log.info("The kubelet was restarted, or stopped listening for %s", self._resource)
        finally:
            await server.stop(grace=None)
            socket.unlink(missing_ok=True)

    async def _register(self, service: SliceService) -> None:
        async with grpc.aio.insecure_channel(f"unix://{self._folder / KUBELET_SOCKET}") as channel:
            await RegistrationStub(channel).Register(
                RegisterRequest(
                    version=_VERSION,
                    endpoint=self._endpoint,
                    resource_name=self._resource,
                    options=service.options,
                ),
                timeout=_ANSWER_SECONDS,
            )

    def _set(self, registered: bool) -> None:
        if registered != self.registered:
            self.registered = registered
            self._changed()


def _identity(socket: Path) -> tuple[int, int, int] | None:
    """What tells a socket from another one of its name."""
    try:
        status = os.stat(socket)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_ctime_ns


def _why(error: Exception) -> str:
    return str(error.details()) if isinstance(error, grpc.aio.AioRpcError) else str(error)
