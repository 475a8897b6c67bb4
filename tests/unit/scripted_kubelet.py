"""A kubelet that does what a test says: real sockets, real gRPC, the kubelet's own order of calls."""

from __future__ import annotations

import asyncio
import contextlib
import random
from dataclasses import dataclass, field
from pathlib import Path

import grpc.aio

from cluster.deviceplugin.protos import deviceplugin_pb2 as plugin_api
from cluster.deviceplugin.protos import podresources_pb2 as resources_api
from cluster.deviceplugin.protos.deviceplugin_pb2_grpc import (
    DevicePluginStub,
    RegistrationServicer,
    add_RegistrationServicer_to_server,
)
from cluster.deviceplugin.protos.podresources_pb2_grpc import (
    PodResourcesListerServicer,
    add_PodResourcesListerServicer_to_server,
)

Container = tuple[str, str, str]  # namespace, pod, container


@dataclass
class ScriptedKubelet(RegistrationServicer, PodResourcesListerServicer):
    """One kubelet; `start` and `stop` are its restarts.

    Attributes:
        folder: its root.
        devices: by resource, what was listed last: name and health.
        held: which container holds which devices.
        unnamed: those of them that it doesn't tell of.
        questions: how often it was asked for its pods.
        busy: so many questions are turned away.
    """

    folder: Path
    devices: dict[str, dict[str, str]] = field(default_factory=dict)
    held: dict[Container, tuple[str, frozenset[str]]] = field(default_factory=dict)
    options: dict[str, plugin_api.DevicePluginOptions] = field(default_factory=dict)
    registrations: int = 0
    questions: int = 0
    busy: int = 0
    unnamed: set[Container] = field(default_factory=set)
    _stubs: dict[str, DevicePluginStub] = field(default_factory=dict)
    _channels: list[grpc.aio.Channel] = field(default_factory=list)
    _servers: list[grpc.aio.Server] = field(default_factory=list)
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)

    @property
    def sockets(self) -> Path:
        return self.folder / "device-plugins"

    async def start(self) -> None:
        """Come up: every socket in the folder goes, as the kubelet does it."""
        self.sockets.mkdir(parents=True, exist_ok=True)
        (self.folder / "pod-resources").mkdir(exist_ok=True)
        for path in (*self.sockets.iterdir(), *(self.folder / "pod-resources").iterdir()):
            path.unlink()
        self.devices.clear()
        for socket, add in (
            (self.sockets / "kubelet.sock", add_RegistrationServicer_to_server),
            (self.folder / "pod-resources/kubelet.sock", add_PodResourcesListerServicer_to_server),
        ):
            server = grpc.aio.server()
            add(self, server)
            server.add_insecure_port(f"unix://{socket}")
            await server.start()
            self._servers.append(server)

    async def stop(self) -> None:
        """Be gone, with all streams; the sockets stay, as after a SIGKILL."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for channel in self._channels:
            await channel.close()
        for server in self._servers:
            await server.stop(None)
        for kept in (self._tasks, self._channels, self._servers):
            kept.clear()
        self._stubs.clear()

    async def Register(self, request: plugin_api.RegisterRequest, context: object) -> plugin_api.Empty:  # noqa: N802
        channel = grpc.aio.insecure_channel(f"unix://{self.sockets / request.endpoint}")
        stub = DevicePluginStub(channel)
        self.options[request.resource_name] = await stub.GetDevicePluginOptions(plugin_api.Empty())
        assert self.options[request.resource_name] == request.options
        self._channels.append(channel)
        self._stubs[request.resource_name] = stub
        self._tasks.append(asyncio.create_task(self._listen(request.resource_name, stub)))
        self.registrations += 1
        return plugin_api.Empty()

    async def _listen(self, resource: str, stub: DevicePluginStub) -> None:
        with contextlib.suppress(grpc.aio.AioRpcError):
            async for listed in stub.ListAndWatch(plugin_api.Empty()):
                self.devices[resource] = {device.ID: device.health for device in listed.devices}

    async def List(  # noqa: N802
        self, request: resources_api.ListPodResourcesRequest, context: grpc.aio.ServicerContext
    ) -> resources_api.ListPodResourcesResponse:
        self.questions += 1
        if self.busy:
            self.busy -= 1
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit")
        pods: dict[tuple[str, str], resources_api.PodResources] = {}
        for (namespace, pod, container), (resource, devices) in self.held.items():
            if (namespace, pod, container) in self.unnamed:
                continue
            listed = pods.setdefault((namespace, pod), resources_api.PodResources(name=pod, namespace=namespace))
            held = resources_api.ContainerDevices(resource_name=resource, device_ids=devices)
            listed.containers.append(resources_api.ContainerResources(name=container, devices=[held]))
        return resources_api.ListPodResourcesResponse(pod_resources=list(pods.values()))

    async def admit(self, resource: str, container: Container, count: int = 1) -> list[str]:
        """Give `count` healthy devices to a container; returns their names for the runtime."""
        taken = {device for _, devices in self.held.values() for device in devices}
        free = [name for name, health in self.devices[resource].items() if health == "Healthy" and name not in taken]
        chosen = random.sample(free, count)
        self.held[container] = (resource, frozenset(chosen))
        asked = plugin_api.AllocateRequest(container_requests=[plugin_api.ContainerAllocateRequest(devices_ids=chosen)])
        answer = await self._stubs[resource].Allocate(asked)
        return [device.name for device in answer.container_responses[0].cdi_devices]

    async def start_container(self, container: Container) -> None:
        """Raises grpc.aio.AioRpcError with what would stand among the pod's events."""
        resource, devices = self.held[container]
        shuffled = random.sample(sorted(devices), len(devices))
        await self._stubs[resource].PreStartContainer(plugin_api.PreStartContainerRequest(devices_ids=shuffled))

    def end(self, container: Container) -> None:
        del self.held[container]
