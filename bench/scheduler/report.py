"""The figures as a page: one table a question, goals and earlier figures beside them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from .bursts import SHAPES, Burst
from .filters import Filtered

# Pods a second of HAMi v2.10.0, measured earlier on a machine of the same kind: default limits, and raised ones.
EARLIER = {
    "100 pods, 1 node": ("0.19, 58 bound", "1.17"),
    "100 pods, 10 nodes": ("0.27", "1.16"),
    "100 pods, 100 nodes": ("0.29", "1.87"),
    "100 pods, 100 nodes, spread": ("", "29.6"),
}
# p50 / p99 in ms of its filter call with raised limits, by nodes and pods.
EARLIER_FILTER = {
    (10, 0): "7.0 / 15", (10, 200): "9.3 / 17", (100, 0): "12 / 30", (100, 1000): "32 / 49", (100, 2000): "48 / 65",
    (1000, 0): "76 / 107", (1000, 1000): "95 / 144", (1000, 10000): "316 / 730", (5000, 10000): "597 / 1609",
}  # fmt: skip


@dataclass(slots=True)
class Results:
    """Everything that was measured, by contestant."""

    bursts: dict[str, dict[str, Burst]] = field(default_factory=dict)
    filters: dict[str, dict[tuple[int, int], Filtered]] = field(default_factory=dict)


def render(results: Results, facts: Mapping[str, str], command: str) -> str:
    """The page, as Markdown."""
    parts = ["# The scheduler, measured", f"    {command}", _table(("what", "value"), facts.items())]
    if results.bursts:
        parts += ["## From creation to bound", _bursts(results.bursts)]
        parts += ["## API writes a pod (leases left out)", *_writes(results.bursts)]
    if results.filters:
        parts += [
            "## One filter call: all nodes as candidates, ms of the whole HTTP call",
            _filters(results.filters),
        ]
    return "\n\n".join(parts) + "\n"


def _bursts(bursts: Mapping[str, Mapping[str, Burst]]) -> str:
    rows = []
    for shape in SHAPES:
        alone = bursts.get("kube-scheduler alone", {}).get(shape.name)
        for who, measured in bursts.items():
            one = measured.get(shape.name)
            if one is None:
                continue
            ratio = f"{one.rate / alone.rate:.2f}" if alone and alone.rate and one is not alone else ""
            rows.append(
                (shape.name, who, f"{one.bound} of {one.pods}", f"{one.rate:.1f}", _s(one.p50), _s(one.p99),
                 _s(one.last), ratio, str(one.over_committed), _pairs(one.cpu))
            )  # fmt: skip
        default, raised = EARLIER.get(shape.name, ("", ""))
        for mode, rate in (("default", default), ("raised limits", raised)):
            if rate and f"HAMi, {mode}" not in bursts:
                rows.append((shape.name, f"HAMi, {mode}, earlier", "", rate, "", "", "", "", "", ""))
    head = (
        "shape",
        "who",
        "bound",
        "pods/s",
        "p50 s",
        "p99 s",
        "last s",
        "of kube-scheduler alone",
        "cards over",
        "CPU s",
    )
    return _table(head, rows)


def _writes(bursts: Mapping[str, Mapping[str, Burst]]) -> list[str]:
    found = []
    for who, measured in bursts.items():
        for shape, one in measured.items():
            if one.writes:
                found.append(f"{who}, {shape}: {_pairs(one.writes)}; events told: {_pairs(one.events)}")
    return found


def _filters(filters: Mapping[str, Mapping[tuple[int, int], Filtered]]) -> str:
    rows = []
    for who, measured in filters.items():
        for key, one in measured.items():
            rows.append(
                (who, str(one.nodes), str(one.pods), f"{one.placed} of {one.calls}", f"{one.p50:.2f}", f"{one.p99:.2f}",
                 f"{one.longest:.2f}", f"{one.first:.2f}", f"{one.memory:.0f} / {one.peak:.0f}",
                 f"{one.cpu_per_call * 1000:.2f}", EARLIER_FILTER.get(key, ""))
            )  # fmt: skip
    head = ("who", "nodes", "pods", "placed", "p50", "p99", "longest", "first answer s", "MiB now / peak",
            "CPU ms a call", "HAMi, raised limits, earlier: p50 / p99")  # fmt: skip
    return _table(head, rows)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _s(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.3f}"


def _pairs(values: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in values.items())
