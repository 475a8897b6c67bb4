"""A slice request put on to the pod that KubeSpawner has made, and read back from a pod that has its slice.

Nothing of a start is kept on the spawner itself: what one profile asked for can't leak into the next start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from kubernetes_asyncio.client import V1EnvVar, V1Pod, V1ResourceRequirements, V1Toleration

from ...core.budgets import Asked, asked_of
from ...core.cards import Card
from ...core.codec import WireError, decode_slices
from ...core.language import in_english
from ...core.messages import describe_request
from ...core.names import ENV_NVIDIA_VISIBLE_DEVICES, QUOTA_GROUP_LABEL, SLICES, ResourceNames, label_value
from ...core.resources import (
    annotations_from_request,
    environment_from_request,
    request_from_resources,
    resources_from_request,
)
from ...core.slices import Placement, SliceRequest
from ...core.units import Mib
from .stage import SERVER_CONTAINER, Json

PROFILE_LABEL = "hami.io/profile"
ASKS_ANNOTATION = "hami.io/asks"


@dataclass(frozen=True, slots=True)
class Asks:
    """What a server's pod is to ask for.

    Attributes:
        profile: name of the profile it was started with.
        request: None: no GPU.
        scheduler: schedulerName for a pod with a GPU.
        group: who pays for it; "": no group.
    """

    profile: str
    request: SliceRequest | None
    scheduler: str
    names: ResourceNames = field(default_factory=ResourceNames)
    group: str = ""


def ask(pod: V1Pod, asks: Asks) -> V1Pod:
    """Make `pod` ask for exactly that: what else it names of our resources is dropped."""
    container = server_container(pod)
    resources = _resources(container)
    limits, requests = dict(resources.limits or {}), dict(resources.requests or {})
    for name in _all(asks.names):
        limits.pop(name, None)
        requests.pop(name, None)
    pod.metadata.labels = {**(pod.metadata.labels or {}), PROFILE_LABEL: asks.profile}
    if asks.request is None:
        # Images made for CUDA ask for every card of the node, where its runtime heeds that.
        container.env = _with(container.env or [], {ENV_NVIDIA_VISIBLE_DEVICES: "void"})
    else:
        label_payer(pod, asks.group)
        limits |= resources_from_request(asks.request, asks.names)
        # A cluster that lets in only requests which are said, like one with a quota on them, wants them twice.
        requests |= resources_from_request(asks.request, asks.names)
        pod.metadata.annotations = {
            **(pod.metadata.annotations or {}),
            **annotations_from_request(asks.request),
            ASKS_ANNOTATION: in_english(describe_request(asks.request)),
        }
        container.env = _with(container.env or [], _own_environment(asks.request))
        _to_gpu_nodes(pod, asks.names, asks.scheduler)
    resources.limits, resources.requests = limits, requests
    container.resources = resources
    return pod


def send_to_gpu_scheduler(pod: V1Pod, names: ResourceNames, scheduler: str) -> V1Pod:
    """Have a pod whose resources somebody else has set placed by the GPU scheduler, if any of them is ours."""
    containers = [*pod.spec.containers, *(pod.spec.init_containers or [])]
    if any(set(_resources(container).limits or {}) & set(_all(names)) for container in containers):
        _to_gpu_nodes(pod, names, scheduler)
    return pod


def label_payer(pod: V1Pod, group: str) -> None:
    """Say on `pod` which group pays for it, for whoever adds up what pods cost; "": no group."""
    if group:
        pod.metadata.labels = {**(pod.metadata.labels or {}), QUOTA_GROUP_LABEL: label_value(group)}


def asked_by(pod: V1Pod, user: str, profile: str, names: ResourceNames, cards: Sequence[Card]) -> Asked:
    """What the containers of a pod, whose resources somebody else has set, ask for together.

    Raises:
        AmountError: an amount that is none.
    """
    requests = [
        _request_of(container, names) for container in (*pod.spec.containers, *(pod.spec.init_containers or ()))
    ]
    asked = [asked_of(user, profile, request, cards) for request in requests]
    known = all(each.vram is not None for each in asked)
    return Asked(
        user,
        profile,
        sum(each.cards for each in asked),
        Mib(sum(each.vram or 0 for each in asked)) if known else None,
        sum(each.cores for each in asked),
    )


def _request_of(container: Any, names: ResourceNames) -> SliceRequest | None:
    return request_from_resources(_resources(container).limits or {}, names=names)


def server_container(pod: V1Pod) -> Any:
    """The container that is the server."""
    return next(each for each in pod.spec.containers if each.name == SERVER_CONTAINER)


def placement_of(pod: Json) -> Placement | None:
    """The slice that the scheduler gave the server's container; None if it says nothing that can be read."""
    annotations = pod.get("metadata", {}).get("annotations") or {}
    text = annotations.get(SLICES)
    if not text:
        return None
    try:
        return _decoded(text, (pod.get("spec") or {}).get("nodeName") or "")
    except WireError:
        return None


@lru_cache(4096)  # of each running server, again and again for whoever waits
def _decoded(text: str, node: str) -> Placement | None:
    return decode_slices(text, node=node).get(SERVER_CONTAINER)


def _to_gpu_nodes(pod: V1Pod, names: ResourceNames, scheduler: str) -> None:
    pod.spec.scheduler_name = scheduler
    # Nodes with GPUs are usually kept free of other pods by a taint of the resource's name.
    pod.spec.tolerations = [
        *(pod.spec.tolerations or []),
        V1Toleration(key=names.count, operator="Exists", effect="NoSchedule"),
    ]


def _own_environment(request: SliceRequest) -> dict[str, str]:
    """What the profile itself says; for the rest the cluster's settings hold."""
    usual = environment_from_request(SliceRequest())
    return {key: value for key, value in environment_from_request(request).items() if value != usual[key]}


def _with(env: list[V1EnvVar], more: Mapping[str, str]) -> list[V1EnvVar]:
    kept = [each for each in env if each.name not in more]
    return [*kept, *(V1EnvVar(name=name, value=value) for name, value in more.items())]


def _resources(container: Any) -> Any:
    """Of a container that an admin may have written as an object or as a dictionary."""
    found = container.resources or {}
    if isinstance(found, Mapping):
        return V1ResourceRequirements(limits=found.get("limits"), requests=found.get("requests"))
    return found


def _all(names: ResourceNames) -> tuple[str, ...]:
    return names.count, names.memory, names.memory_percentage, names.cores, names.priority
