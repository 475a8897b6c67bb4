"""The books over all nodes: who holds what of which card, reserved or bound.  In memory, rebuilt from nodes and pods.

Invariant: whatever order of calls, a card never has more promised than it has, except for what pods are known to hold
already: that counts whether it fits or not, and blocks new slices until it ends.  What a node's pods hold is kept while
the node is away and counts again when it comes back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import repeat

import numpy as np

from ..cards import Card, CardState, CardUuid
from ..nodes import FleetNoRoom, FleetPlacement, Holding, NearMiss
from ..placement import placement_of, share_of
from ..pods import PodUid, PodView, Standing
from ..slices import CardShare, Placement
from ..typical import TypicalPods
from ..units import Mib, Percent
from .choice import Pick, Wish, choose, wish
from .exact import place_together
from .grid import Bools, Grid, Ints
from .shortfalls import explain
from .worth import Worth


class _Stage(Enum):
    RESERVED = "reserved"  # chosen; expires
    BINDING = "binding"  # the binding is on its way
    BOUND = "bound"  # the pod is there


@dataclass(slots=True)
class _Entry:
    """What one pod holds.  `until`: when it expires, in the caller's clock; None: not by itself."""

    view: PodView
    node: str
    slices: Mapping[str, Placement]
    slots: int
    stage: _Stage
    until: float | None = None

    def shares(self) -> Iterator[CardShare]:
        for placement in self.slices.values():
            yield from placement.shares


def _holds_alike(entry: _Entry, view: PodView) -> bool:
    mine = (entry.node, entry.slices, entry.slots, entry.view.cpu)
    return mine == (view.node, view.slices, view.slots, view.cpu)


@dataclass(slots=True)
class _Node:
    """A node, or the name of one that pods are on."""

    row: int | None = None
    cards: tuple[Card, ...] = ()
    slots: int | None = None
    cpu: int | None = None
    bystanders_cpu: int = 0
    columns: dict[CardUuid, int] = field(default_factory=dict)
    entries: dict[PodUid, _Entry] = field(default_factory=dict)


