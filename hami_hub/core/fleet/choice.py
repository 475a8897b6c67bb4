"""Which node and cards a pod goes to, of all that fit.  Decides on the arrays; `books` keeps what was decided.

The usual pod has one container that wants one card: all cards of all nodes are weighed at once.  Others are placed on a
copy of each node, card after card, the largest wish first, and the nodes are weighed as they would be then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..cards import WHOLE_CORES
from ..slices import CardPolicy, NodePolicy, SliceRequest
from .grid import SHUT, UNKNOWN_CPU, Bools, Grid, Ints
from .worth import NEVER, UNIT, Free, Ranking, Worth, asked_of

# FGD+: the fall of F less 50/8000 of what is free of the node's cards and 50/128000 of its free CPU, all times 160 to
# stay whole: of equals, the fuller.
_FGD_SCALE = 160
_CPU_SCALE = UNIT // 1000 * 50 * 160 // 128_000
_WORST = np.iinfo(np.int64).min
# So many nodes are copied at once, the fullest first (spread: the emptiest); the rest only if none of these has room.
_COPIED = 512
# So many rows are calculated at once.
_AT_ONCE = 1024


@dataclass(frozen=True, slots=True)
class Wish:
    """One container's request, as the arrays understand it.

    Attributes:
        request: what is asked for.
        vram: [kinds] MiB of each kind of card; `NEVER` of a kind that isn't wanted.
        cells: [rows, columns] the cards that it is restricted to by UUID; None: any.
        uniform: MiB, if it is the same on every kind.
    """

    request: SliceRequest
    vram: Ints
    cells: Bools | None = None
    uniform: int | None = None

    @property
    def least_cores(self) -> int:
        """Percent that must be free: on a card whose time is all promised a slice would get nothing."""
        return max(1, self.request.cores)

    @property
    def cores(self) -> int:
        """Percent that is taken."""
        return WHOLE_CORES if self.request.whole else self.request.cores

    @property
    def needs_empty(self) -> bool:
        """Whether only a card without slices will do."""
        return self.request.exclusive or self.request.empty_card


@dataclass(frozen=True, slots=True)
class Pick:
    """The node's row, and for each wish the columns of its cards."""

    row: int
    columns: tuple[tuple[int, ...], ...]


@dataclass(slots=True)
class _Copy:
    """Cards of some nodes, [nodes, columns], as they become while a pod is placed on them."""

    kind: Ints
    vram: Ints
    cores: Ints
    slices: Ints
    split: Ints
    amount: Ints
    cpu: Ints

    def free(self, nodes: Ints | slice = slice(None)) -> Free:
        """What is free on `nodes`."""
        return Free(self.vram[nodes], self.cores[nodes], self.slices[nodes] == 0, self.cpu[nodes])


def wish(request: SliceRequest, grid: Grid, cells: Bools | None = None) -> Wish:
    """`request` on the cards of `grid`."""
    vram = asked_of(request, grid.kinds)
    everywhere = request.vram is not None and not request.wishes.models and not request.wishes.not_models
    return Wish(request, vram, cells, request.vram if everywhere else None)


def fitting(asked: Wish, grid: Grid, rows: Ints | slice = slice(None)) -> Bools:
    """[rows, columns] the cards that would do for `asked` now.  The rule is `placement.shortfall`'s."""
    return _fits(asked, grid.kind[rows], grid.free_vram[rows], grid.free_cores[rows], grid.slices[rows], rows)


def _fits(asked: Wish, kind: Ints, vram: Ints, cores: Ints, slices: Ints, rows: Ints | slice) -> Bools:
    fits = (vram >= _need(asked, kind)) & (cores >= asked.least_cores)
    if asked.needs_empty:
        fits &= slices == 0
    return fits if asked.cells is None else fits & asked.cells[rows]


def choose(
    wishes: Sequence[Wish],
    cpu: int,
    grid: Grid,
    worth: Worth,
    rows: Ints,
    names: Ints,
    policy: NodePolicy,
) -> Pick | None:
    """The place for a pod that wants all of `wishes` on one node; None if no node has room.

    Args:
        wishes: one for each container.
        cpu: thousandths of a CPU that the pod requests; whether a node has them is not asked here.
        grid: settled.
        worth: refreshed.
        rows: the candidates.
        names: [rows] the order of the nodes' names, for those that are equal otherwise.
        policy: which node is taken of those that fit.
    """
    free_slots = grid.limit - grid.slots
    allowed = free_slots >= sum(asked.request.cards for asked in wishes)
    candidates = np.zeros_like(allowed)
    candidates[rows] = True
    allowed &= candidates
    if not allowed.any():
        return None
    usual = len(wishes) == 1 and wishes[0].request.cards == 1 and wishes[0].request.card_policy is CardPolicy.FGD
    if usual and policy is NodePolicy.FGD:
        return _choose_card(wishes[0], cpu, grid, worth, allowed, names)
    return _choose_node(wishes, cpu, grid, worth, allowed, names, policy)


