"""A pod as the ledger sees it: what it asks for, what it holds, whether that counts.  Read from the pod's JSON.

Whether a new pod is let in is judged by `admission`; where it goes is decided by `fleet`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NewType

from .codec import WireError, decode_devices, decode_slices
from .names import DEVICES_ALLOCATED, SLICES, VGPU_NODE, VGPU_TIME, ResourceNames
from .quantity import milli_quantity
from .resources import RequestDefaults, node_policy, request_from_resources
from .slices import NodePolicy, Placement, SliceRequest
from .units import AmountError

PodUid = NewType("PodUid", str)

_FINISHED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRules:
    """What the scheduler's settings say about pods.

    Attributes:
        names: of the resources.
        defaults: what counts where a pod says nothing.
        scheduler_name: of the pods that hold slices.
        take_over: patterns of schedulerNames whose pods become ours; `*` stands for anything.
        node_policy: for pods that name none.
    """

    names: ResourceNames = field(default_factory=ResourceNames)
    defaults: RequestDefaults = field(default_factory=RequestDefaults)
    scheduler_name: str = "hami-scheduler"
    take_over: Sequence[str] = ("default-scheduler", "*user-scheduler")
    node_policy: NodePolicy = NodePolicy.FGD


@dataclass(frozen=True, slots=True)
class ContainerAsk:
    """A container that asks for a slice."""

    container: str
    request: SliceRequest


class Standing(str, Enum):
    """What a pod means to the ledger."""

    WAITING = "waiting"  # on no node yet
    HOLDING = "holding"  # on a node, with slices that the scheduler gave it
    FOREIGN = "foreign"  # on a node, not by our scheduler: it has no slice, but the kubelet counts slots for it
    FINISHED = "finished"  # holds nothing any more


@dataclass(frozen=True, slots=True, kw_only=True)
class PodView:
    """What is known of one pod.

    Attributes:
        node: where it is; empty while it waits.
        created: RFC 3339, UTC: sorts as text.
        asks: its containers that ask for a slice, sidecars first.
        problem: why `asks` can't be granted at all, in words; a pod that passed the webhook has none.
        containers: names of all containers, init containers first.
        slices: what its containers hold.
        placed_at: unix seconds of the decision; 0: not known.
        slots: how many of the node's `nvidia.com/gpu` the kubelet counts for it.
        cpu: what it requests of the node's CPU, in thousandths.
    """

    namespace: str
    name: str
    uid: PodUid
    node: str = ""
    phase: str = "Pending"
    terminating: bool = False
    scheduler: str = ""
    created: str = ""
    priority: int = 0
    asks: tuple[ContainerAsk, ...] = ()
    node_policy: NodePolicy = NodePolicy.FGD
    problem: str = ""
    containers: tuple[str, ...] = ()
    slices: Mapping[str, Placement] = field(default_factory=dict)
    placed_at: int = 0
    slots: int = 0
    cpu: int = 0

    @property
    def standing(self) -> Standing:
        """What the ledger is to do about it.  A terminating pod counts until it is gone."""
        if self.phase in _FINISHED:
            return Standing.FINISHED
        if not self.node:
            return Standing.WAITING
        return Standing.HOLDING if self.slices else Standing.FOREIGN


def view_pod(pod: Mapping[str, Any], rules: PodRules) -> PodView | None:
    """The pod whose JSON is `pod`; None if it asks for nothing of ours and holds nothing."""
    meta, spec = mapping(pod.get("metadata")), mapping(pod.get("spec"))
    annotations = annotations_of(pod)
    asks, problem = _asks(spec, annotations, rules)
    if not asks and not problem and SLICES not in annotations and DEVICES_ALLOCATED not in annotations:
        return None
    node = text(spec.get("nodeName"))
    containers = tuple(name_of(container) for container, _ in all_containers(spec))
    held = _held(annotations, node, containers, asks) if node else {}
    return PodView(
        namespace=text(meta.get("namespace")),
        name=text(meta.get("name")) or text(meta.get("generateName")),
        uid=PodUid(text(meta.get("uid"))),
        node=node,
        phase=text(mapping(pod.get("status")).get("phase")) or "Pending",
        terminating=bool(meta.get("deletionTimestamp")),
        scheduler=text(spec.get("schedulerName")),
        created=text(meta.get("creationTimestamp")),
        priority=spec["priority"] if isinstance(spec.get("priority"), int) else 0,
        asks=asks,
        node_policy=node_policy(annotations, rules.node_policy),
        problem=problem,
        containers=containers,
        slices=held,
        placed_at=_unix_seconds(annotations.get(VGPU_TIME)),
        slots=sum(len(placement.shares) for placement in held.values()) or _slots(spec, rules.names),
        cpu=requested_cpu(spec),
    )


def all_containers(spec: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], bool]]:
    """The containers of a pod, init containers first; True with those that run beside the others: all but the init
    containers that must end before.
    """
    for container in objects(spec.get("initContainers")):
        yield container, container.get("restartPolicy") == "Always"
    for container in objects(spec.get("containers")):
        yield container, True


def limits_of(container: Mapping[str, Any]) -> Mapping[str, object]:
    """A container's limits, completed from its requests as HAMi does."""
    resources = mapping(container.get("resources"))
    return {**mapping(resources.get("requests")), **mapping(resources.get("limits"))}


