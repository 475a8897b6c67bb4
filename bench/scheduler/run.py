"""Measure the scheduler beside kube-scheduler alone, and beside HAMi's if it is there.

    python -m bench.scheduler.run [--hami PROGRAM --hami-source REPOSITORY] [--out FOLDER]

Every figure comes from a fresh control plane.  Ends with 1 if a card was over-committed or a pod of ours not bound.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from tests.cluster.rig import programs

from .bursts import SHAPES, Burst, burst
from .contestants import Contestant, Hami, hami, ours, plain
from .filters import LARGEST, TABLE, Filtered, filtered, load_average
from .plane import Plane, running
from .report import Results, render

OURS, ALONE = "ours", "kube-scheduler alone"
_HAMI_LARGEST = 1000  # nodes; more take it minutes


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module."""
    options = _options().parse_args(arguments)
    folder = programs.ensure()
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix="hami-bench-", dir=options.scratch))
    results, raw = Results(), out / "raw.jsonl"
    raw.write_text("")
    bench = _Bench(options, folder, scratch, raw)
    try:
        if "bursts" in options.parts:
            bench.bursts(results)
        if "filters" in options.parts:
            bench.filters(results)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        command = "python -m bench.scheduler.run " + " ".join(arguments if arguments is not None else sys.argv[1:])
        (out / "report.md").write_text(render(results, _facts(), _without_paths(command)))
    ours_bursts = results.bursts.get(OURS, {}).values()
    return int(any(one.over_committed or one.bound < one.pods for one in ours_bursts))


def _contestants(options: argparse.Namespace) -> dict[str, Contestant]:
    found: dict[str, Contestant] = {OURS: ours, ALONE: plain}
    if options.hami:
        where = Hami(options.hami, options.hami_source)
        found["HAMi, raised limits"] = hami(where, raised=True)
        if options.hami_default:
            found["HAMi, default"] = hami(where, raised=False)
    return {label: kind for label, kind in found.items() if not options.only or label in options.only}


class _Bench:
    """One run: everybody in turn for each question, so that a busy minute of the machine hits all of them."""

    def __init__(self, options: argparse.Namespace, programs_folder: Path, scratch: Path, raw: Path) -> None:
        self._options, self._programs, self._scratch, self._raw = options, programs_folder, scratch, raw
        self._contestants = _contestants(options)
        self._planes = 0

    def bursts(self, results: Results) -> None:
        """Every shape in each round; of the rounds the one of median speed is told."""
        for shape in SHAPES:
            found: dict[str, list[Burst]] = {label: [] for label in self._contestants}
            for turn in range(self._options.rounds):
                for label, kind in self._contestants.items():
                    if turn and label not in (OURS, ALONE):
                        continue
                    with self._plane(audit=self._options.audit) as plane:
                        found[label].append(asyncio.run(burst(plane, kind, shape)))
                    self._tell(label, shape.name, found[label][-1])
            for label, rounds in found.items():
                rounds.sort(key=lambda one: one.rate)
                results.bursts.setdefault(label, {})[shape.name] = rounds[len(rounds) // 2]

    def filters(self, results: Results) -> None:
        """The table, without kube-scheduler alone, which has no filter call."""
        for nodes, pods in (*TABLE, LARGEST):
            for label, kind in self._contestants.items():
                if label == ALONE or (label != OURS and nodes > _HAMI_LARGEST):
                    continue
                calls = self._options.calls if label == OURS else min(self._options.calls, 100)
                with self._plane() as plane:
                    answered = asyncio.run(filtered(plane, kind, nodes, pods, calls))
                results.filters.setdefault(label, {})[nodes, pods] = answered
                self._tell(label, f"{nodes} nodes, {pods} pods", answered)

    def _plane(self, *, audit: bool = False) -> AbstractContextManager[Plane]:
        self._planes += 1
        return running(self._programs, self._scratch / str(self._planes), audit=audit)

    def _tell(self, label: str, what: str, measured: Burst | Filtered) -> None:
        row = {"who": label, "what": what, **dataclasses.asdict(measured), "load": round(load_average(), 2)}
        line = json.dumps({key: round(v, 4) if isinstance(v, float) else v for key, v in row.items()})
        print(line, flush=True)
        with self._raw.open("a") as out:
            out.write(line + "\n")


def _facts() -> dict[str, str]:
    return {
        "system": f"{platform.system()} {platform.release()}, {platform.machine()}",
        "processor": f"{len(os.sched_getaffinity(0))} cores",
        "Python": platform.python_version(),
        "Kubernetes": programs.kubernetes_version(),
    }


def _without_paths(command: str) -> str:
    """The command as another would type it: files by their name only."""
    return " ".join(Path(word).name if word.startswith("/") else word for word in command.split())


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.scheduler.run", description=__doc__)
    parser.add_argument("--parts", nargs="+", default=["bursts", "filters"], choices=["bursts", "filters"])
    parser.add_argument("--only", nargs="+", help="labels of contestants")
    parser.add_argument("--calls", type=int, default=200, help="filter calls for each row")
    parser.add_argument("--rounds", type=int, default=3, help="of each burst, for ours and kube-scheduler alone")
    parser.add_argument("--audit", action="store_true", help="count API writes; costs time in everybody's figures")
    parser.add_argument(
        "--hami", type=Path, help="HAMi's scheduler, built from its repository: go build ./cmd/scheduler"
    )
    parser.add_argument("--hami-source", type=Path, help="that repository, for its chart")
    parser.add_argument("--hami-default", action="store_true", help="with its default limits too: takes half an hour")
    parser.add_argument("--scratch", type=Path, help="where etcd writes")
    parser.add_argument("--out", type=Path, default=Path("build/bench-scheduler"))
    return parser


if __name__ == "__main__":
    sys.exit(main())
