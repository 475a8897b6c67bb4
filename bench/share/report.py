"""The tables as Markdown and the plots.  Pure but for writing the pictures: `run` has measured it all."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .ground import Launch, Outcome
from .scenarios import OTHER, OURS, QUOTAS, RAW, SCENARIOS, Scenario, Tenant

_TITLES = {RAW: "no limiter", OURS: "ours", OTHER: "HAMi-core"}
_ABOUT = """\
How much of the card a tenant had is what the card finished for it in the time, beside what the card finishes of the
same work alone: nothing is asked of a limiter. A training step counts as what it takes when it is launched behind
other work, so that the card needn't wait for the processor. The figures are those of the seconds after the first
one; the first stands beside them."""


@dataclass
class Results:
    """A whole run.

    Attributes:
        facts: what there was on the machine.
        outcomes: by scenario and column, what each process of each tenant got; a sentence if it failed.
        launches: by threads, cores, column.
        left_out: what was not run, and why.
    """

    date: str
    card: str
    simulated: bool
    facts: list[tuple[str, str]] = field(default_factory=list)
    outcomes: list[tuple[Scenario, dict[str, list[list[Outcome]] | str]]] = field(default_factory=list)
    launches: dict[tuple[int, int, str], Launch] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)

    @property
    def folder(self) -> str:
        """Its name: "2026-11-29-nvidia-h200-share"."""
        card = re.sub(r"[^a-z0-9]+", "-", self.card.lower()).strip("-")
        return f"{self.date}-{card}{'-simulated' if self.simulated else ''}-share"


def render(results: Results) -> str:
    """The report."""
    parts = [
        f"# The core share on {'a simulated ' if results.simulated else ''}{results.card}, {results.date}",
        "",
        _ABOUT,
        "",
    ]
    parts += ["| | |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in results.facts), ""]
    parts += _hard(results)
    parts += _elastic(results)
    parts += _interactive(results)
    parts += _launches(results)
    if results.left_out:
        parts += ["## Left out", "", *(f"* {line}" for line in results.left_out), ""]
    return "\n".join(parts)


def share(outcomes: Sequence[Outcome]) -> float:
    """Percent of the card that a tenant's processes had together, after the first second."""
    return sum(outcome.later for outcome in outcomes)


def _of(results: Results, group: str) -> list[tuple[Scenario, dict[str, list[list[Outcome]] | str]]]:
    rows = [(scenario, columns) for scenario, columns in results.outcomes if scenario.group == group]
    return sorted(rows, key=lambda row: SCENARIOS.index(row[0]))


def _hard(results: Results) -> list[str]:
    rows = _of(results, "hard")
    if not rows:
        return []
    lines = ["## A hard cap (`GPU_CORE_UTILIZATION_POLICY=force`)", "", "Percent of the card.", ""]
    lines += ["| | ours | off by | ours, first second | HAMi-core |", "| --- | --- | --- | --- | --- |"]
    for scenario, columns in rows:
        quota = scenario.tenants[0].cores
        ours, other = columns.get(OURS), columns.get(OTHER)
        if isinstance(ours, list):
            got = share(ours[0])
            cells = [f"{got:.1f}", f"{got - quota:+.1f}", f"{sum(o.first for o in ours[0]):.1f}"]
        else:
            cells = [ours or "", "", ""]
        cells.append(f"{share(other[0]):.1f}" if isinstance(other, list) else other or "")
        lines.append(f"| {scenario.title} | {' | '.join(cells)} |")
    return [*lines, "", "![Quota and share](quota.png)", ""]


def _elastic(results: Results) -> list[str]:
    rows = _of(results, "elastic")
    if not rows:
        return []
    lines = ["## Lent and shared (`default`)", "", "Percent of the card, tenant by tenant.", ""]
    lines += ["| | ours | sum | furthest from its part | longest gap, ms | no limiter | HAMi-core |"]
    lines += ["| --- |" + " --- |" * 6]
    for scenario, columns in rows:
        ours, cells = columns.get(OURS), ["", "", "", ""]
        if isinstance(ours, list):
            got = [share(o) for o in ours]
            gaps = " / ".join(f"{o[0].gap:.0f}" for o in ours if o[0].gap)
            cells = [" / ".join(f"{g:.1f}" for g in got), f"{sum(got):.1f}", _furthest(scenario, got), gaps]
        elif ours:
            cells[0] = ours
        cells += [_shares(columns.get(column)) for column in (RAW, OTHER)]
        lines.append(f"| {scenario.title} | {' | '.join(cells)} |")
    return [*lines, ""]


def _shares(outcomes: list[list[Outcome]] | str | None) -> str:
    return " / ".join(f"{share(o):.1f}" for o in outcomes) if isinstance(outcomes, list) else outcomes or ""


def _furthest(scenario: Scenario, got: Sequence[float]) -> str:
    tenants = scenario.tenants
    if len(tenants) < 2 or any(t.high or t.struck or t.policy == "force" for t in tenants):
        return ""
    quotas, total = sum(t.cores for t in tenants), sum(got)
    errors = [g / total / (t.cores / quotas) - 1 for t, g in zip(tenants, got, strict=True)]
    worst = max(errors, key=abs)
    return f"{100 * worst:+.1f} %"


