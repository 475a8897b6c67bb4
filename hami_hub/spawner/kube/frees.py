"""By when a slice comes free in the cluster that would help somebody who waits: of this hub's own servers it is known.

Pure: from pods as the API server has them, cards as the scheduler tells of them, and the hub's books.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from ...core.cards import CardState
from ...core.line import Frees, next_freed
from ...core.names import ResourceNames
from ...core.resources import request_from_resources
from ...core.slices import SliceId, SliceRequest
from ...core.units import AmountError
from .pod import placement_of
from .stage import SERVER_CONTAINER, Json

# KubeSpawner's annotations of a pod
_USER, _SERVER = "hub.jupyter.org/username", "hub.jupyter.org/servername"


def frees_for(
    pod: Json,
    request: SliceRequest | None,
    pods: Iterable[Json],
    nodes: Iterable[Collection[CardState]],
    ends: Mapping[SliceId, float],
) -> Frees | None:
    """What a time limit frees next; None: nothing that would help, or nobody knows.

    Args:
        pod: waits.
        request: what it waits for.
        pods: of this hub's servers.
        nodes: the cluster's cards, those of one node together.
        ends: Unix time when this hub's servers end by their time limits, of those that have one.
    """
    if request is None or _picks_nodes(pod):
        return None
    holders = {_holder(each): placed for each in pods if (placed := placement_of(each)) is not None}
    return next_freed(request, ([state.card for state in cards] for cards in nodes), holders, ends)


def request_of(pod: Json, names: ResourceNames) -> SliceRequest | None:
    """What the server's container asks for; None if nothing of ours, or nothing that can be read."""
    containers = (pod.get("spec") or {}).get("containers") or ()
    limits = next((_limits(each) for each in containers if each.get("name") == SERVER_CONTAINER), {})
    try:
        return request_from_resources(limits, pod.get("metadata", {}).get("annotations"), names=names)
    except AmountError:
        return None


def _limits(container: Json) -> Json:
    return (container.get("resources") or {}).get("limits") or {}


def _holder(pod: Json) -> SliceId:
    annotations = pod.get("metadata", {}).get("annotations") or {}
    return SliceId(f"{annotations.get(_USER, '')}/{annotations.get(_SERVER, '')}")


def _picks_nodes(pod: Json) -> bool:
    """Whether only some nodes will do, by what the hub can't see of them."""
    spec = pod.get("spec") or {}
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    return bool(spec.get("nodeSelector") or affinity.get("requiredDuringSchedulingIgnoredDuringExecution"))
