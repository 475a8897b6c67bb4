"""What is measured and how much more than without a limiter it may cost; and the measuring, by turns."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from .talk import Budget, GoneError, HangError, Talker
from .ways import NO_TIME


@dataclass(frozen=True)
class Cost:
    """One measurement.

    Attributes:
        name: as the program knows it.
        unit: the ns that one of the table's numbers stands for, and its name.
        goal: what a limiter may add, in ns.
        seconds: after which an answer won't come.
        rounds: how often it is taken in each column, by turns.
    """

    name: str
    title: str
    goal: float
    program: str = "cost"
    unit: tuple[float, str] = (1.0, "ns")
    seconds: float = 20
    rounds: int = 15


_SPREADS = 1.96
_MS = (1e6, "ms")
COSTS: Sequence[Cost] = (
    Cost("alloc_4k", "cuMemAlloc of 4 KiB, 3,000 live", 1000),
    Cost("free_4k", "cuMemFree of 4 KiB, 3,000 live", 1000),
    Cost("alloc_64m", "cuMemAlloc of 64 MiB", 1000),
    Cost("free_64m", "cuMemFree of 64 MiB", 1000),
    Cost("alloc_async", "cuMemAllocAsync and cuMemFreeAsync, the pair", 300),
    Cost("alloc_async_default", "the same pair on the default stream", 300),
    Cost("mem_get_info", "cuMemGetInfo", 500),
    Cost("launch_1", "cuLaunchKernel, 1 thread", 30),
    Cost("launch_4", "cuLaunchKernel, 4 threads", 30),
    Cost("launch_16", "cuLaunchKernel, 16 threads", 30),
    Cost("init", "start: a process that calls cuInit", 5e6, "start", _MS, rounds=11),
    Cost("one", "start: a process that makes a context", 5e6, "start", _MS, rounds=21),
    Cost("many", "start: 64 such processes at once", 5e6, "start", _MS, seconds=60, rounds=2),
)


@dataclass(frozen=True)
class Training:
    """One training in PyTorch: `goal` is the percent of its speed without a limiter that must be left."""

    name: str
    title: str
    goal: float = 99.0


# each group in processes of its own, by what PyTorch's allocator is told; the last one has to wait for a compiler
TRAININGS: Sequence[tuple[str, Sequence[Training]]] = (
    (
        "",
        (
            Training("mlp-eager", "MLP, eager"),
            Training("mlp-graph", "MLP, CUDA graph"),
            Training("gpt-eager", "GPT, eager"),
            Training("gpt-graph", "GPT, CUDA graph"),
        ),
    ),
    (
        "backend:cudaMallocAsync",
        (
            Training("mlp-eager", "MLP, eager, cudaMallocAsync"),
            Training("gpt-eager", "GPT, eager, cudaMallocAsync"),
        ),
    ),
    (
        "expandable_segments:True",
        (
            Training("mlp-eager", "MLP, eager, expandable_segments"),
            Training("gpt-eager", "GPT, eager, expandable_segments"),
        ),
    ),
    (
        "",
        (
            Training("mlp-compiled", "MLP, torch.compile"),
            Training("gpt-compiled", "GPT, torch.compile"),
        ),
    ),
)
TRAINING_ROUNDS = 200
TRAINING_SECONDS = 120  # with the compiler's
TRAINING_START_SECONDS = 90


@dataclass(frozen=True)
class Estimate:
    """A median, and between which values it lies with 95 % of certainty, whatever the values' distribution."""

    median: float
    low: float
    high: float


def estimate(values: Sequence[float]) -> Estimate:
    """Of at least one value; few of them are certain of nothing but their own range."""
    ranked = sorted(values)
    # of n values about n/2 ± sqrt(n)/2 lie below the true median: the binomial's spread
    beyond = max(0, math.floor((len(ranked) - _SPREADS * math.sqrt(len(ranked))) / 2))
    return Estimate(statistics.median(ranked), ranked[beyond], ranked[-1 - beyond])


@dataclass
class Measured:
    """One cost in one column: the answers by round, in ns; `direct` past the limiter in the same process.

    Attributes:
        failure: why there are no more of them; "" if all went well.
    """

    through: list[float] = field(default_factory=list)
    direct: list[float] = field(default_factory=list)
    failure: str = ""

    @property
    def ns(self) -> float | None:
        """The median of the rounds."""
        return statistics.median(self.through) if self.through else None

    @property
    def added(self) -> Estimate | None:
        """What the limiter adds, by turns in one process; None where that can't be told."""
        return estimate([t - d for t, d in zip(self.through, self.direct, strict=True)]) if self.direct else None


class Turns:
    """One program in each column, asked by turns, so that whatever else the machine does meets all columns alike.

    Attributes:
        lost: the columns that are asked no more, and why.
    """

    def __init__(self, budget: Budget) -> None:
        self._talkers: dict[str, Talker] = {}
        self._starting: list[str] = []
        self._budget = budget
        self.lost: dict[str, str] = {}

    def add(self, column: str, talker: Talker) -> None:
        """A program that was started."""
        self._talkers[column] = talker
        self._starting.append(column)

    def await_ready(self, *, seconds: float) -> None:
        """Until each says that it is ready."""
        while self._starting:
            column = self._starting.pop(0)
            line = self._hear(column, seconds)
            if line not in (None, "ready"):
                self._lose(column, str(line).removeprefix("error "))

    def ask(self, question: str, *, rounds: int, seconds: float) -> dict[str, Measured]:
        """The answers of every column.  Each round begins with the next one."""
        measured = {column: Measured(failure=why) for column, why in self.lost.items()}
        measured |= {column: Measured() for column in self._talkers}
        for turn in range(rounds):
            for column in _from(list(self._talkers), turn):
                result = measured[column]
                if result.failure:
                    continue
                self._talkers[column].say(question)
                line = self._hear(column, seconds)
                if line is None:
                    result.failure = self.lost[column]
                else:
                    _take(line, result)
        return measured

    def close(self) -> None:
        """End all programs."""
        for talker in self._talkers.values():
            talker.end()

    def _hear(self, column: str, seconds: float) -> str | None:
        try:
            return self._talkers[column].hear(until=self._budget.until(seconds))
        except HangError:
            self._lose(column, NO_TIME if self._budget.spent else f"hangs: no answer in {seconds:g} s")
        except GoneError as error:
            self._lose(column, str(error))
        return None

    def _lose(self, column: str, why: str) -> None:
        self.lost[column] = why
        self._talkers.pop(column).end()


def _from(columns: list[str], turn: int) -> list[str]:
    at = turn % len(columns) if columns else 0
    return columns[at:] + columns[:at]


def _take(line: str, result: Measured) -> None:
    name, *numbers = line.split()
    if name == "error" or not numbers:
        result.failure = line.removeprefix("error ")
        return
    result.through.append(float(numbers[0]))
    if len(numbers) > 1:
        result.direct.append(float(numbers[1]))
