"""How many devices a kubelet itself would give out now.

The API server's node says so too, but only every ten seconds: for so long it goes on telling of a plugin that is away.
Meanwhile the kubelet turns pods away for good.
"""

from __future__ import annotations

import grpc
from google.protobuf.empty_pb2 import Empty
from google.protobuf.unknown_fields import UnknownFieldSet

from cluster.deviceplugin.protos.podresources_pb2 import ContainerDevices
from tests.cluster.rig import Node

_SOCKET = "/var/lib/kubelet/pod-resources/kubelet.sock"
_DEVICES = 1  # AllocatableResourcesResponse.devices


def slots(node: Node, resource: str) -> int:
    """The healthy devices of a resource, those in use included; -1 while the kubelet doesn't answer."""
    with grpc.insecure_channel(f"unix://{node.path(_SOCKET)}") as channel:
        ask = channel.unary_unary("/v1.PodResourcesLister/GetAllocatableResources", Empty.SerializeToString)
        try:
            answer = ask(Empty(), timeout=10)
        except grpc.RpcError:
            return -1
    fields = UnknownFieldSet(Empty.FromString(answer))
    devices = [ContainerDevices.FromString(each.data) for each in fields if each.field_number == _DEVICES]
    return sum(len(each.device_ids) for each in devices if each.resource_name == resource)
