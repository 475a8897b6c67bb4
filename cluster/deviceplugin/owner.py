"""Whose the slots are that a container starts with, and what slice it gets.  Decides only: `starts` asks and acts.

The kubelet says which container holds the slots; the pod, as the API server has it, says what was decided for that
container.  Anything that doesn't fit together is refused, in words that the kubelet shows among the pod's events.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TypedDict

from hami_hub.core.codec import WireError, decode_slices
from hami_hub.core.names import SLICES, VGPU_NODE
from hami_hub.core.slices import Placement

from .cdi import Owner

_FINISHED = {"Succeeded", "Failed"}


class Refused(Exception):
    """A container that gets no slice.

    Attributes:
        rule: a short fixed word, the metric's label.
        retry: whether asking again may help.
        text: what the person is told.
    """

    def __init__(self, rule: str, text: str, *, retry: bool = False) -> None:
        super().__init__(text)
        self.rule = rule
        self.retry = retry
        self.text = text


class _PodName(TypedDict):
    name: str
    namespace: str
    uid: str
    resourceVersion: str


class PodMeta(_PodName, total=False):
    """Of a pod's metadata, what is needed."""

    deletionTimestamp: str
    annotations: dict[str, str]


class PodSpec(TypedDict, total=False):
    """Of a pod's specification, what is needed."""

    nodeName: str


class ContainerStatus(TypedDict, total=False):
    """Of a container's status, what is needed."""

    name: str
    containerID: str


class PodStatus(TypedDict, total=False):
    """Of a pod's status, what is needed."""

    phase: str
    containerStatuses: list[ContainerStatus]


class _PodIdentity(TypedDict):
    metadata: PodMeta


class Pod(_PodIdentity, total=False):
    """A pod as the API server sends it."""

    spec: PodSpec
    status: PodStatus


@dataclass(frozen=True, slots=True)
class Assigned:
    """What the kubelet says: this container holds these slots of our resource."""

    namespace: str
    pod: str
    container: str
    slots: frozenset[str]


def is_finished(pod: Pod) -> bool:
    """Whether none of its containers runs or ever will."""
    return pod.get("status", {}).get("phase") in _FINISHED


def find_holder(assigned: Iterable[Assigned], slots: frozenset[str]) -> Assigned:
    """The one container that holds exactly `slots`.

    Raises:
        Refused: none does, or more than one.
    """
    found = [each for each in assigned if each.slots & slots]
    if len(found) == 1 and found[0].slots == slots:
        return found[0]
    if not found:
        raise Refused(
            "unknown-slots",
            "The kubelet names no container that holds these slots. A slice can't be given to an init container.",
            retry=True,
        )
    raise Refused("unclear-slots", "The kubelet names more than one container for these slots.", retry=True)


def judge(
    pod: Pod,
    holder: Assigned,
    *,
    node: str,
    healthy: Collection[str],
    ill: Mapping[str, str],
    scheduler: str,
) -> tuple[Owner, Placement]:
    """The slice that was decided for the container `holder`, and whose it is.

    Args:
        pod: as the API server has it now.
        holder: the container that starts.
        node: this node's name.
        healthy: UUIDs of this node's cards that take slices.
        ill: why each of the others doesn't.
        scheduler: name of the scheduler that places slices, for the words.

    Raises:
        Refused: it gets none.
    """
    _check_pod(pod, node)
    placement = _placement(pod, holder.container, node=node, scheduler=scheduler)
    if len(placement.shares) != len(holder.slots):
        raise Refused(
            "wrong-count",
            f"The slice has {_count(len(placement.shares))} and the container holds {_count(len(holder.slots))}. "
            "Delete the pod and make it again.",
        )
    for share in placement.shares:
        if share.uuid in ill:
            raise Refused(
                "ill-card",
                f"The card {share.uuid} of this slice is out of order ({ill[share.uuid]}). It is tried again; delete "
                "the pod to have it placed elsewhere.",
                retry=True,
            )
        if share.uuid not in healthy:
            raise Refused("unknown-card", f"Node {node} has no card {share.uuid}. Delete the pod and make it again.")
    meta = pod["metadata"]
    return Owner(meta["namespace"], meta["name"], meta["uid"], holder.container), placement


def _check_pod(pod: Pod, node: str) -> None:
    name = pod["metadata"]["name"]
    if pod.get("spec", {}).get("nodeName", "") != node:
        raise Refused("other-node", f"The pod {name} is not one of node {node}.", retry=True)
    if is_finished(pod) or pod["metadata"].get("deletionTimestamp"):
        raise Refused("finished", f"The pod {name} is ending: none of its containers starts any more.")


def _placement(pod: Pod, container: str, *, node: str, scheduler: str) -> Placement:
    annotations = pod["metadata"].get("annotations") or {}
    text = annotations.get(SLICES)
    if text is None:
        raise Refused(
            "not-placed",
            f"This pod was not placed by {scheduler}, which alone gives out slices. Leave nodeName out and set "
            f"schedulerName to {scheduler}.",
        )
    if annotations.get(VGPU_NODE, node) != node:
        raise Refused(
            "other-node",
            f"This pod's slice is on node {annotations[VGPU_NODE]} and the pod on node {node}. Delete the pod and make "
            "it again.",
        )
    try:
        slices = decode_slices(text, node=node)
    except WireError as error:
        raise Refused("unreadable", str(error)) from None
    if container not in slices:
        raise Refused(
            "no-slice", f"No slice was placed for the container {container}. Delete the pod and make it again."
        )
    return slices[container]


def _count(number: int) -> str:
    return "1 card" if number == 1 else f"{number} cards"
