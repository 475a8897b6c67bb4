"""All cards of all nodes as arrays: one row a node, one column a card.  Counts only; what a count is worth to others is
in `worth`, which card is taken in `choice`, who holds what in `books`.

Invariant: the sums are those of the shares added and not yet removed; what is free follows from them in `settle`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ..cards import WHOLE_CORES, Card
from ..slices import CardShare

Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]

# Free VRAM of a card that takes no slice at all: less than anybody asks for.
SHUT = -1
UNKNOWN_CPU = 1 << 40  # more than any node has
# Of a card, in `open`; 0 where there is none.
OPEN, ILL, CORDONED = 1, 2, 3


@dataclass(frozen=True, slots=True)
class Kind:
    """Cards that are alike: what a request comes to is the same on each."""

    model: str
    vram: int


class Grid:
    """The arrays.  Rows and columns grow; a freed row is used again.

    Attributes:
        kinds: of cards, as numbered in `kind`.
        kind: [rows, columns] of each card; 0 where there is none, which is a kind of no memory.
        open: [rows, columns] `OPEN`, `ILL` or `CORDONED`; 0 where there is no card.
        vram, cores, slices, alone: [rows, columns] sums of what is held: MiB, percent, slices, exclusive slices.
        split: [rows, columns] slices that a card is cut into at most.
        limit: [rows] `nvidia.com/gpu` that the node offers.
        slots: [rows] of these, how many the kubelet counts as used.
        cpu, used_cpu: [rows] thousandths of a CPU that the node has (`UNKNOWN_CPU`: not known), and that are requested.
        free_cpu: [rows] what follows from them.
        free_vram: [rows, columns] MiB that a slice could take now; `SHUT` where none can.
        free_cores: [rows, columns] percent, likewise.
        spare_vram, spare_cores: [rows, columns] what nobody holds, also where no slice can come for want of slots.
    """

    def __init__(self) -> None:
        self.kinds: list[Kind] = [Kind("", 0)]
        self._kind_numbers: dict[Kind, int] = {self.kinds[0]: 0}
        self._free_rows: list[int] = []
        self._stale: set[int] = set()
        self.limit = np.zeros(0, np.int64)
        self.slots = np.zeros(0, np.int64)
        self.cpu = np.zeros(0, np.int64)
        self.used_cpu = np.zeros(0, np.int64)
        self.free_cpu = np.zeros(0, np.int64)
        (self.kind, self.vram, self.cores, self.slices, self.alone, self.split, self.open,
         self.free_vram, self.free_cores, self.spare_vram, self.spare_cores) = (
            np.zeros((0, 1), np.int64) for _ in range(11)
        )  # fmt: skip
        self._totals = np.zeros(1, np.int64)

    def take_row(self) -> int:
        """A row for a node that is new."""
        if not self._free_rows:
            rows, columns = self.kind.shape
            self._resize(max(16, rows * 2), columns)
            self._free_rows = list(range(self.kind.shape[0] - 1, rows - 1, -1))
        return self._free_rows.pop()

    def give_row(self, row: int) -> None:
        """The node of `row` is gone."""
        self._clear(row)
        self._free_rows.append(row)

    def set_cards(self, row: int, cards: Sequence[Card], *, limit: int | None, cpu: int | None) -> None:
        """The node of `row` has `cards`, in the order of the columns, and nothing on them.

        Args:
            row: of the node.
            cards: in the order of their columns.
            limit: the kubelet's count, if it is known; it may lag behind.
            cpu: thousandths of a CPU, if it is known.
        """
        if len(cards) > self.kind.shape[1]:
            self._resize(self.kind.shape[0], len(cards))
        self._clear(row)
        self.kind[row, : len(cards)] = [self._kind_of(card) for card in cards]
        self.split[row, : len(cards)] = [card.split_count for card in cards]
        self.open[row, : len(cards)] = [
            (CORDONED if card.cordoned else OPEN) if card.healthy else ILL for card in cards
        ]
        offered = sum(card.split_count for card in cards if card.healthy)
        self.limit[row] = offered if limit is None else min(limit, offered)
        self.cpu[row] = UNKNOWN_CPU if cpu is None else cpu

    def add(self, row: int, column: int, share: CardShare, sign: int = 1) -> None:
        """A slice comes to a card, or leaves it with `sign` -1."""
        self.vram[row, column] += sign * share.vram
        self.cores[row, column] += sign * share.cores
        self.slices[row, column] += sign
        self.alone[row, column] += sign * share.exclusive
        self._stale.add(row)

    def add_pod(self, row: int, slots: int, cpu: int) -> None:
        """The kubelet counts so many more slots of the node as used, and so much CPU as requested; less if negative."""
        self.slots[row] += slots
        self.used_cpu[row] += cpu
        self._stale.add(row)

    def settle(self) -> Ints:
        """Bring what is free up to date; the rows that changed."""
        rows = np.fromiter(self._stale, np.int64, len(self._stale))
        self._stale.clear()
        if not rows.size:
            return rows
        self.free_cpu[rows] = np.where(
            self.cpu[rows] == UNKNOWN_CPU, UNKNOWN_CPU, np.maximum(0, self.cpu[rows] - self.used_cpu[rows])
        )
        total = self._totals[self.kind[rows]]
        spare = (self.open[rows] == OPEN) & (self.alone[rows] == 0)
        takes = spare & (self.slices[rows] < self.split[rows])
        vram = np.maximum(0, total - self.vram[rows])
        cores = np.maximum(0, WHOLE_CORES - self.cores[rows])
        self.spare_vram[rows] = np.where(spare, vram, 0)
        self.spare_cores[rows] = np.where(spare, cores, 0)
        self.free_vram[rows] = np.where(takes, vram, SHUT)
        self.free_cores[rows] = np.where(takes, cores, SHUT)
        return rows

    @property
    def totals(self) -> Ints:
        """MiB of each kind of card."""
        return self._totals

    def _kind_of(self, card: Card) -> int:
        kind = Kind(card.model, card.vram)
        if kind not in self._kind_numbers:
            self._kind_numbers[kind] = len(self.kinds)
            self.kinds.append(kind)
            self._totals = np.array([known.vram for known in self.kinds], np.int64)
        return self._kind_numbers[kind]

    def _clear(self, row: int) -> None:
        for array in self._cells():
            array[row] = 0
        self.limit[row] = self.slots[row] = self.cpu[row] = self.used_cpu[row] = 0
        self._stale.add(row)

    def _cells(self) -> tuple[Ints, ...]:
        return (self.kind, self.vram, self.cores, self.slices, self.alone, self.split, self.open)

    def _resize(self, rows: int, columns: int) -> None:
        old_rows, old_columns = self.kind.shape
        for name in ("kind", "vram", "cores", "slices", "alone", "split", "open",
                     "free_vram", "free_cores", "spare_vram", "spare_cores"):  # fmt: skip
            grown = np.full((rows, columns), SHUT if name.startswith("free") else 0, np.int64)
            grown[:old_rows, :old_columns] = getattr(self, name)
            setattr(self, name, grown)
        for name in ("limit", "slots", "cpu", "used_cpu", "free_cpu"):
            setattr(self, name, np.concatenate([getattr(self, name), np.zeros(rows - old_rows, np.int64)]))
