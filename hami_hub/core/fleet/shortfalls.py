"""Why no node has room: what cards and nodes lack, counted, each with the one that came nearest.  Decides nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ..nodes import CardsShort, FleetNoRoom, NearMiss, NodeLack, NodesShort
from ..placement import Lack
from ..pods import ContainerAsk
from .choice import Wish
from .exact import fits_an_empty_node
from .grid import CORDONED, ILL, Bools, Grid, Ints
from .worth import NEVER

Numbers: TypeAlias = npt.NDArray[np.int8]  # of lacks

_LACKS = tuple(Lack)
_FITS = -1
_ABSENT = -2
_AT_ONCE = 1024
_FAR = np.iinfo(np.int64).max


def explain(
    asks: Sequence[ContainerAsk],
    wishes: Sequence[Wish],
    grid: Grid,
    rows: Ints,
    *,
    unknown: int,
    name_of: Callable[[int], str],
    near: Callable[[int, int, int, int], NearMiss],
) -> FleetNoRoom:
    """Why none of `rows` has room.

    Args:
        asks: the pod's containers.
        wishes: the same, for the arrays.
        grid: settled.
        rows: the candidates, by name: of equals the first is told.
        unknown: candidates that are no node of ours.
        name_of: a row's node.
        near: makes a near miss of row, column, asked and free.
    """
    kind = grid.kind[rows]
    free_slots = (grid.limit - grid.slots)[rows]
    without = unknown + int((kind[:, 0] == 0).sum())
    no_cards = (NodesShort(NodeLack.NO_CARDS, without),) if without else ()
    never = not _any_room_when_empty(wishes, grid)
    for ask, asked in zip(asks, wishes, strict=True):
        # In parts that stay in the processor's cache.
        parts = [_lacks(asked, grid, rows[i : i + _AT_ONCE]) for i in range(0, rows.size, _AT_ONCE)]
        lacking = np.concatenate(parts) if parts else np.zeros(kind.shape, np.int8)
        fits = (lacking == _FITS).sum(axis=1)
        wanted = asked.request.cards
        if not ((fits >= wanted) & (free_slots >= wanted)).any():
            short = _nodes_short(fits, free_slots, wanted, rows, name_of)
            cards = _cards_short(asked, lacking, grid, rows, near)
            return FleetNoRoom(tuple(asks), ask.container, never, rows.size + unknown, cards, (*short, *no_cards))
    together = NodesShort(NodeLack.TOGETHER, int(rows.size))
    return FleetNoRoom(
        tuple(asks), asks[0].container if asks else "", never, rows.size + unknown, (), (together, *no_cards)
    )


def _any_room_when_empty(wishes: Sequence[Wish], grid: Grid) -> bool:
    """Whether some node would do if it were empty and well.  Without any node nothing is known."""
    if not grid.kind.any():
        return True
    for asked in wishes:
        would_do = asked.vram <= grid.totals
        would_do[0] = False  # no card
        cells = would_do.take(grid.kind)
        if asked.cells is not None:
            cells &= asked.cells
        if not (cells.sum(axis=1) >= asked.request.cards).any():
            return False
    return len(wishes) == 1 or fits_an_empty_node(wishes, grid)


def _nodes_short(
    fits: Ints, free_slots: Ints, wanted: int, rows: Ints, name_of: Callable[[int], str]
) -> tuple[NodesShort, ...]:
    found = []
    few = (fits > 0) & (fits < wanted)
    full = (fits >= wanted) & (free_slots < wanted)
    for lack, short, has in ((NodeLack.CARDS, few, fits), (NodeLack.KUBELET_SLOTS, full, free_slots)):
        if short.any():
            best = int(np.where(short, has, -_FAR).argmax())
            found.append(NodesShort(lack, int(short.sum()), name_of(int(rows[best])), wanted, max(0, int(has[best]))))
    return tuple(found)


def _cards_short(
    asked: Wish, lacking: Numbers, grid: Grid, rows: Ints, near: Callable[[int, int, int, int], NearMiss]
) -> tuple[CardsShort, ...]:
    """What each card lacks, counted; the most frequent first."""
    counts = np.bincount(lacking.ravel() - _ABSENT)
    found = []
    for number, lack in enumerate(_LACKS):
        count = int(counts[number - _ABSENT]) if number - _ABSENT < counts.size else 0
        if not count:
            continue
        mask = lacking == number
        wanted, free = _asked_and_free(lack, asked, grid, rows)
        missing = free if lack is Lack.EMPTY else wanted - free
        row, column = np.unravel_index(np.where(mask, missing, _FAR).argmin(), mask.shape)
        nearest = near(int(rows[row]), int(column), int(wanted[row, column]), int(free[row, column]))
        found.append(CardsShort(lack, count, int(mask.any(axis=1).sum()), nearest))
    return tuple(sorted(found, key=lambda short: -short.cards))


def _asked_and_free(lack: Lack, asked: Wish, grid: Grid, rows: Ints) -> tuple[Ints, Ints]:
    """[candidates, columns] in the unit of `lack`: what is asked for, and what there is."""
    kind = grid.kind[rows]
    nothing = np.zeros_like(kind)
    if lack is Lack.SIZE:
        return asked.vram.take(kind), grid.totals.take(kind)
    if lack is Lack.VRAM:
        return asked.vram.take(kind), grid.free_vram[rows]
    if lack is Lack.CORES:
        return nothing + asked.request.cores, grid.free_cores[rows]
    if lack is Lack.EMPTY:
        return nothing, grid.slices[rows]
    if lack is Lack.SLICES:
        return nothing + 1, nothing
    return nothing, nothing


def _lacks(asked: Wish, grid: Grid, rows: Ints) -> Numbers:
    """[candidates, columns] what each card lacks, as `placement.shortfall` judges: its number in the order of `Lack`;
    `_FITS`; `_ABSENT` where there is no card.
    """
    kind, slices = grid.kind[rows], grid.slices[rows]
    need = asked.vram.take(kind)
    unwanted: Bools = need == NEVER
    if asked.cells is not None:
        unwanted |= ~asked.cells[rows]
    empty = slices > 0 if asked.needs_empty else np.zeros_like(unwanted)
    status = grid.open[rows]
    judged: tuple[tuple[Lack, Bools], ...] = (
        (Lack.HEALTH, status == ILL),
        (Lack.CORDON, status == CORDONED),
        (Lack.WISH, unwanted),
        (Lack.SIZE, need > grid.totals.take(kind)),
        (Lack.TAKEN, grid.alone[rows] > 0),
        (Lack.EMPTY, empty),
        (Lack.SLICES, slices >= grid.split[rows]),
        (Lack.VRAM, need > grid.free_vram[rows]),
        (Lack.CORES, grid.free_cores[rows] < asked.least_cores),
    )
    lacking = np.full(kind.shape, _FITS, np.int8)
    for lack, mask in reversed(judged):
        np.copyto(lacking, _LACKS.index(lack), where=mask)
    np.copyto(lacking, _ABSENT, where=kind == 0)
    return lacking
