"""The report as Markdown.  Pure: `run` has tried and measured it all."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .column import OURS, RAW, Column
from .costs import Cost, Estimate, Measured, Training, estimate
from .ways import FAILURES, UNDO_MS, Kind, Try, Verdict, Way

_ABOUT_WAYS = f"""\
MiB are NVML's figure of the way's processes, asked from outside while the way held all it got; of memory that
NVML doesn't show, what the calls granted. PASSED: more than the limit, then or for over {UNDO_MS} ms before.
BREAKS: another error than CUDA_ERROR_OUT_OF_MEMORY, or a crash. A way shows nothing where it stays within the
limit, or ends the program, without any limiter too."""
_ABOUT_COSTS = """\
Medians of the rounds' medians, the columns by turns. A call's addition is measured in one process, between the
call as a program makes it and the driver's own function; without a limiter the same difference, given after ±,
is the noise. A start's addition is the median difference to the start without a limiter in the same round.
In brackets, where the median lies with 95 % of certainty."""
_ABOUT_TRAININGS = """\
By turns, in windows of 0.03 s, every step waited for, on the same two cores. A process with a limiter trains through
it and past it by turns: past it, each of its wrappers begins with a jump to the driver's function. What is kept is the
median over the windows of the speed through beside the speed past; in brackets, where that median lies with 95 % of
certainty. Without a limiter is another process: by what it differs from one past its limiter, any two processes do."""


@dataclass
class Results:
    """A whole run.

    Attributes:
        facts: what there was on the machine, name and value.
        ways: by way, the tries by column.
        costs: by measurement, the figures by column; trainings likewise.
        left_out: parts that were not run, and why.
    """

    date: str
    card: str
    limit: int
    columns: Sequence[Column]
    simulated: bool = False
    facts: list[tuple[str, str]] = field(default_factory=list)
    ways: list[tuple[Way, Mapping[str, Try]]] = field(default_factory=list)
    costs: list[tuple[Cost, Mapping[str, Measured]]] = field(default_factory=list)
    trainings: list[tuple[Training, Mapping[str, Measured]]] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)

    @property
    def folder(self) -> str:
        """Its name: "2026-11-29-nvidia-h200-limiter"."""
        card = re.sub(r"[^a-z0-9]+", "-", self.card.lower()).strip("-")
        return f"{self.date}-{card}{'-simulated' if self.simulated else ''}-limiter"

    @property
    def failed(self) -> list[Way]:
        """The ways by which our own limiter failed."""
        return [w for w, tries in self.ways if not w.beyond and OURS in tries and tries[OURS].verdict in FAILURES]


def render(results: Results) -> str:
    """The report: the counts first, then the tables, then what they mean."""
    card = f"a simulated {results.card}" if results.simulated else f"one {results.card}"
    parts = [
        f"# The VRAM limit on {card}, {results.date}",
        "Written by `python -m bench.limiter.run`; every answer and every figure is in raw.log.",
        _table(("", ""), results.facts),
    ]
    if results.ways:
        parts += _ways(results)
    if results.costs:
        parts += _costs(results)
    if results.trainings:
        parts += _trainings(results)
    if results.left_out:
        parts += ["## Left out", _table(("part", "why"), results.left_out)]
    return "\n\n".join(parts) + "\n"


def _ways(results: Results) -> list[str]:
    judged = [(w, t) for w, t in results.ways if not w.beyond]
    beyond = [(w, t) for w, t in results.ways if w.beyond]
    head = ("way", *(c.title for c in results.columns))
    parts = [
        f"## Ways past a limit of {results.limit} MiB",
        _counts(results, judged),
        _table(head, [_way_row(results, w, t) for w, t in judged]),
        _ABOUT_WAYS,
    ]
    if beyond:
        rows = [_way_row(results, w, t) for w, t in beyond]
        parts += ["### Beyond any preloaded library", "Shown, not judged.", _table(head, rows)]
    return parts


def _counts(results: Results, judged: Sequence[tuple[Way, Mapping[str, Try]]]) -> str:
    rows = []
    for column in results.columns:
        if column.key == RAW:
            continue
        verdicts = [t[column.key].verdict for _, t in judged if column.key in t]
        told = [v for v in verdicts if v not in (Verdict.NOTHING, Verdict.LEFT_OUT)]
        counts = [str(sum(v is kind for v in told)) for kind in (Verdict.HELD, *FAILURES, Verdict.NEEDS_MOUNT)]
        rows.append((column.title, str(len(told)), *counts))
    kinds = (Verdict.HELD, *FAILURES, Verdict.NEEDS_MOUNT)
    return _table(("", "ways that tell", *(k.value for k in kinds)), rows)


def _way_row(results: Results, way: Way, tries: Mapping[str, Try]) -> tuple[str, ...]:
    return (way.title, *(_cell(way, c, tries[c.key], results.limit) if c.key in tries else "" for c in results.columns))


def _cell(way: Way, column: Column, tried: Try, limit: int) -> str:
    told = not way.beyond and not (column.key == RAW and tried.verdict is Verdict.HELD)
    words = [_strong(tried.verdict)] if told else []
    amount = tried.granted if way.kind is Kind.LEDGER else tried.held
    if amount is not None:
        words.append(f"{amount} MiB" + (" granted" if way.kind is Kind.LEDGER else ""))
    if way.kind is Kind.RETURNS and tried.expected:
        words.append(f"{tried.granted} of {tried.expected} MiB came back")
    if column.key != RAW and tried.refusal:
        words.append(f"{tried.refusal}: {tried.code}")
    if tried.seen and column.key != RAW and tried.seen.peak > limit >= (tried.held or 0):
        words.append(f"peak {tried.seen.peak} MiB, above for {tried.seen.above_ms:.0f} ms")
    if tried.note:
        words.append(tried.note)
    return ", ".join(words)


def _strong(verdict: Verdict) -> str:
    return f"**{verdict.value}**" if verdict in FAILURES else verdict.value


def _costs(results: Results) -> list[str]:
    head = ["what", "no limiter"]
    others = [c for c in results.columns if c.key != RAW]
    for column in others:
        head += [column.title, "added"]
    rows = [_cost_row(cost, figures, others) for cost, figures in results.costs]
    return [
        "## What it costs",
        _table((*head, "goal"), rows),
        _ABOUT_COSTS,
    ]


def _cost_row(cost: Cost, figures: Mapping[str, Measured], others: Sequence[Column]) -> tuple[str, ...]:
    raw = figures.get(RAW)
    row = [cost.title, _plain(cost, raw)]
    for column in others:
        measured = figures.get(column.key)
        row += [_plain(cost, measured, noise=False), _added(cost, measured, raw, judged=column.key == OURS)]
    return (*row, f"+{_amount(cost, cost.goal)}")


def _plain(cost: Cost, measured: Measured | None, *, noise: bool = True) -> str:
    if measured is None:
        return ""
    if measured.ns is None:
        return measured.failure
    text = _amount(cost, measured.ns)
    if noise and measured.added is not None:
        text += f" ±{max(abs(measured.added.low), abs(measured.added.high)) / cost.unit[0]:.0f}"
    return text + (f" ({measured.failure})" if measured.failure else "")


def _added(cost: Cost, measured: Measured | None, raw: Measured | None, *, judged: bool) -> str:
    added = what_was_added(measured, raw)
    if added is None:
        return ""
    text = f"{_signed(cost, added.median)} ({_signed(cost, added.low)} to {_signed(cost, added.high)})"
    if not judged or added.median <= cost.goal:
        return text
    return f"**{text}: over**" if added.low > cost.goal else f"{text}: over or not, can't be told"


def what_was_added(measured: Measured | None, raw: Measured | None) -> Estimate | None:
    """What a limiter adds, in ns; None where that wasn't measured."""
    if measured is None:
        return None
    if measured.added is not None:
        return measured.added
    if raw is None or not raw.through or not measured.through:
        return None
    # a column that was lost has fewer rounds
    return estimate([m - r for m, r in zip(measured.through, raw.through, strict=False)])


