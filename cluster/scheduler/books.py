"""What the scheduler knows of the cluster: the fleet of cards, and the pods that hold slices of it or wait for one.

Fed by two watches, asked by everything else.  The arithmetic is `hami_hub.core.fleet`'s; this keeps it beside the pods'
names and tells who waits when room may have come free.  One event loop owns it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from hami_hub.core.cards import Card
from hami_hub.core.codec import WireError, cards_of_node
from hami_hub.core.fleet import Fleet
from hami_hub.core.names import DEVICE_CORDON, NODE_REGISTER
from hami_hub.core.nodes import FleetNoRoom
from hami_hub.core.pods import PodRules, PodUid, PodView, Standing, view_pod
from hami_hub.core.quantity import milli_quantity, whole_quantity
from hami_hub.core.units import AmountError

from .shapes import Node, Pod

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """What is kept of a node beside its cards.

    Attributes:
        ready: the kubelet says so.
        problem: why its cards take no slice although it should have some; a sentence.
        read: what its cards were made from; the same again needs no second look.
    """

    ready: bool
    problem: str | None
    read: int


@dataclass(frozen=True, slots=True)
class Refused:
    """What a pod was told that has no room: when (`time.monotonic`), in which words, whether it can ever have some,
    and what the words are made of.
    """

    at: float
    text: str
    never: bool
    no_room: FleetNoRoom | None = None


class Books:
    """Everything that is known, as of the watches' last word.

    Attributes:
        fleet: cards and who holds what of them.
        nodes: by name, those with a register annotation.
        waiting: pods of ours that have no node yet.
        bound: the node of each pod that has one.
        refused: the last word to those of `waiting` that kube-scheduler asked about; no entry while it is asking.
        freed: called whenever room may have come free; True: no watch event that kube-scheduler saw too was the cause.
        seen_bound: called with the uid of a pod when the watch shows it bound for the first time.
    """

    def __init__(self, rules: PodRules, *, node_selector: str = "") -> None:
        self.fleet = Fleet()
        self.rules = rules
        self.nodes: dict[str, NodeRecord] = {}
        self.waiting: dict[PodUid, PodView] = {}
        self.bound: dict[PodUid, str] = {}
        self.refused: dict[PodUid, Refused] = {}
        self.freed: list[Callable[[bool], None]] = []
        self.seen_bound: list[Callable[[PodUid], None]] = []
        self._names: dict[tuple[str, str], PodUid] = {}
        self._selector = node_selector.partition("=")[::2]
        self._sleepers: set[asyncio.Future[None]] = set()

    def uid_of(self, namespace: str, name: str) -> PodUid | None:
        """The pod of ours by that name; None: there is none."""
        return self._names.get((namespace, name))

    def queue(self) -> list[PodView]:
        """Those who wait, in the order in which kube-scheduler prefers them."""
        return sorted(self.waiting.values(), key=lambda view: (-view.priority, view.created, view.namespace, view.name))

    def expire(self, now: float) -> int:
        """Give up reservations whose binding didn't come; how many."""
        expired = self.fleet.expire(now)
        if expired:
            _log.warning("%d reservations were given up: no binding came.", len(expired))
            self._tell_freed(silent=True)
        return len(expired)

    async def change(self, seconds: float) -> bool:
        """Wait until room may have come free, `seconds` at most; whether it did."""
        sleeper: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.add(sleeper)
        try:
            return bool((await asyncio.wait({sleeper}, timeout=seconds))[0])
        finally:
            self._sleepers.discard(sleeper)

    # nodes

    def put_node(self, node: Node) -> None:
        """A node, as it is now."""
        metadata, status = node["metadata"], node.get("status", {})
        name = metadata["name"]
        ready = any(c.get("type") == "Ready" and c.get("status") == "True" for c in status.get("conditions") or ())
        annotations = metadata.get("annotations") or {} if self._selected(metadata.get("labels") or {}) else {}
        allocatable = status.get("allocatable") or {}
        offers = allocatable.get(self.rules.names.count), allocatable.get("cpu")
        read = hash((annotations.get(NODE_REGISTER), annotations.get(DEVICE_CORDON), offers))
        before = self.nodes.get(name)
        if before is not None and before.read == read:
            self.nodes[name] = NodeRecord(ready, before.problem, read)
        elif NODE_REGISTER in annotations:
            self._read_node(name, annotations, offers, NodeRecord(ready, None, read))
        elif before is not None:
            self.drop_node(name)

    def _read_node(
        self, name: str, annotations: dict[str, str], offers: tuple[str | None, str | None], record: NodeRecord
    ) -> None:
        cards: tuple[Card, ...] = ()
        # No slots named is none: such a kubelet would start a pod without any device.
        problem, slots, cpu = None, _offered(offers[0], whole_quantity) or 0, _offered(offers[1], milli_quantity)
        try:
            cards = cards_of_node(annotations)
        except WireError as error:
            problem = str(error)
            _log.warning("Node %s takes no slices. %s", name, problem)
        if problem is None and not slots:
            problem = f"The kubelet of {name} offers no {self.rules.names.count}: its device plugin is not there."
        self.nodes[name] = replace(record, problem=problem)
        if self.fleet.set_node(name, cards, slots=slots, cpu=cpu):
            self._tell_freed()

    def drop_node(self, name: str) -> None:
        """A node that is gone, or has no cards any more."""
        self.nodes.pop(name, None)
        self.fleet.remove_node(name)

    # pods

    def put_pod(self, view: PodView) -> None:
        """A pod of ours, as it is now."""
        changed = self.fleet.set_pod(view)
        self._index(view)
        if changed and view.standing is Standing.FINISHED:
            self._tell_freed()

    def put_all_pods(self, views: list[PodView]) -> None:
        """All pods of ours: whoever isn't in `views` is gone."""
        changed = self.fleet.sync_pods(views)
        before = self.refused
        self.waiting, self.bound, self.refused, self._names = {}, {}, {}, {}
        for view in views:
            self._index(view)
        self.refused = {uid: before[uid] for uid in before if uid in self.waiting}
        if changed:
            # What happened while the watch was away woke nobody.
            self._tell_freed(silent=True)

    def drop_pod(self, uid: PodUid, namespace: str, name: str) -> None:
        """A pod that is gone, or has nothing of ours."""
        self._forget(uid, namespace, name)
        if self.fleet.remove_pod(uid):
            self._tell_freed()

    def release(self, uid: PodUid) -> None:
        """A reservation that comes to nothing.  What a bound pod holds isn't one."""
        if uid not in self.bound and self.fleet.release(uid):
            self._tell_freed(silent=True)

    def _index(self, view: PodView) -> None:
        if view.standing is Standing.FINISHED:
            self._forget(view.uid, view.namespace, view.name)
            return
        self._names[view.namespace, view.name] = view.uid
        if view.standing is Standing.WAITING and view.scheduler == self.rules.scheduler_name and not view.terminating:
            self.waiting[view.uid] = view
            return
        self.waiting.pop(view.uid, None)
        self.refused.pop(view.uid, None)
        if view.node and view.uid not in self.bound:
            self.bound[view.uid] = view.node
            for told in self.seen_bound:
                told(view.uid)

    def _forget(self, uid: PodUid, namespace: str, name: str) -> None:
        for known in (self.waiting, self.bound, self.refused):
            known.pop(uid, None)
        if self._names.get((namespace, name)) == uid:
            del self._names[namespace, name]

    def _tell_freed(self, *, silent: bool = False) -> None:
        for sleeper in self._sleepers:
            if not sleeper.done():
                sleeper.set_result(None)
        for told in self.freed:
            told(silent)

    def _selected(self, labels: dict[str, str]) -> bool:
        key, value = self._selector
        return not key or labels.get(key) == value