class Fleet:
    """Nodes, their cards and the pods on them.  Not thread-safe: one owner calls it."""

    def __init__(self, typical: TypicalPods | None = None) -> None:
        """`typical`: what usually comes, to begin with."""
        self._typical = typical or TypicalPods()
        self._grid = Grid()
        self._worth: Worth | None = None
        self._revision = -1
        self._nodes: dict[str, _Node] = {}
        self._row_names: dict[int, str] = {}
        self._rows_by_name: dict[str, int] = {}
        self._name_order: Ints | None = None
        self._entries: dict[PodUid, _Entry] = {}
        self._seen: set[PodUid] = set()

    # Nodes

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of the nodes that are there, in their order."""
        return tuple(sorted(self._row_names.values()))

    def set_node(self, name: str, cards: Sequence[Card], *, slots: int | None = None, cpu: int | None = None) -> bool:
        """The node `name` has `cards`, as its annotations say.  True if that is news.

        Args:
            name: of the node.
            cards: of one node; none is a node without cards.
            slots: the kubelet's allocatable `nvidia.com/gpu`; None: it hasn't said yet.
            cpu: allocatable CPU in thousandths, so that cards aren't left without any; None: that doesn't matter.
        """
        ordered = tuple(sorted(cards, key=lambda card: (card.index, card.uuid)))
        node = self._nodes.setdefault(name, _Node())
        if node.row is not None and (node.cards, node.slots, node.cpu) == (ordered, slots, cpu):
            return False
        if node.row is None:
            node.row = self._grid.take_row()
            self._row_names[node.row] = name
            self._rows_by_name[name] = node.row
            self._name_order = None
        node.cards, node.slots, node.cpu = ordered, slots, cpu
        node.columns = {card.uuid: column for column, card in enumerate(ordered)}
        self._grid.set_cards(node.row, ordered, limit=slots, cpu=cpu)
        self._grid.add_pod(node.row, 0, node.bystanders_cpu)
        for entry in node.entries.values():
            self._count(node, entry, 1)
        return True

    def set_bystanders(self, name: str, cpu: int) -> None:
        """Pods of the node that ask for no slice request so much of its CPU, in thousandths."""
        node = self._nodes.get(name)
        if node is not None and node.row is not None and node.bystanders_cpu != cpu:
            self._grid.add_pod(node.row, 0, cpu - node.bystanders_cpu)
            node.bystanders_cpu = cpu

    def remove_node(self, name: str) -> bool:
        """The node is gone; what its pods hold is remembered until they are gone too."""
        node = self._nodes.get(name)
        if node is None or node.row is None:
            return False
        self._grid.give_row(node.row)
        del self._row_names[node.row], self._rows_by_name[name]
        self._name_order = None
        node.row, node.cards, node.slots, node.cpu, node.columns = None, (), None, None, {}
        node.bystanders_cpu = 0
        if not node.entries:
            del self._nodes[name]
        return True

    def states(self, name: str) -> tuple[CardState, ...]:
        """Every card of the node with what is taken of it; nothing of a node that isn't there."""
        node = self._nodes.get(name)
        if node is None or node.row is None:
            return ()
        grid, row = self._grid, node.row
        return tuple(
            CardState(
                card=card,
                used_vram=Mib(int(grid.vram[row, column])),
                used_cores=Percent(int(grid.cores[row, column])),
                slices=int(grid.slices[row, column]),
                exclusive=bool(grid.alone[row, column]),
            )
            for column, card in enumerate(node.cards)
        )

    # Pods, as the watch tells

    def set_pod(self, view: PodView) -> bool:
        """A pod is there, or changed.  True if that changed what is free."""
        if view.uid not in self._seen:
            self._seen.add(view.uid)
            for ask in view.asks:
                self._typical.observe(ask.request, view.cpu)
        standing, entry = view.standing, self._entries.get(view.uid)
        if standing is Standing.FINISHED:
            return self.release(view.uid)
        if standing is Standing.WAITING:
            # A binding that is on its way may be known here before the watch has it.
            return False
        if entry and _holds_alike(entry, view):
            entry.view, entry.stage, entry.until = view, _Stage.BOUND, None
            return False
        self.release(view.uid)
        self._keep(_Entry(view, view.node, view.slices, view.slots, _Stage.BOUND))
        return True

    def remove_pod(self, uid: PodUid) -> bool:
        """The pod is gone.  True if it held something."""
        self._seen.discard(uid)
        return self.release(uid)

    def sync_pods(self, views: Iterable[PodView]) -> bool:
        """These are all pods there are, after a watch began anew.  True if that changed what is free.

        What is reserved for pods that the watch hasn't told of yet stays: they may be younger than the list.
        """
        listed = {view.uid: view for view in views}
        changed = [self.remove_pod(uid) for uid in self._seen - listed.keys()]
        changed += [self.set_pod(view) for view in listed.values()]
        return any(changed)

    # Decisions

    def try_place(self, view: PodView, candidates: Iterable[str] | None = None) -> FleetPlacement | FleetNoRoom:
        """Where the pod would go now, with nothing reserved.  `candidates`: names of nodes; None: all.

        A pod without slices goes where its CPU is missed least: for replays and plans.
        """
        return self._place(view, candidates)

    def reserve(self, view: PodView, candidates: Iterable[str] | None, *, until: float) -> FleetPlacement | FleetNoRoom:
        """Find room for the pod and keep it until the clock says `until`.

        A pod that asks again gives back first what was reserved for it, unless its binding is on its way or done: then
        the answer is what it was.
        """
        entry = self._entries.get(view.uid)
        if entry is not None and entry.stage is not _Stage.RESERVED:
            return FleetPlacement(entry.node, entry.slices) if entry.slices else self._place(view, candidates)
        self.release(view.uid)
        verdict = self._place(view, candidates)
        if isinstance(verdict, FleetPlacement):
            slots = sum(len(placement.shares) for placement in verdict.slices.values())
            self._keep(_Entry(view, verdict.node, verdict.slices, slots, _Stage.RESERVED, until))
        return verdict

    def binding(self, uid: PodUid, node: str) -> FleetPlacement | None:
        """What the pod's binding to `node` is to say; kept from now on until `confirm` or `release`.  None: there is
        nothing reserved for it there any more.
        """
        entry = self._entries.get(uid)
        if entry is None or entry.node != node or not entry.slices:
            return None
        if entry.stage is _Stage.RESERVED:
            entry.stage, entry.until = _Stage.BINDING, None
        return FleetPlacement(entry.node, entry.slices)

    def confirm(self, uid: PodUid, *, until: float) -> None:
        """The API server took the binding.  It counts; the watch should tell of it before `until`."""
        entry = self._entries.get(uid)
        if entry is not None and entry.stage is _Stage.BINDING:
            entry.until = until

    def release(self, uid: PodUid) -> bool:
        """Give back what the pod holds.  A holder of nothing is no error."""
        entry = self._entries.pop(uid, None)
        if entry is None:
            return False
        node = self._nodes[entry.node]
        del node.entries[uid]
        self._count(node, entry, -1)
        if node.row is None and not node.entries:
            del self._nodes[entry.node]
        return True

    def expire(self, now: float) -> tuple[PodUid, ...]:
        """Give back what was kept until `now` at most.  To be called only while the watch is alive."""
        late = tuple(uid for uid, entry in self._entries.items() if entry.until is not None and entry.until <= now)
        for uid in late:
            self.release(uid)
        return late

    def holdings(self) -> Iterator[Holding]:
        """Every pod with slices, in the order in which they came."""
        for uid, entry in self._entries.items():
            if entry.slices:
                yield Holding(
                    uid=uid,
                    namespace=entry.view.namespace,
                    name=entry.view.name,
                    node=entry.node,
                    slices=entry.slices,
                    since=entry.view.placed_at,
                    bound=entry.stage is _Stage.BOUND,
                )

    def _keep(self, entry: _Entry) -> None:
        node = self._nodes.setdefault(entry.node, _Node())
        self._entries[entry.view.uid] = entry
        node.entries[entry.view.uid] = entry
        self._count(node, entry, 1)

    def _count(self, node: _Node, entry: _Entry, sign: int) -> None:
        if node.row is None:
            return
        self._grid.add_pod(node.row, sign * entry.slots, sign * entry.view.cpu)
        for share in entry.shares():
            column = node.columns.get(share.uuid)
            if column is not None:
                self._grid.add(node.row, column, share, sign)

    def _settle(self) -> Worth:
        changed = self._grid.settle()
        if self._worth is None or not self._worth.fits(self._grid) or self._revision != self._typical.revision:
            self._revision = self._typical.revision
            self._worth = Worth(self._typical.shares(), self._grid)
        elif changed.size:
            self._worth.refresh(self._grid, changed)
        return self._worth

    def _place(self, view: PodView, names: Iterable[str] | None) -> FleetPlacement | FleetNoRoom:
        worth = self._settle()
        candidates = list(self._rows_by_name if names is None else names)
        rows = self._rows(candidates)
        wishes = [wish(ask.request, self._grid, self._cells(ask.request.wishes.uuids, ask.request.wishes.not_uuids))
                  for ask in view.asks]  # fmt: skip
        pick = choose(wishes, view.cpu, self._grid, worth, rows, self._names(), view.node_policy)
        if pick is None and len(wishes) > 1:
            pick = place_together(wishes, self._grid, rows)
        if pick is not None:
            return self._placement(view, pick)
        return self._no_room(view, wishes, rows, candidates)

    def _placement(self, view: PodView, pick: Pick) -> FleetPlacement:
        name = self._row_names[pick.row]
        cards = self._nodes[name].cards
        return FleetPlacement(
            name,
            {
                ask.container: placement_of(
                    ask.request, tuple(share_of(ask.request, cards[column]) for column in columns), name
                )
                for ask, columns in zip(view.asks, pick.columns, strict=True)
            },
        )

    def _no_room(self, view: PodView, wishes: Sequence[Wish], rows: Ints, candidates: list[str]) -> FleetNoRoom:
        asked_for = np.zeros(self._grid.limit.size, np.bool_)
        asked_for[rows] = True
        asked = np.flatnonzero(asked_for)
        asked = asked[self._names()[asked].argsort()]
        unknown = len(set(candidates)) - asked.size
        return explain(
            view.asks,
            wishes,
            self._grid,
            asked,
            unknown=unknown,
            name_of=self._row_names.__getitem__,
            near=self._near_miss,
        )

    def _near_miss(self, row: int, column: int, asked: int, free: int) -> NearMiss:
        name = self._row_names[row]
        card = self._nodes[name].cards[column]
        return NearMiss(name, card.uuid, card.model, asked, free)

    def _rows(self, candidates: list[str]) -> Ints:
        rows = np.fromiter(map(self._rows_by_name.get, candidates, repeat(-1)), np.int64, len(candidates))
        return rows[rows >= 0]

    def _names(self) -> Ints:
        """[rows] the order of the nodes' names."""
        if self._name_order is None:
            self._name_order = np.zeros(self._grid.kind.shape[0], np.int64)
            for order, (row, _) in enumerate(sorted(self._row_names.items(), key=lambda item: item[1])):
                self._name_order[row] = order
        return self._name_order

    def _cells(self, uuids: Sequence[CardUuid], not_uuids: Sequence[CardUuid]) -> Bools | None:
        """[rows, columns] the cards that wishes by UUID leave; None: all of them."""
        if not uuids and not not_uuids:
            return None
        cells = np.full(self._grid.kind.shape, not uuids)
        for node in self._nodes.values():
            if node.row is not None:
                for uuid in uuids:
                    if uuid in node.columns:
                        cells[node.row, node.columns[uuid]] = True
                for uuid in not_uuids:
                    if uuid in node.columns:
                        cells[node.row, node.columns[uuid]] = False
        return cells