def _choose_card(asked: Wish, cpu: int, grid: Grid, worth: Worth, allowed: Bools, names: Ints) -> Pick | None:
    """The best of all cards, for a pod that wants one."""
    # Where cards are named, it depends on which nodes are there.
    ranking = worth.rankings.of(asked.request, cpu, len(allowed)) if asked.cells is None else Ranking(len(allowed))
    for part in _parts(ranking.take_stale(), len(allowed)):
        _rank(ranking, asked, cpu, grid, worth, part)
    allowed = allowed & (ranking.column >= 0)
    score = np.where(allowed, _score(ranking.fall, grid, worth, slice(None)), _WORST)
    best = np.flatnonzero(score == score.max())
    row = int(best[np.lexsort((names[best], worth.free[best]))[0]])
    return Pick(row, ((int(ranking.column[row]),),)) if allowed[row] else None


def _parts(stale: Ints | None, count: int) -> Iterator[Ints | slice]:
    """The `stale` of `count` rows, all if None, so many at once as stay in the processor's cache."""
    for start in range(0, count if stale is None else stale.size, _AT_ONCE):
        part = slice(start, min(count, start + _AT_ONCE))
        yield part if stale is None else stale[part]


def _rank(ranking: Ranking, asked: Wish, cpu: int, grid: Grid, worth: Worth, rows: Ints | slice) -> None:
    """Bring `rows` of `ranking` up to date."""
    fits = fitting(asked, grid, rows)
    some = fits.any(axis=1)
    ranking.column[rows] = -1
    if not some.all():
        rows = (np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows)[some]
        fits = fits[some]
    if len(fits):
        ranking.fall[rows], ranking.column[rows] = _best_cards(asked, cpu, grid, worth, rows, fits)


def _score(fall: Ints, grid: Grid, worth: Worth, rows: Ints | slice) -> Ints:
    """FGD+ of a fall of F on each of `rows`."""
    cpu = grid.free_cpu[rows]
    cpu = np.where(cpu == UNKNOWN_CPU, 0, cpu)
    return _FGD_SCALE * fall - worth.total * (worth.free[rows] + _CPU_SCALE * cpu)


def _best_cards(asked: Wish, cpu: int, grid: Grid, worth: Worth, rows: Ints | slice, fits: Bools) -> tuple[Ints, Ints]:
    """For each of `rows` the card with which F falls most, of those that fit: the fall, and its column."""
    kind, slices = grid.kind[rows], grid.slices[rows]
    now = Free(grid.free_vram[rows], grid.free_cores[rows], slices == 0, _cpu_left(grid, rows, cpu))
    need = _need(asked, kind)
    stays_open = fits & (grid.split[rows] - slices > 1) & (not asked.request.exclusive)
    then = Free(
        np.where(stays_open, now.vram - need, SHUT),
        np.where(stays_open, now.cores - asked.cores, SHUT),
        np.zeros_like(fits),
        now.cpu,
    )
    amount = worth.amount[rows]
    left = np.where(fits, amount - worth.amounts(kind, need, asked.cores), 0) * (not asked.request.exclusive)
    before = worth.lost[rows]
    # The pod's CPU is gone for all cards of the node.
    without = amount * worth.unusable(kind, now) if cpu else before
    fall = (before - without).sum(axis=1)[:, None] + without - left * worth.unusable(kind, then)
    for m, shape in enumerate(worth.several):
        usable = worth.would_do(shape, kind, now) if cpu else worth.usable[m, rows]
        after = worth.would_do(shape, kind, then)
        count = usable.sum(axis=1)[:, None] - usable + after
        spilt = (amount * ~usable).sum(axis=1)[:, None] - amount * ~usable + left * ~after
        fragment = np.where(count < shape.cards, worth.free[rows][:, None] - amount + left, spilt)
        fall += shape.weight * (worth.fragment[m, rows][:, None] - fragment)
    fall = np.where(fits, fall, _WORST)
    column = fall.argmax(axis=1)
    return fall.take(column + np.arange(column.size) * fall.shape[1]), column


def _cpu_left(grid: Grid, rows: Ints | slice, cpu: int) -> Ints:
    free = grid.free_cpu[rows]
    return np.where(free == UNKNOWN_CPU, free, np.maximum(0, free - cpu))


def _choose_node(
    wishes: Sequence[Wish], cpu: int, grid: Grid, worth: Worth, allowed: Bools, names: Ints, policy: NodePolicy
) -> Pick | None:
    """The best of all nodes, each with the cards that it would give."""
    for asked in wishes:
        allowed = allowed & (fitting(asked, grid).sum(axis=1) >= asked.request.cards)
    rows = np.flatnonzero(allowed)
    fullness = worth.free[rows] * (-1 if policy is NodePolicy.SPREAD else 1)
    rows = rows[np.lexsort((names[rows], fullness))]
    for start in range(0, rows.size, _COPIED):
        pick = _choose_among(wishes, cpu, grid, worth, rows[start : start + _COPIED], names, policy)
        if pick is not None:
            return pick
    return None