class NodeSink:
    """The watch of nodes, into the books."""

    def __init__(self, books: Books) -> None:
        self._books = books
        self._listed: set[str] = set()

    def begin_list(self) -> None:
        self._listed = set()

    def put(self, obj: Node) -> None:
        self._listed.add(obj["metadata"]["name"])
        self._books.put_node(obj)

    def drop(self, obj: Node) -> None:
        self._books.drop_node(obj["metadata"]["name"])

    def end_list(self) -> None:
        for name in set(self._books.nodes) - self._listed:
            self._books.drop_node(name)
        self._listed = set()


class PodSink:
    """The watch of pods, into the books.  Pods with nothing of ours are forgotten at once."""

    def __init__(self, books: Books) -> None:
        self._books = books
        self._listed: list[PodView] | None = None

    def begin_list(self) -> None:
        self._listed = []

    def put(self, obj: Pod) -> None:
        view = view_pod(obj, self._books.rules)
        if self._listed is not None:
            if view is not None:
                self._listed.append(view)
        elif view is not None:
            self._books.put_pod(view)
        else:
            self.drop(obj)

    def drop(self, obj: Pod) -> None:
        metadata = obj["metadata"]
        self._books.drop_pod(PodUid(metadata["uid"]), metadata["namespace"], metadata["name"])

    def end_list(self) -> None:
        views, self._listed = self._listed or [], None
        self._books.put_all_pods(views)


def _offered(quantity: str | None, amount: Callable[[object], int]) -> int | None:
    try:
        return amount(quantity) if quantity is not None else None
    except AmountError:
        return None
