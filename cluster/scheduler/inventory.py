"""The cluster's cards, slices and queue as JSON: what the hub's form and dashboard ask.  Reads the books, changes
nothing.

The hub's side is `hami_hub.core.inventory`; `inventory_http` says who may ask.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any, Literal, NamedTuple

import msgspec

from hami_hub.core.cards import CardState
from hami_hub.core.explanation import no_room_to_json
from hami_hub.core.messages import describe_pod, why_no_node
from hami_hub.core.nodes import FleetNoRoom, Holding
from hami_hub.core.pods import ContainerAsk, PodUid, PodView
from hami_hub.core.slices import CardShare, NodePolicy, Placement

from .books import Books


class _Json(msgspec.Struct, frozen=True, rename="camel"):
    """Keys as everywhere in Kubernetes."""


class CardEntry(_Json, frozen=True):
    """A card; VRAM in MiB, cores in percent."""

    uuid: str
    index: int
    model: str
    vram: int
    split_count: int
    healthy: bool
    used_vram: int
    used_cores: int
    slices: int
    exclusive: bool


class NodeEntry(_Json, frozen=True):
    """A node with cards, or with a list of cards that can't be read (`problem`)."""

    name: str
    ready: bool
    problem: str | None
    cards: list[CardEntry]


class ShareEntry(_Json, frozen=True):
    """One card's part of a slice."""

    uuid: str
    vram: int
    cores: int
    exclusive: bool
    whole: bool


class SliceEntry(_Json, frozen=True):
    """One container's slice.  `since`: RFC 3339, "" if it isn't known; `bound` False: only reserved."""

    namespace: str
    pod: str
    uid: str
    container: str
    node: str
    shares: list[ShareEntry]
    priority: int
    since: str
    bound: bool


class QueueEntry(_Json, frozen=True):
    """A pod that waits; `place` counts from 1."""

    namespace: str
    pod: str
    uid: str
    place: int
    since: str
    asks: str
    reason: str | None
    never: bool


class Inventory(_Json, frozen=True):
    """Everything."""

    at: str
    nodes: list[NodeEntry]
    slices: list[SliceEntry]
    queue: list[QueueEntry]


class PodState(_Json, frozen=True):
    """Where one pod stands.  `reason` and `never` are about a pod that waits; `why` is what the reason is made of, for
    whoever says it in another language (`core.explanation`).
    """

    state: Literal["waiting", "reserved", "bound", "unknown"]
    place: int | None = None
    of: int | None = None
    node: str | None = None
    reason: str | None = None
    never: bool = False
    why: dict[str, Any] | None = None


class Why(NamedTuple):
    """Why a pod waits."""

    reason: str | None
    never: bool
    no_room: FleetNoRoom | None = None


def inventory(books: Books, now: datetime) -> Inventory:
    """All of it, as the books are at `now`."""
    why = _explainer(books)
    queue = books.queue()
    return Inventory(
        at=_rfc3339(now.timestamp()),
        nodes=[_node(books, name) for name in sorted(books.nodes)],
        slices=[
            _slice(holding, container, placement)
            for holding in books.fleet.holdings()
            for container, placement in holding.slices.items()
        ],
        queue=[_queued(view, place, why(view)) for place, view in enumerate(queue, 1)],
    )


def pod_state(books: Books, namespace: str, name: str) -> PodState:
    """Where the pod stands; unknown: it has nothing of ours, or isn't there."""
    uid = books.uid_of(namespace, name)
    if uid is None:
        return PodState(state="unknown")
    if uid in books.bound:
        return PodState(state="bound", node=books.bound[uid])
    view = books.waiting.get(uid)
    if view is None:
        return PodState(state="unknown")
    held = _reserved(books, uid)
    if held is not None:
        return PodState(state="reserved", node=held)
    queue = books.queue()
    why = _explainer(books)(view)
    return PodState(
        state="waiting",
        place=queue.index(view) + 1,
        of=len(queue),
        reason=why.reason,
        never=why.never,
        why=no_room_to_json(why.no_room) if why.no_room is not None else None,
    )


def _explainer(books: Books) -> Callable[[PodView], Why]:
    """Why a pod waits: the last word to kube-scheduler, or what it would be now.

    Only the leader's neighbour is asked by kube-scheduler; the other replica says the same by trying.
    """
    tried: dict[tuple[tuple[ContainerAsk, ...], NodePolicy], Why] = {}

    def why(view: PodView) -> Why:
        if view.problem:
            return Why(view.problem, True)
        said = books.refused.get(view.uid)
        if said is not None:
            return Why(said.text, said.never, said.no_room)
        key = view.asks, view.node_policy
        if key not in tried:
            verdict = books.fleet.try_place(view)
            no_room = verdict if isinstance(verdict, FleetNoRoom) else None
            tried[key] = Why(why_no_node(no_room), no_room.never, no_room) if no_room else Why(None, False)
        return tried[key]

    return why


def _reserved(books: Books, uid: PodUid) -> str | None:
    return next((holding.node for holding in books.fleet.holdings() if holding.uid == uid), None)


def _node(books: Books, name: str) -> NodeEntry:
    record = books.nodes[name]
    return NodeEntry(
        name=name,
        ready=record.ready,
        problem=record.problem,
        cards=[_card(state) for state in books.fleet.states(name)],
    )


def _card(state: CardState) -> CardEntry:
    card = state.card
    return CardEntry(
        uuid=card.uuid,
        index=card.index,
        model=card.model,
        vram=card.vram,
        split_count=card.split_count,
        healthy=card.healthy,
        used_vram=state.used_vram,
        used_cores=state.used_cores,
        slices=state.slices,
        exclusive=state.exclusive,
    )


def _slice(holding: Holding, container: str, placement: Placement) -> SliceEntry:
    return SliceEntry(
        namespace=holding.namespace,
        pod=holding.name,
        uid=holding.uid,
        container=container,
        node=holding.node,
        shares=[_share(share) for share in placement.shares],
        priority=int(placement.priority),
        since=_rfc3339(holding.since) if holding.since else "",
        bound=holding.bound,
    )


def _share(share: CardShare) -> ShareEntry:
    return ShareEntry(uuid=share.uuid, vram=share.vram, cores=share.cores, exclusive=share.exclusive, whole=share.whole)


def _queued(view: PodView, place: int, why: Why) -> QueueEntry:
    return QueueEntry(
        namespace=view.namespace,
        pod=view.name,
        uid=view.uid,
        place=place,
        since=view.created,
        asks=describe_pod(view.asks),
        reason=why.reason,
        never=why.never,
    )


def _rfc3339(at: float) -> str:
    return datetime.fromtimestamp(at, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
