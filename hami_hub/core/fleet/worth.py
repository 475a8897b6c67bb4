"""How useful what is free still is: fragmentation gradient descent (FGD, Weng et al., USENIX ATC 2023), for VRAM, cores
and slots.

A node's fragment for a typical slice is what is free there and that slice can't use: all of it, if fewer cards than it
asks for would do or the node has too little CPU left, else what lies on cards that won't do.  `F`, the sum over the
typical slices weighted by how often they come, is what a placement should raise least.

Free VRAM and free cores make one amount, `UNIT` for an empty card, in which each weighs as much as the typical slices
ask of it.  All integers, so that equal is equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..cards import WHOLE_CORES, Card, CardUuid
from ..slices import CardWishes, SliceRequest
from ..typical import Shape
from ..units import Mib, Percent
from .grid import Bools, Grid, Ints, Kind

UNIT = 10**9
NEVER = 1 << 40  # more MiB than any card has
_TABLE_BITS = 12


@dataclass(frozen=True, slots=True)
class Several:
    """A typical slice of more than one card."""

    cards: int
    weight: int
    vram: Ints  # [kinds] MiB that it asks of each
    cores: int
    cpu: int
    exclusive: bool


@dataclass(slots=True)
class Free:
    """What cards of some nodes have free: [nodes, columns], `cpu` [nodes]; as in `Grid`."""

    vram: Ints
    cores: Ints
    empty: Bools
    cpu: Ints


class Ranking:
    """For one request: of every node the best card, and by how much F falls if it goes there.

    Attributes:
        fall: [rows] see `Worth`; 0 where no card fits.
        column: [rows] the card; -1 where none fits.
    """

    def __init__(self, rows: int) -> None:
        self.fall = np.zeros(rows, np.int64)
        self.column = np.full(rows, -1, np.int64)
        self._stale: set[int] | None = None  # None: all

    def outdate(self, rows: Sequence[int]) -> None:
        """What is free on `rows` changed."""
        if self._stale is not None:
            self._stale.update(rows)

    def take_stale(self) -> Ints | None:
        """The rows to be calculated again now; None: all."""
        stale, self._stale = self._stale, set()
        return None if stale is None else np.fromiter(stale, np.int64, len(stale))


class Rankings:
    """The rankings of the requests that came last: most pods ask for what others asked for shortly before."""

    _MOST = 32

    def __init__(self) -> None:
        self._kept: dict[tuple[SliceRequest, int], Ranking] = {}

    def of(self, request: SliceRequest, cpu: int, rows: int) -> Ranking:
        """The ranking for `request` in a pod that requests so much CPU."""
        found = self._kept.pop((request, cpu), None) or Ranking(rows)
        self._kept[request, cpu] = found
        if len(self._kept) > self._MOST:
            del self._kept[next(iter(self._kept))]
        return found

    def outdate(self, rows: Ints) -> None:
        """What is free on `rows` changed."""
        changed = rows.tolist()
        for ranking in self._kept.values():
            ranking.outdate(changed)


class Worth:
    """F of every node, kept up to date row by row.

    Attributes:
        total: sum of all weights.
        rankings: of requests, kept up to date likewise.
        amount: [rows, columns] what is free of a card.
        lost: [rows, columns] of that, what typical slices of one card can't use, times their weights.
        free: [rows] sum of `amount`.
        usable, count, spilt, fragment: for each of `several`: [rows, columns] whether the card would do, [rows] how
            many would, what is free on those that wouldn't, and the fragment.
    """

    def __init__(self, shares: Sequence[tuple[Shape, int]], grid: Grid) -> None:
        kinds = grid.kinds
        self.rankings = Rankings()
        self.kinds_known = len(kinds)
        self.total = sum(weight for _, weight in shares)
        single = [(shape, weight) for shape, weight in shares if shape.cards == 1]
        self.single_weight = sum(weight for _, weight in single)
        self._build_amounts(shares, kinds)
        self._build_table(single, kinds)
        self.several = [
            Several(shape.cards, weight, asked_of(request, kinds), max(1, request.cores), shape.cpu, request.exclusive)
            for shape, weight in shares
            if shape.cards > 1
            for request in [_request(shape)]
        ]
        rows, columns = grid.kind.shape
        self.amount = np.zeros((rows, columns), np.int64)
        self.lost = np.zeros((rows, columns), np.int64)
        self.free = np.zeros(rows, np.int64)
        count = len(self.several)
        self.usable = np.zeros((count, rows, columns), np.bool_)
        self.count = np.zeros((count, rows), np.int64)
        self.spilt = np.zeros((count, rows), np.int64)
        self.fragment = np.zeros((count, rows), np.int64)
        self.refresh(grid, np.arange(rows))

    def fits(self, grid: Grid) -> bool:
        """Whether this still has the shape of `grid`."""
        return self.kinds_known == len(grid.kinds) and self.amount.shape == grid.kind.shape

    def refresh(self, grid: Grid, rows: Ints) -> None:
        """What is free on `rows` changed."""
        self.rankings.outdate(rows)
        kind = grid.kind[rows]
        amount = self.amounts(kind, grid.spare_vram[rows], grid.spare_cores[rows])
        cards = Free(grid.free_vram[rows], grid.free_cores[rows], grid.slices[rows] == 0, grid.free_cpu[rows])
        self.amount[rows] = amount
        self.free[rows] = amount.sum(axis=1)
        self.lost[rows] = amount * self.unusable(kind, cards)
        for m, shape in enumerate(self.several):
            usable = self.would_do(shape, kind, cards)
            self.usable[m, rows] = usable
            self.count[m, rows] = usable.sum(axis=1)
            self.spilt[m, rows] = (amount * ~usable).sum(axis=1)
            self.fragment[m, rows] = np.where(self.count[m, rows] < shape.cards, self.free[rows], self.spilt[m, rows])

    def amounts(self, kind: Ints, vram: Ints | int, cores: Ints | int) -> Ints:
        """What `vram` MiB and `cores` percent of cards of `kind` make together."""
        return vram * self.per_mib.take(kind) + cores * self.per_percent.take(kind)

    def unusable(self, kind: Ints, cards: Free) -> Ints:
        """Weight of the typical slices of one card that `cards`, of `kind`, can't hold."""
        rank = np.searchsorted(self._cpus, cards.cpu, side="right")[:, None]
        place = self._vram_rank.take((cards.vram >> self._shift.take(kind)) + self._offset.take(kind))
        place += self._row_of_cores.take(cards.cores) + rank * self._plane
        unusable: Ints = self.single_weight - self._table.take(place)
        if cards.empty.any():
            whole = self._exclusive.take(kind + rank * self.kinds_known)
            unusable -= np.where(cards.empty & (cards.vram >= 0), whole, 0)
        return unusable

    def would_do(self, shape: Several, kind: Ints, cards: Free) -> Bools:
        """Whether each of `cards`, of `kind`, would do for `shape`."""
        fits = (cards.vram >= shape.vram.take(kind)) & (cards.cores >= shape.cores)
        fits &= (cards.cpu >= shape.cpu)[:, None]
        return fits & cards.empty if shape.exclusive else fits

    def fragments(self, kind: Ints, amount: Ints, cards: Free) -> Ints:
        """F, times `total`, of nodes with so much free."""
        free = amount.sum(axis=1)
        found: Ints = (amount * self.unusable(kind, cards)).sum(axis=1)
        for shape in self.several:
            usable = self.would_do(shape, kind, cards)
            spilt = (amount * ~usable).sum(axis=1)
            found += shape.weight * np.where(usable.sum(axis=1) < shape.cards, free, spilt)
        return found

    def _build_amounts(self, shares: Sequence[tuple[Shape, int]], kinds: Sequence[Kind]) -> None:
        """`per_mib` and `per_percent`: what slices that share a card ask of VRAM and cores says how each counts."""
        self.per_mib = np.zeros(len(kinds), np.int64)
        self.per_percent = np.zeros(len(kinds), np.int64)
        sharing = [(_request(shape), weight) for shape, weight in shares]
        sharing = [(request, weight) for request, weight in sharing if not request.exclusive]
        cores = sum(weight * request.cores * 10 for request, weight in sharing)
        for number, kind in enumerate(kinds):
            if not kind.vram:
                continue
            card = _card(kind)
            fitting = [(request.vram_of(card), weight) for request, weight in sharing]
            vram = sum(weight * (amount * 1000 // kind.vram) for amount, weight in fitting if amount <= kind.vram)
            vram = vram if vram + cores else 1
            self.per_mib[number] = UNIT * vram // ((vram + cores) * kind.vram)
            self.per_percent[number] = UNIT * cores // ((vram + cores) * WHOLE_CORES)

    def _build_table(self, single: Sequence[tuple[Shape, int]], kinds: Sequence[Kind]) -> None:
        """The weight of usable slices by free CPU, cores and VRAM, the latter in at most 4,096 steps for each kind."""
        requests = [(_request(shape), shape.cpu, weight) for shape, weight in single]
        ranks = sorted({max(1, request.cores) for request, _, _ in requests if not request.exclusive})
        self._cpus = np.array(sorted({cpu for _, cpu, _ in requests}), np.int64)
        self._shift = np.array([max(0, kind.vram.bit_length() - _TABLE_BITS) for kind in kinds], np.int64)
        # The first entry of each kind, and the last rank of cores, are for free -1: a card that takes no slice.
        entries = (np.array([kind.vram for kind in kinds], np.int64) >> self._shift) + 2
        self._offset = np.cumsum(entries) - entries + 1
        exclusive = np.zeros((len(self._cpus) + 1, len(kinds)), np.int64)
        steps: list[Ints] = []
        columns: list[Ints] = []
        first = 0
        for number, kind in enumerate(kinds):
            shift, last = int(self._shift[number]), int(entries[number]) - 1
            least: dict[int, int] = {}  # the entry from which on a slice fits, of those that fit at all
            for i, (request, cpu, weight) in enumerate(requests):
                vram = int(asked_of(request, [kind])[0])
                if not 0 < vram <= kind.vram:
                    continue
                if request.exclusive:
                    exclusive[int(np.searchsorted(self._cpus, cpu)) + 1 :, number] += weight
                else:
                    least[i] = min(1 - (-vram >> shift), last)
            cuts = sorted(set(least.values()))
            weights = np.zeros((len(self._cpus) + 1, len(ranks) + 1, len(cuts) + 1), np.int64)
            for i, entry in least.items():
                request, cpu, weight = requests[i]
                rank, core = int(np.searchsorted(self._cpus, cpu)) + 1, ranks.index(max(1, request.cores)) + 1
                weights[rank:, core:, cuts.index(entry) + 1 :] += weight
            steps.append(np.searchsorted(cuts, np.arange(entries[number]), side="right").astype(np.int64) + first)
            columns.append(weights)
            first += len(cuts) + 1
        self._vram_rank = np.concatenate(steps)
        self._table = np.concatenate(columns, axis=2).ravel()
        self._exclusive = exclusive.ravel()
        by_cores = np.searchsorted(ranks, np.arange(WHOLE_CORES + 1), side="right")
        self._row_of_cores = np.append(by_cores, 0).astype(np.int64) * first
        self._plane = first * (len(ranks) + 1)


def asked_of(request: SliceRequest, kinds: Sequence[Kind]) -> Ints:
    """[kinds] MiB that `request` asks of each kind of card; `NEVER` where it doesn't want it."""
    cards = [_card(kind) for kind in kinds]
    return np.array(
        [request.vram_of(card) if _model_allowed(request.wishes, card) else NEVER for card in cards], np.int64
    )


def _model_allowed(wishes: CardWishes, card: Card) -> bool:
    return CardWishes(models=wishes.models, not_models=wishes.not_models).allow(card)


def _card(kind: Kind) -> Card:
    return Card(uuid=CardUuid(""), index=0, model=kind.model, vram=Mib(kind.vram))


def _request(shape: Shape) -> SliceRequest:
    return SliceRequest(
        cards=shape.cards,
        vram=shape.vram,
        vram_percent=shape.vram_percent,
        cores=Percent(shape.cores),
        wishes=CardWishes(models=shape.models),
    )