def _choose_among(
    wishes: Sequence[Wish], cpu: int, grid: Grid, worth: Worth, rows: Ints, names: Ints, policy: NodePolicy
) -> Pick | None:
    """The best of `rows`, in each of which every one of `wishes` alone has room."""
    copy = _Copy(
        kind=grid.kind[rows],
        vram=grid.free_vram[rows],
        cores=grid.free_cores[rows],
        slices=grid.slices[rows],
        split=grid.split[rows],
        amount=worth.amount[rows],
        cpu=_cpu_left(grid, rows, cpu),
    )
    order = sorted(range(len(wishes)), key=lambda i: (-int(wishes[i].needs_empty), -_size(wishes[i]), i))
    fits = np.ones(rows.size, np.bool_)
    picked: dict[int, list[Ints]] = {}
    for i in order:
        picked[i] = []
        mine = np.zeros_like(copy.vram, np.bool_)
        for _ in range(wishes[i].request.cards):
            column, found = _pick_card(wishes[i], copy, worth, rows, mine)
            fits &= found
            picked[i].append(column)
    if not fits.any():
        return None
    best = _best_row(np.flatnonzero(fits), rows, copy, grid, worth, names, policy)
    return Pick(int(rows[best]), tuple(tuple(int(column[best]) for column in picked[i]) for i in range(len(wishes))))


def _pick_card(asked: Wish, copy: _Copy, worth: Worth, rows: Ints, mine: Bools) -> tuple[Ints, Bools]:
    """The next card for `asked` on every node: its column, and whether there is one.  `copy` and `mine` learn of it."""
    need = asked.vram.take(copy.kind)
    fits = _fits(asked, copy.kind, copy.vram, copy.cores, copy.slices, rows) & ~mine
    column = np.where(fits, _card_key(asked, copy, worth, need), _WORST).argmax(axis=1)
    node = np.arange(column.size)
    found = fits[node, column]
    node, taken = node[found], column[found]
    mine[node, taken] = True
    copy.slices[node, taken] += 1
    copy.vram[node, taken] -= need[node, taken]
    copy.cores[node, taken] -= asked.cores
    copy.amount[node, taken] = worth.amounts(
        copy.kind[node, taken], copy.vram[node, taken], copy.cores[node, taken]
    ) * (not asked.request.exclusive)
    shut = (copy.slices[node, taken] >= copy.split[node, taken]) | asked.request.exclusive
    copy.vram[node[shut], taken[shut]] = SHUT
    copy.cores[node[shut], taken[shut]] = SHUT
    return column, found


def _card_key(asked: Wish, copy: _Copy, worth: Worth, need: Ints) -> Ints:
    """[nodes, columns] the larger, the better; of equals the lowest column is taken."""
    if asked.request.card_policy is CardPolicy.SPREAD:
        return copy.vram
    if asked.request.card_policy is CardPolicy.BINPACK or asked.request.exclusive:
        return -copy.vram
    now = copy.free()
    then = Free(
        np.maximum(copy.vram - need, SHUT),
        np.maximum(copy.cores - asked.cores, SHUT),
        np.zeros_like(now.empty),
        copy.cpu,
    )
    left = worth.amounts(copy.kind, np.maximum(then.vram, 0), np.maximum(then.cores, 0))
    return copy.amount * worth.unusable(copy.kind, now) - left * worth.unusable(copy.kind, then)


def _best_row(nodes: Ints, rows: Ints, copy: _Copy, grid: Grid, worth: Worth, names: Ints, policy: NodePolicy) -> int:
    """Which of `nodes`, indices into `rows`, is taken."""
    chosen = rows[nodes]
    if policy is NodePolicy.FGD:
        before = worth.lost[chosen].sum(axis=1)
        for m, shape in enumerate(worth.several):
            before += shape.weight * worth.fragment[m, chosen]
        after = worth.fragments(copy.kind[nodes], copy.amount[nodes], copy.free(nodes))
        key = _score(before - after, grid, worth, chosen)
    else:
        key = _fullness(grid, chosen) * (1 if policy is NodePolicy.BINPACK else -1)
    order = np.lexsort((names[chosen], worth.free[chosen], -key))
    return int(nodes[order[0]])


def _fullness(grid: Grid, rows: Ints) -> Ints:
    """How full nodes are by HAMi's measure: the used parts of slots, cores and VRAM, added; each in 1/10000."""
    there = grid.kind[rows] > 0
    total = np.maximum(1, (grid.totals[grid.kind[rows]]).sum(axis=1))
    slots = np.maximum(1, grid.split[rows].sum(axis=1))
    cores = np.maximum(1, there.sum(axis=1)) * WHOLE_CORES
    full: Ints = (
        grid.slices[rows].sum(axis=1) * 10_000 // slots
        + grid.cores[rows].sum(axis=1) * 10_000 // cores
        + grid.vram[rows].sum(axis=1) * 10_000 // total
    )
    return full


def _need(asked: Wish, kind: Ints) -> Ints | int:
    """MiB that `asked` comes to on cards of `kind`; one number if it is the same on all."""
    return asked.uniform if asked.uniform is not None else asked.vram.take(kind)


def _size(asked: Wish) -> int:
    return int(asked.vram[asked.vram < NEVER].max(initial=0))