def request_of(container: Mapping[str, Any], annotations: Mapping[str, str], rules: PodRules) -> SliceRequest | None:
    """The slice that `container` asks for.

    Raises:
        AmountError: see `request_from_resources`.
    """
    limits = limits_of(container)
    if not any(name in limits for name in _amount_names(rules.names)):
        return None
    return request_from_resources(
        limits, annotations, environment_of(container), names=rules.names, defaults=rules.defaults
    )


def environment_of(container: Mapping[str, Any]) -> dict[str, str]:
    """The variables whose values are written in the pod; of two of a name the later counts."""
    return {
        text(entry.get("name")): entry["value"]
        for entry in objects(container.get("env"))
        if isinstance(entry.get("value"), str)
    }


def name_of(container: Mapping[str, Any]) -> str:
    """The container's name."""
    return text(container.get("name"))


def annotations_of(pod: Mapping[str, Any]) -> Mapping[str, str]:
    """The pod's annotations."""
    found = mapping(mapping(pod.get("metadata")).get("annotations"))
    return {key: value for key, value in found.items() if isinstance(value, str)}


def objects(value: object) -> list[Mapping[str, Any]]:
    """`value` if it is a JSON list, else an empty one; what is no object in it becomes an empty one."""
    return [mapping(item) for item in value] if isinstance(value, list) else []


def mapping(value: object) -> Mapping[str, Any]:
    """`value` if it is a JSON object, else an empty one: absent and null are the same in Kubernetes."""
    return value if isinstance(value, dict) else {}


def text(value: object) -> str:
    """`value` if it is text, else none."""
    return value if isinstance(value, str) else ""


def _asks(
    spec: Mapping[str, Any], annotations: Mapping[str, str], rules: PodRules
) -> tuple[tuple[ContainerAsk, ...], str]:
    asks = []
    for container, stays in all_containers(spec):
        try:
            request = request_of(container, annotations, rules)
        except AmountError as error:
            return (), f"Container {name_of(container)}: {error}"
        if request is None:
            continue
        if not stays:
            return (), f"The init container {name_of(container)} asks for a slice. Only containers and sidecars can."
        asks.append(ContainerAsk(name_of(container), request))
    return tuple(asks), ""


def _held(
    annotations: Mapping[str, str], node: str, containers: Sequence[str], asks: Sequence[ContainerAsk]
) -> dict[str, Placement]:
    """What the annotations give the pod on `node`; nothing if they are wrong or about another node."""
    if annotations.get(VGPU_NODE, node if SLICES not in annotations else "") != node:
        return {}
    try:
        if SLICES in annotations:
            slices = decode_slices(annotations[SLICES], node)
            return slices if slices.keys() <= set(containers) else {}
        return _held_by_hami(annotations.get(DEVICES_ALLOCATED, ""), node, containers, asks)
    except WireError:
        return {}


def _held_by_hami(
    devices: str, node: str, containers: Sequence[str], asks: Sequence[ContainerAsk]
) -> dict[str, Placement]:
    shares = decode_devices(devices)
    if len(shares) > len(containers):
        return {}
    requests = {ask.container: ask.request for ask in asks}
    held = {}
    for name, of_container in zip(containers, shares, strict=False):
        request = requests.get(name) or SliceRequest()
        if of_container:
            held[name] = Placement(of_container, priority=request.priority, policy=request.policy, node=node)
    return held


def requested_cpu(spec: Mapping[str, Any]) -> int:
    """Thousandths of a CPU that a pod requests; 0 where that can't be read."""
    return _effective(
        spec, lambda container: _amount(mapping(mapping(container.get("resources")).get("requests")), "cpu")
    )


def _slots(spec: Mapping[str, Any], names: ResourceNames) -> int:
    return _effective(spec, lambda container: _amount(limits_of(container), names.count) // 1000)


def _effective(spec: Mapping[str, Any], amount_of: Callable[[Mapping[str, Any]], int]) -> int:
    """As Kubernetes counts: containers and sidecars together, or the largest init container if that is more."""
    staying, largest = 0, 0
    for container, stays in all_containers(spec):
        amount = amount_of(container)
        largest = max(largest, staying + amount)
        staying += amount if stays else 0
    return max(largest, staying)


def _amount(amounts: Mapping[str, Any], key: str) -> int:
    quantity = amounts.get(key)
    try:
        return 0 if quantity is None else max(0, milli_quantity(quantity))
    except AmountError:
        return 0


def _amount_names(names: ResourceNames) -> tuple[str, ...]:
    return names.count, names.memory, names.memory_percentage, names.cores


def _unix_seconds(value: object) -> int:
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 12 else 0
