"""Several containers on one node, tried in every way, where taking the best card for one after the other fails.

Rare, so it is plain Python on one node at a time, and it gives up after a bounded number of steps: then the pod waits
as if there were no room, which is never unsafe.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .choice import Pick, Wish, fitting
from .grid import Grid, Ints

_STEPS = 5_000


@dataclass(slots=True)
class _Cell:
    """What is free of one card."""

    kind: int
    vram: int
    cores: int
    slots: int
    slices: int
    shut: bool


def place_together(wishes: Sequence[Wish], grid: Grid, rows: Ints) -> Pick | None:
    """A place for all of `wishes` on one of `rows`, or None."""
    possible = grid.limit - grid.slots >= sum(asked.request.cards for asked in wishes)
    for asked in wishes:
        possible &= fitting(asked, grid).sum(axis=1) >= asked.request.cards
    search = _Search(wishes)
    for row in rows[possible[rows]]:
        cells = [
            _Cell(
                int(grid.kind[row, column]),
                int(grid.free_vram[row, column]),
                int(grid.free_cores[row, column]),
                int(grid.split[row, column] - grid.slices[row, column]),
                int(grid.slices[row, column]),
                shut=grid.free_vram[row, column] < 0,
            )
            for column in range(grid.kind.shape[1])
        ]
        columns = search.on(int(row), cells)
        if columns is not None:
            return Pick(int(row), columns)
    return None


def fits_an_empty_node(wishes: Sequence[Wish], grid: Grid) -> bool:
    """Whether all of `wishes` would have room together on some node, if nobody held anything of it."""
    search = _Search(wishes)
    _, examples = np.unique(np.stack([grid.kind, grid.split], axis=1), axis=0, return_index=True)
    for row in examples:
        cells = [
            _Cell(int(kind), int(grid.totals[kind]), 100, int(split), 0, shut=not kind)
            for kind, split in zip(grid.kind[row], grid.split[row], strict=True)
        ]
        if search.on(int(row), cells) is not None:
            return True
    return search.steps <= 0  # not known: then it isn't said


class _Search:
    """Depth first over the cards that are wanted, with so many steps for all nodes together."""

    def __init__(self, wishes: Sequence[Wish]) -> None:
        # One without cores of its own only asks that some are left, so it goes before those that take the last.
        ordered = sorted(enumerate(wishes), key=lambda wanted: wanted[1].cores > 0)
        self._wanted = [(i, asked) for i, asked in ordered for _ in range(asked.request.cards)]
        self._count = len(wishes)
        self.steps = _STEPS

    def on(self, row: int, cells: list[_Cell]) -> tuple[tuple[int, ...], ...] | None:
        """The columns for each wish on the node of `row`."""
        taken: list[int] = []
        if not self._go(row, cells, taken):
            return None
        columns: list[list[int]] = [[] for _ in range(self._count)]
        for (i, _), column in zip(self._wanted, taken, strict=True):
            columns[i].append(column)
        return tuple(map(tuple, columns))

    def _go(self, row: int, cells: list[_Cell], taken: list[int]) -> bool:
        if len(taken) == len(self._wanted):
            return True
        i, asked = self._wanted[len(taken)]
        again = bool(taken) and self._wanted[len(taken) - 1][0] == i
        for column in range(taken[-1] + 1 if again else 0, len(cells)):
            if self.steps <= 0:
                return False
            self.steps -= 1
            cell, need = cells[column], int(asked.vram[cells[column].kind])
            if not _fits(asked, cell, need) or (asked.cells is not None and not asked.cells[row, column]):
                continue
            before = (cell.vram, cell.cores, cell.slots, cell.slices, cell.shut)
            cell.vram, cell.cores = cell.vram - need, cell.cores - asked.cores
            cell.slots, cell.slices, cell.shut = cell.slots - 1, cell.slices + 1, asked.request.exclusive
            taken.append(column)
            if self._go(row, cells, taken):
                return True
            taken.pop()
            cell.vram, cell.cores, cell.slots, cell.slices, cell.shut = before
        return False


def _fits(asked: Wish, cell: _Cell, need: int) -> bool:
    return (
        not cell.shut
        and cell.slots >= 1
        and need <= cell.vram
        and asked.least_cores <= cell.cores
        and not (asked.needs_empty and cell.slices)
    )
