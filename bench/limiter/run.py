"""Try every way past the VRAM limit on a card, measure what the limit costs, and write it down.

    python -m bench.limiter.run --limiter none --limiter ours --limiter /path/to/HAMi-core/libvgpu.so

Ends with 1 if a way passes with our limiter, 2 if nothing could be run.  See README.md.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import IO

from bench.machine import add_machine_options, find_headers, sim_folder
from hami_hub import native

from . import facts, mounted
from .column import OURS, RAW, Column, Shape, make_column, plain_environment
from .costs import (
    COSTS,
    TRAINING_ROUNDS,
    TRAINING_SECONDS,
    TRAINING_START_SECONDS,
    TRAININGS,
    Measured,
    Turns,
)
from .outside import CardError, Outside
from .programs import HERE, BuildError, build_programs
from .report import Results, render
from .talk import Budget, Talker
from .ways import CONTEXT, WAYS, Ground, Try, Verdict, judge, try_way

SCRATCH_ROOT = "/dev/shm"  # noqa: S108  slices lie there; programs don't: it may be mounted noexec
PARTS = ("ways", "cost", "train")
_SIM_VARIABLES = ("HAMI_SIM_DIR", "HAMI_SIM_PROFILE", "HAMI_SIM_CARDS")
_COST_PERCENT = 90  # of the card: nothing is to be refused where only time is measured
_START_SECONDS = 30


class Bench:
    """One run: the machine, the columns, and the results so far."""

    def __init__(self, options: argparse.Namespace, *, scratch: Path, programs: Path, log: IO[bytes]) -> None:
        self._options = options
        self._log = log
        sim = sim_folder(options)
        base = plain_environment()
        if sim:
            base |= {"LD_LIBRARY_PATH": str(sim), "HAMI_SIM_DIR": str(scratch / "sim")}
            base.setdefault("HAMI_SIM_PROFILE", "t4")
            os.environ.update({name: base[name] for name in _SIM_VARIABLES if name in base})
        self._columns = [make_column(given, ours=our_limiter(options)) for given in options.limiter]
        self._outside = Outside(sim=sim)
        card = self._outside.card
        base["BENCH_CARD"] = card.uuid
        self._programs = build_programs(programs, include=options.cuda_include, sim=sim)
        plain = self._programs.path("plugin.so")
        why = "--shape preload" if options.shape == "preload" else mounted.why_not(scratch, library=plain)
        self._shapes = {
            column.key: Shape(column, scratch / f"column{number}", self._outside.uuids, dict(base), mounted=why is None)
            for number, column in enumerate(self._columns)
        }
        limiters = "in /etc/ld.so.preload, the slice mounted" if why is None else f"in LD_PRELOAD ({why})"
        self.results = Results(
            date=f"{datetime.now().astimezone():%Y-%m-%d}",
            card=card.model,
            limit=options.limit,
            columns=self._columns,
            simulated=bool(sim),
            facts=[
                *facts.machine(card, include=options.cuda_include),
                ("limiters", limiters),
                *(("note", note) for note in options.note),
            ],
        )

    def close(self) -> None:
        """Take everything down."""
        for shape in self._shapes.values():
            shape.close()

    def ways(self, budget: Budget) -> None:
        """Every way under every column, one after the other."""
        ground = Ground(self._outside, self._programs, self._options.limit, 1, self._log)
        context = try_way(CONTEXT, self._shape_for_measuring(), ground, budget)
        if context.verdict is not Verdict.HELD or not context.held:
            raise BuildError(f"A context can't be made without a limiter: {context.refusal or context.note}.")
        self.results.facts.append(("a context", f"{context.held} MiB"))
        ground = Ground(self._outside, self._programs, self._options.limit, context.held, self._log)
        for way in WAYS:
            if self._options.only and way.name not in self._options.only:
                continue
            tries: dict[str, Try] = {}
            for key, shape in self._shapes.items():
                self._note(f"way {way.name}, {shape.column.title}")
                tries[key] = try_way(way, shape, ground, budget)
                self._note(f"{tries[key]}")
            for key, shape in self._shapes.items():
                tries[key].verdict = judge(
                    way, shape.column, tries[key], limit=ground.limit, raw=tries.get(RAW), mounted=shape.mounted
                )
            self.results.ways.append((way, tries))
            told = (f"{shape.column.title} {tries[key].verdict.value}" for key, shape in self._shapes.items())
            print(f"{way.title}: {', '.join(told)}", flush=True)

    def cost(self, budget: Budget) -> None:
        """Calls and starts, by turns."""
        for program in ("cost", "start"):
            turns = Turns(budget)
            try:
                for key, talker in self._talkers([self._programs.path(program)]):
                    # one after the other: a limiter may watch who comes
                    turns.add(key, talker)
                    turns.await_ready(seconds=_START_SECONDS)
                for cost in COSTS:
                    if cost.program != program or (self._options.only and cost.name not in self._options.only):
                        continue
                    figures = turns.ask(cost.name, rounds=cost.rounds, seconds=cost.seconds)
                    self.results.costs.append((cost, figures))
                    self._report(cost.title, figures)
            finally:
                turns.close()

    def train(self, budget: Budget) -> None:
        """PyTorch, by turns."""
        only = self._options.only
        for allocator, group in TRAININGS:
            trainings = [t for t in group if not only or t.name in only]
            if not trainings:
                continue
            # the second name is the one of older versions
            told = {"PYTORCH_ALLOC_CONF": allocator, "PYTORCH_CUDA_ALLOC_CONF": allocator} if allocator else {}
            told["BENCH_BYPASS"] = str(self._programs.path("bypass.so"))
            turns = Turns(budget)
            try:
                for key, talker in self._talkers([sys.executable, HERE / "train.py"], told):
                    turns.add(key, talker)
                turns.await_ready(seconds=TRAINING_START_SECONDS)
                for training in trainings:
                    figures = turns.ask(training.name, rounds=TRAINING_ROUNDS, seconds=TRAINING_SECONDS)
                    self.results.trainings.append((training, figures))
                    self._report(training.title, figures)
            finally:
                turns.close()

    def _shape_for_measuring(self) -> Shape:
        if RAW in self._shapes:
            return self._shapes[RAW]
        some = next(iter(self._shapes.values()))
        return Shape(Column(RAW, "", None), some.scratch / "raw", some.uuids, dict(some.base), mounted=False)

    def _talkers(
        self, command: Sequence[str | Path], told: Mapping[str, str] | None = None
    ) -> Iterator[tuple[str, Talker]]:
        """The same program in every column, each in a slice that refuses nothing."""
        for key, shape in self._shapes.items():
            shape.fresh_slice(self._outside.card.vram * _COST_PERCENT // 100)
            environment = {**shape.environment(), **(told or {})}
            yield key, Talker(shape.command(command), environment=environment, log=self._log)

    def _report(self, title: str, figures: Mapping[str, Measured]) -> None:
        titles = {column.key: column.title for column in self._columns}
        for key, measured in figures.items():
            self._note(f"{title}, {titles[key]}: {measured}")
        told = (f"{titles[k]} {f'{m.ns:,.0f} ns' if m.ns else m.failure}" for k, m in figures.items())
        print(f"{title}: {', '.join(told)}", flush=True)

    def _note(self, text: str) -> None:
        self._log.write(f"## {text}\n".encode())
        self._log.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """The program; its exit code."""
    options = _parser().parse_args(arguments)
    options.limiter = options.limiter or [RAW, OURS]
    options.cuda_include = options.cuda_include or find_headers()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with _folder(SCRATCH_ROOT) as scratch, _folder(None) as programs, (scratch / "raw.log").open("wb") as log:
        try:
            bench = Bench(options, scratch=scratch, programs=programs, log=log)
        except (BuildError, CardError, ValueError, OSError, native.NativeMissingError) as error:
            print(f"Error: {error}", file=sys.stderr)
            return 2
        try:
            _run_parts(bench, options)
        finally:
            bench.close()
            log.flush()
            _write(bench.results, options.output, scratch / "raw.log")
    for way in bench.results.failed:
        print(f"FAILS: {way.title}")
    return 1 if bench.results.failed else 0


def _run_parts(bench: Bench, options: argparse.Namespace) -> None:
    for part in options.parts:
        why_not = _no_torch(options) if part == "train" else ""
        if why_not:
            bench.results.left_out.append((part, why_not))
            continue
        budget = Budget(options.seconds.get(part, 3600))
        try:
            getattr(bench, part)(budget)
        except (BuildError, CardError, OSError) as error:
            bench.results.left_out.append((part, str(error)))


def _no_torch(options: argparse.Namespace) -> str:
    if options.simulated:
        return "PyTorch's runtime runs on NVIDIA's driver only"
    import importlib.util

    return "" if importlib.util.find_spec("torch") else "PyTorch is not installed"


def _write(results: Results, output: Path, log: Path) -> None:
    folder = output / results.folder
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.md").write_text(render(results))
    shutil.copyfile(log, folder / "raw.log")
    print(f"The report is {folder / 'report.md'}", flush=True)


def our_limiter(options: argparse.Namespace) -> Path | None:
    """Our library, if it is asked for: the one that is named, or the installed one."""
    if OURS not in options.limiter:
        return None
    return options.ours or native.limiter_path()


@contextlib.contextmanager
def _folder(parent: str | None) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="hami-bench-", dir=parent, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def _part_seconds(text: str) -> dict[str, float]:
    found = dict(pair.split("=") for pair in text.split(","))
    if not set(found) <= set(PARTS):
        raise argparse.ArgumentTypeError(f"{text} names other parts than {', '.join(PARTS)}.")
    return {part: float(seconds) for part, seconds in found.items()}


def _parts(text: str) -> list[str]:
    parts = text.split(",")
    if not set(parts) <= set(PARTS):
        raise argparse.ArgumentTypeError(f"{text} names other parts than {', '.join(PARTS)}.")
    return parts


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.limiter.run", description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add(
        "--limiter",
        action="append",
        metavar="none|ours|LIBRARY",
        help="a column of the tables, a path being a built HAMi-core; default: none and ours",
    )
    add("--parts", type=_parts, default=list(PARTS), help="of ways,cost,train; default: all")
    add("--only", action="append", metavar="NAME", help="only these ways, costs and trainings")
    add("--seconds", type=_part_seconds, default={}, metavar="ways=200,cost=100,...", help="the most a part may take")
    add("--limit", type=int, default=4000, metavar="MIB", help="of the slice in ways; default: 4000")
    add("--shape", choices=("mounted", "preload"), default="mounted", help="how limiters get in; preload: LD_PRELOAD")
    add_machine_options(parser)
    return parser


if __name__ == "__main__":
    sys.exit(main())