def _interactive(results: Results) -> list[str]:
    rows = _of(results, "interactive")
    if not rows:
        return []
    alone = next((c.get(RAW) for s, c in rows if s.name == "burst-alone"), None)
    base = statistics.median(alone[0][0].bursts) if isinstance(alone, list) and alone[0][0].bursts else None
    lines = [
        "## 2.5 ms of work every 50 ms",
        "",
        "From the first launch until all of it is waited for, ms: median, 99th percentile, and times the median alone.",
    ]
    lines += [
        "",
        "| | " + " | ".join(_TITLES[c] for c in (RAW, OURS, OTHER)) + " | neighbours with ours |",
        "| --- |" + " --- |" * 4,
    ]
    for scenario, columns in rows:
        cells = [_latency(columns.get(column), base) for column in (RAW, OURS, OTHER)]
        ours = columns.get(OURS)
        others = " / ".join(f"{share(o):.1f}" for o in ours[1:]) if isinstance(ours, list) else ""
        lines.append(f"| {scenario.title} | {' | '.join(cells)} | {others} |")
    return [*lines, "", "![Latency beside neighbours](bursts.png)", ""]


def _latency(outcomes: list[list[Outcome]] | str | None, base: float | None) -> str:
    if not isinstance(outcomes, list):
        return outcomes or ""
    low, high = percentiles(outcomes[0][0].bursts)
    times = f" ({low / base:.2f}, {high / base:.2f})" if base else ""
    return f"{low:.2f}, {high:.2f}{times}"


def percentiles(bursts: Sequence[float]) -> tuple[float, float]:
    """Median and 99th percentile; the first few, which warm up, don't count."""
    kept = sorted(bursts[3:]) or [0.0]
    return kept[len(kept) // 2], kept[min(len(kept) - 1, round(len(kept) * 0.99))]


def _launches(results: Results) -> list[str]:
    if not results.launches:
        return []
    lines = ["## What a launch costs the processor", ""]
    lines += ["ns a call of cuLaunchKernel. In one process batches of the driver's own call, found past every limiter,"]
    lines += [
        "take turns with batches of the call that the program is given: medians of the differences, and in brackets"
    ]
    lines += ["their 95 % intervals. What is added without a limiter says how well that can be told.", ""]
    lines += ["| threads | the driver's own | no limiter | ours, no core share | ours, 25 % | HAMi-core, 25 % |"]
    lines += ["| --- |" + " --- |" * 5]
    for threads in sorted({key[0] for key in results.launches}):
        keys = [(threads, 0, RAW), (threads, 0, OURS), (threads, 25, OURS), (threads, 25, OTHER)]
        found = [results.launches.get(key) for key in keys]
        straight = next((f"{launch.straight:.0f}" for launch in found if launch), "")
        lines.append(f"| {threads} | {straight} | {' | '.join(_added(launch) for launch in found)} |")
    return [*lines, ""]


def _added(launch: Launch | None) -> str:
    return f"{launch.added:+.0f} ({launch.low:+.0f} to {launch.high:+.0f})" if launch else ""


def draw(results: Results, folder: Path) -> None:
    """quota.png and bursts.png, as far as there are figures."""
    import matplotlib

    matplotlib.use("Agg")
    _draw_quotas(results, folder)
    _draw_bursts(results, folder)


_COLOURS = {RAW: "#999999", OURS: "#1b6ac9", OTHER: "#d1495b"}


def _draw_quotas(results: Results, folder: Path) -> None:
    import matplotlib.pyplot as plt

    quotas = {s.tenants[0].cores: c for s, c in results.outcomes if s.name.startswith("quota-")}
    if not quotas:
        return
    figure, axes = plt.subplots(figsize=(6, 5))
    axes.plot([0, 100], [0, 100], color="#999999", linewidth=1, label="wanted")
    for column in (OURS, OTHER):
        points = [(q, share(c[column][0])) for q, c in sorted(quotas.items()) if isinstance(c.get(column), list)]  # type: ignore[arg-type]
        if points:
            axes.plot(*zip(*points, strict=True), "o-", color=_COLOURS[column], label=_TITLES[column])
    axes.set(xlabel="quota, % of the card", ylabel="share got, % of the card", xlim=(0, 100), ylim=(0, 105))
    axes.set(xticks=[0, *QUOTAS, 100])
    axes.legend()
    figure.savefig(folder / "quota.png", dpi=120, bbox_inches="tight")
    plt.close(figure)


def _draw_bursts(results: Results, folder: Path) -> None:
    import matplotlib.pyplot as plt
    from matplotlib.patches import Patch

    rows = _of(results, "interactive")
    if not rows:
        return
    figure, axes = plt.subplots(figsize=(8, 4))
    for number, column in enumerate((RAW, OURS, OTHER)):
        for row, (_, columns) in enumerate(rows):
            outcomes = columns.get(column)
            if isinstance(outcomes, list):
                low, high = percentiles(outcomes[0][0].bursts)
                at = row + 0.27 * (number - 1)
                axes.barh(at, low, 0.25, color=_COLOURS[column])
                axes.plot([low, high], [at] * 2, color="black", linewidth=1)
    axes.set(yticks=range(len(rows)), yticklabels=[s.title for s, _ in rows])
    axes.set(xlabel="2.5 ms of work took, ms (line: to the 99th percentile)")
    axes.invert_yaxis()
    axes.legend(handles=[Patch(color=_COLOURS[column], label=_TITLES[column]) for column in (RAW, OURS, OTHER)])
    figure.savefig(folder / "bursts.png", dpi=120, bbox_inches="tight")
    plt.close(figure)


def describe(tenant: Tenant) -> str:
    """For the log."""
    return f"{tenant.cores} % {tenant.policy} {tenant.us} us {dict(tenant.does)} x{tenant.processes}"