def _signed(cost: Cost, ns: float) -> str:
    return f"{'+' if ns >= 0 else '−'}{_amount(cost, abs(ns))}"


def _amount(cost: Cost, ns: float) -> str:
    factor, unit = cost.unit
    value = ns / factor
    return f"{value:,.0f} {unit}" if value >= 10 else f"{value:.1f} {unit}"


def _trainings(results: Results) -> list[str]:
    others = [c for c in results.columns if c.key != RAW]
    head = ["training", "no limiter"]
    for column in others:
        head += [column.title, "past it", "kept"]
    rows = []
    for training, figures in results.trainings:
        row = [training.title, _speed(figures.get(RAW))]
        for column in others:
            measured = figures.get(column.key)
            row += [_speed(measured), _speed_past(measured), _kept(training, measured, judged=column.key == OURS)]
        rows.append((*row, f"{training.goal:g} %"))
    return [
        "## PyTorch, steps a second",
        _table((*head, "goal"), rows),
        _ABOUT_TRAININGS,
    ]


def _speed(measured: Measured | None) -> str:
    if measured is None:
        return ""
    return f"{1e9 / measured.ns:,.1f}" if measured.ns else measured.failure


def _speed_past(measured: Measured | None) -> str:
    return f"{1e9 / statistics.median(measured.direct):,.1f}" if measured and measured.direct else ""


def _kept(training: Training, measured: Measured | None, *, judged: bool) -> str:
    if measured is None or not measured.direct:
        return ""
    percent = estimate([100 * d / t for t, d in zip(measured.through, measured.direct, strict=True)])
    text = f"{percent.median:.2f} % ({percent.low:.2f} to {percent.high:.2f})"
    if not judged or percent.median >= training.goal:
        return text
    return f"**{text}: under**" if percent.high < training.goal else f"{text}: under or not, can't be told"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)
