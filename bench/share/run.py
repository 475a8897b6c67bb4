"""Measure what share of a card slices get, and how soon, and write it down.

    python -m bench.share.run                                    # with ours
    python -m bench.share.run --other /path/to/HAMi-core/libvgpu.so --budget 460
    python -m bench.share.run --simulated --only quota-30        # on a simulated T4: tries the bench

See README.md.  Nobody else should use the machine's first card meanwhile.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import IO

from bench.machine import add_machine_options, find_headers, sim_folder
from hami_hub import native

from .ground import Ground, GroundError, Outcome, compile_worker, plain_environment
from .report import Results, describe, draw, render, share
from .scenarios import BY_WORTH, LAUNCHES, OTHER, OURS, RAW, Scenario

_FIND_DRIVER = """
import ctypes
ctypes.CDLL("libcuda.so.1")
print(next(line.split()[-1] for line in open("/proc/self/maps") if "libcuda.so" in line))
"""

_ASK_CARD = """
import pynvml
pynvml.nvmlInit()
card = pynvml.nvmlDeviceGetHandleByIndex(0)
said = pynvml.nvmlDeviceGetUUID(card), pynvml.nvmlDeviceGetName(card), pynvml.nvmlSystemGetDriverVersion()
print(*(text if isinstance(text, str) else text.decode() for text in said), sep="|")
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 2 if nothing could be run."""
    options = _parser().parse_args(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="hami-bench-") as scratch, (options.output / "share.log").open("w") as log:
        try:
            ground, results = _prepare(options, Path(scratch), log)
        except (GroundError, OSError) as error:
            print(error, file=sys.stderr)
            return 2
        deadline = time.monotonic() + options.budget
        if not options.only or "launches" in options.only:
            _measure_launches(ground, results, deadline)
        for scenario in BY_WORTH:
            if options.only and scenario.name not in options.only and scenario.group not in options.only:
                continue
            _measure(ground, results, scenario, deadline, log)
            _write(results, options.output)
    folder = _write(results, options.output)
    draw(results, folder)
    (options.output / "share.log").rename(folder / "raw.log")
    print(f"The report is {folder / 'report.md'}", flush=True)
    return 0


def _prepare(options: argparse.Namespace, scratch: Path, log: IO[str]) -> tuple[Ground, Results]:
    environment = plain_environment()
    if sim := sim_folder(options):
        environment |= {"LD_LIBRARY_PATH": str(sim), "HAMI_SIM_DIR": str(scratch / "sim")}
        driver = sim / "libcuda.so.1"
    else:
        driver = Path(_said_by(_FIND_DRIVER, environment))
    compile_worker(scratch / "worker", include=options.cuda_include or find_headers(), driver=driver)
    uuid, name, version = _said_by(_ASK_CARD, environment).split("|")
    limiters = {OURS: (options.ours or native.limiter_path()).resolve()}
    if options.other:
        limiters[OTHER] = options.other.resolve()
    ground = Ground(scratch / "worker", limiters, uuid, environment, options.simulated, log)
    if not options.simulated:
        ground.calibrate()
    results = Results(f"{datetime.now().astimezone():%Y-%m-%d}", name, options.simulated)
    results.facts += [("card", name), ("driver", version), *(("note", note) for note in options.note)]
    if not options.other:
        results.left_out.append("HAMi-core: no library was named with --other.")
    return ground, results


def _said_by(program: str, environment: dict[str, str]) -> str:
    # in a process of its own: loading the driver leaves threads and files behind
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise GroundError(f"This machine can't be asked: {done.stderr.strip().splitlines()[-1:]}.")
    return done.stdout.strip()


def _measure(ground: Ground, results: Results, scenario: Scenario, deadline: float, log: IO[str]) -> None:
    if any(t.route == "train" for t in scenario.tenants) and importlib.util.find_spec("torch") is None:
        results.left_out.append(f"{scenario.title}: PyTorch is not installed.")
        return
    columns: dict[str, list[list[Outcome]] | str] = {}
    for column in scenario.columns:
        if column == OTHER and OTHER not in ground.limiters:
            continue
        if time.monotonic() + scenario.seconds + 3 > deadline:
            results.left_out.append(f"{scenario.title}, {column}: the time was over.")
            continue
        log.write(f"# {scenario.name} under {column}: {'; '.join(describe(t) for t in scenario.tenants)}\n")
        # what misses by tens of points shows it soon
        briefly = column == OTHER and scenario.group == "hard"
        try:
            outcomes, views = ground.run(replace(scenario, seconds=3) if briefly else scenario, column)
        except GroundError as error:
            columns[column] = f"failed: {str(error)[:200]}"
            print(f"{scenario.title} [{column}]: {error}", flush=True)
            continue
        columns[column] = outcomes
        log.writelines(f"# page: {view.cards}\n" for view in views)
        shown = " ".join(f"{sum(o.first for o in mine):.1f}/{share(mine):.2f}" for mine in outcomes)
        bursts = sorted(outcomes[0][0].bursts[3:])
        if bursts:
            shown += f"  p50 {bursts[len(bursts) // 2]:.2f} p99 {bursts[int(len(bursts) * 0.99)]:.2f} ms"
        if gaps := [o.gap for mine in outcomes for o in mine if o.gap]:
            shown += f"  gaps {gaps} ms"
        print(f"{scenario.title} [{column}]: {shown}  cpu {outcomes[-1][0].cpu:.1f} %", flush=True)
    if columns:
        results.outcomes.append((scenario, columns))


def _measure_launches(ground: Ground, results: Results, deadline: float) -> None:
    for threads, cores in LAUNCHES:
        for column in (RAW, OURS, OTHER):
            if (column == RAW and cores) or (column == OTHER and (OTHER not in ground.limiters or not cores)):
                continue
            if time.monotonic() + 8 > deadline:
                results.left_out.append(f"launches, {threads} threads, {column}: the time was over.")
                continue
            try:
                launch = ground.launch(threads, cores, column)
            except (GroundError, subprocess.TimeoutExpired) as error:
                results.left_out.append(f"launches, {threads} threads, {column}: {str(error)[:200]}")
                continue
            results.launches[threads, cores, column] = launch
            print(f"launch, {threads} threads, {cores} % [{column}]: {launch}", flush=True)


def _write(results: Results, output: Path) -> Path:
    folder = output / results.folder
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.md").write_text(render(results))
    return folder


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.share.run", description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("--other", type=Path, metavar="LIBRARY", help="a built HAMi-core to compare with")
    add("--only", action="append", metavar="NAME", help="only these scenarios or groups; launches: what a launch costs")
    add("--budget", type=float, default=900, metavar="SECONDS", help="begin nothing that would end later; default: 900")
    add_machine_options(parser)
    return parser


if __name__ == "__main__":
    sys.exit(main())
