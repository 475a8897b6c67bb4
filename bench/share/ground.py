"""Runs tenants on a card and counts what it did for them.

Every process runs worker.c or train.py, says "ready", gets a moment to begin at, and answers with one line of JSON.
How much of the card a tenant had is what the card finished for it, beside what it finishes for the same work alone.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from hami_hub.core.cards import CardUuid
from hami_hub.core.slices import CardShare, CorePolicy, Placement, Priority
from hami_hub.core.units import Mib, Percent
from hami_hub.slicepage import SliceView, create_slice, read_slice

from .scenarios import OTHER, OURS, RAW, Scenario, Tenant

HERE = Path(__file__).resolve().parent
WORKER = (HERE / "worker.c", HERE / "launches.c", HERE.parent / "raw_symbol.c")
_VRAM = Mib(8000)
_READY_SECONDS = 60
_LATE_SECONDS = 15
_ALONE_SECONDS = 1
_STRUCK_SECONDS = 2
_LEAD_NS = 50_000_000


class GroundError(RuntimeError):
    """A tenant didn't do what it was to do.  One plain sentence."""


@dataclass
class Outcome:
    """What one process got.

    Attributes:
        first: percent of the card in the first second.
        later: percent after it.
        curve: percent by tenths of a second.
        bursts: ms each burst took.
        cpu: percent of one processor core.
        gap: ms, the longest time in which the card did nothing for it; 0: nobody looked.
    """

    first: float
    later: float
    curve: list[float]
    bursts: list[float]
    cpu: float
    gap: float


@dataclass(frozen=True)
class Launch:
    """What a call of cuLaunchKernel takes the processor, ns, medians.

    Attributes:
        straight: the driver's own.
        added: by what stands before it, and the bounds of a 95 % interval.
    """

    straight: float
    added: float
    low: float
    high: float


@dataclass
class Ground:
    """A card, and the limiters to try on it.

    Args:
        worker: the compiled worker.c.
        limiters: the library by column.
        uuid: the card.
        environment: of every process, without a limiter.
        simulated: work is counted by the simulated card, in ns.
        log: gets every answer.
    """

    worker: Path
    limiters: dict[str, Path]
    uuid: str
    environment: dict[str, str]
    simulated: bool
    log: IO[str]
    _rates: dict[str, float] = field(default_factory=dict)  # units a second, alone
    _turns: dict[str, tuple[float, float]] = field(default_factory=dict)  # by grid: ns before, ns a turn

    def calibrate(self) -> None:
        """Learn how many turns make a kernel of a wanted length."""
        for grid in ("full", "small"):
            few, many = (self._kernel_ns(grid, turns, nodes) for turns, nodes in ((2000, 500), (20_000, 200)))
            slope = max((many - few) / 18_000, 1e-3)
            self._turns[grid] = (max(few - 2000 * slope, 0), slope)

    def run(self, scenario: Scenario, column: str) -> tuple[list[list[Outcome]], list[SliceView]]:
        """What the processes of each tenant got, and what their slices' pages say afterwards.

        Raises:
            GroundError: one of them failed.
        """
        with tempfile.TemporaryDirectory(prefix="hami-bench-", dir="/dev/shm") as folder:
            root = Path(folder)
            started: list[tuple[Tenant, subprocess.Popen[str]]] = []
            try:
                for number, tenant in enumerate(scenario.tenants):
                    environment = self._slice(root, number, tenant, column)
                    for _ in range(tenant.processes):
                        started.append((tenant, self._start(tenant, scenario.seconds, environment)))
                answers = self._begin(started, scenario.seconds)
            finally:
                for _, process in started:
                    process.kill()
                    process.communicate()
            views = [read_slice(d, same_pid_namespace=False) for d in sorted((root / "slices").glob("*"))]
        outcomes: list[list[Outcome]] = []
        at = 0
        for tenant in scenario.tenants:
            mine = answers[at : at + tenant.processes]
            outcomes.append([self._outcome(tenant, answer, scenario.seconds) for answer in mine])
            at += tenant.processes
        return outcomes, views

    def launch(self, threads: int, cores: int, column: str) -> Launch:
        """What a limiter adds to a launch."""
        with tempfile.TemporaryDirectory(prefix="hami-bench-", dir="/dev/shm") as folder:
            environment = self._slice(Path(folder), 0, Tenant(cores), column)
            return Launch(**self._ask({"route": "launches", "threads": threads, "turns": 1, "ns": 1000}, environment))

    # ---- processes

    def _slice(self, root: Path, number: int, tenant: Tenant, column: str) -> dict[str, str]:
        environment = dict(self.environment)
        if column == RAW:
            return environment
        environment["LD_PRELOAD"] = str(self.limiters[column])
        if column == OURS:
            directory = root / "slices" / f"tenant{number}"
            share = CardShare(CardUuid(self.uuid), _VRAM, Percent(tenant.cores))
            priority = Priority.HIGH if tenant.high else Priority.LOW
            placement = Placement((share,), priority=priority, policy=CorePolicy(tenant.policy))
            create_slice(directory, name=f"tenant{number}", placement=placement, ring=root / "cards")
            return environment | {"HAMI_SLICE_DIR": str(directory)}
        return environment | {
            "CUDA_DEVICE_MEMORY_LIMIT_0": f"{_VRAM}m",
            "CUDA_DEVICE_SM_LIMIT": str(tenant.cores),
            "GPU_CORE_UTILIZATION_POLICY": tenant.policy.upper(),
            "CUDA_DEVICE_MEMORY_SHARED_CACHE": str(root / f"tenant{number}.cache"),
            "CUDA_REDIRECT": str(self.limiters[OTHER]),
            "LIBCUDA_LOG_LEVEL": "0",
        }

    def _options(self, tenant: Tenant) -> dict[str, str | int | float]:
        grid = str(tenant.does.get("grid", "full"))
        before, slope = self._turns.get(grid, (0, 1))
        turns = max(1, round((tenant.us * 1000 - before) / slope))
        return {"turns": turns, "ns": round(tenant.us * 1000), **tenant.does}

    def _start(self, tenant: Tenant, seconds: float, environment: dict[str, str]) -> subprocess.Popen[str]:
        if tenant.route == "train":
            command = self._training({"seconds": seconds, **tenant.does})
        else:
            command = self._command({**self._options(tenant), "seconds": seconds, "start": 1})
        return subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def _command(self, options: dict[str, str | int | float]) -> list[str]:
        return [str(self.worker), *(f"{key}={value}" for key, value in options.items())]

    def _training(self, options: Mapping[str, str | int | float]) -> list[str]:
        return [sys.executable, str(HERE / "train.py"), *(f"{key}={value}" for key, value in options.items())]

    def _begin(
        self, started: Sequence[tuple[Tenant, subprocess.Popen[str]]], seconds: float
    ) -> list[dict[str, list[float]]]:
        deadline = time.monotonic() + _READY_SECONDS
        processes = [process for _, process in started]
        for process in processes:
            assert process.stdout is not None
            if process.stdout.readline() != "ready\n" or time.monotonic() > deadline:
                raise GroundError(f"A tenant didn't start: {self._last_words(process)}.")
        start = time.clock_gettime_ns(time.CLOCK_MONOTONIC) + _LEAD_NS
        for process in processes:
            assert process.stdin is not None
            process.stdin.write(f"{start}\n")
            process.stdin.flush()
        time.sleep(_STRUCK_SECONDS if any(tenant.struck for tenant, _ in started) else 0)
        for tenant, process in started:
            if tenant.struck:
                process.send_signal(tenant.struck)
        answers: list[dict[str, list[float]]] = []
        for tenant, process in started:
            if tenant.struck:
                answers.append({})
                continue
            try:
                output, errors = process.communicate(timeout=seconds + _LATE_SECONDS)
            except subprocess.TimeoutExpired:
                raise GroundError(f"A tenant didn't end {_LATE_SECONDS} s after its time.") from None
            self.log.write(output)
            self.log.flush()
            if process.returncode or not output:
                raise GroundError(f"A tenant ended with {process.returncode}: {errors.strip()[-300:]}.")
            answers.append(json.loads(output.splitlines()[-1]))
        return answers

    @staticmethod
    def _last_words(process: subprocess.Popen[str]) -> str:
        process.kill()
        return process.communicate()[1].strip()[-300:] or "it said nothing"

    def _ask(self, options: dict[str, str | int | float], environment: dict[str, str]) -> dict[str, float]:
        return self._answer(self._command(options), environment)

    def _answer(self, command: list[str], environment: dict[str, str]) -> dict[str, float]:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=_READY_SECONDS
        )
        if done.returncode:
            raise GroundError(f"The worker ended with {done.returncode}: {done.stderr.strip()[-300:]}.")
        self.log.write(done.stdout)
        answer: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
        return answer

    def _kernel_ns(self, grid: str, turns: int, nodes: int) -> float:
        options: dict[str, str | int | float] = {"route": "calibrate", "grid": grid, "turns": turns, "ns": turns}
        options["nodes"] = nodes
        return self._ask(options, self.environment)["kernel_ns"]

    # ---- figures

    def alone(self, tenant: Tenant) -> float:
        """Units of this work that the card finishes in a second when nothing else happens on it."""
        if self.simulated and tenant.route not in ("memset", "copy"):
            return 1e9  # ns
        does = dict(tenant.does)
        if tenant.route in ("sync", "ptsz", "ex", "cooperative", "burst"):
            does = {key: value for key, value in does.items() if key == "grid"}
        for name in ("threads", "gaps"):
            does.pop(name, None)
        key = f"{tenant.us} {sorted(does.items())}"
        if key not in self._rates and tenant.route == "train":
            done = self._answer(self._training({"seconds": 0, "measure": 1, **tenant.does}), self.environment)
            self._rates[key] = 1e6 / done["card_us"]
        if key not in self._rates:
            same = Tenant(0, tenant.us, does)
            process = self._start(same, _ALONE_SECONDS, self.environment)
            try:
                counts = self._begin([(same, process)], _ALONE_SECONDS)[0]["done"]
            finally:
                process.kill()
                process.communicate()
            skipped = len(counts) // 3
            self._rates[key] = (counts[-1] - counts[skipped]) / ((len(counts) - 1 - skipped) / 10)
        return self._rates[key]

    def _outcome(self, tenant: Tenant, answer: dict[str, list[float]], seconds: float) -> Outcome:
        if not answer:
            return Outcome(0, 0, [], [], 0, 0)
        rate = self.alone(tenant)
        done = [0.0, *answer["done"]]
        curve = [100 * (b - a) * 10 / rate for a, b in itertools.pairwise(done)]
        later = 100 * (done[-1] - done[10]) / (len(done) - 11) * 10 / rate if len(done) > 11 else 0.0
        cpu, gap = (float(answer.get(name, 0)) for name in ("cpu", "gap_ms"))  # type: ignore[arg-type]
        return Outcome(100 * done[10] / rate, later, curve, answer["bursts"], 100 * cpu / seconds, gap)


def compile_worker(output: Path, *, include: Path, driver: Path) -> None:
    """Compile the tenant.

    Raises:
        GroundError: it can't be.
    """
    if shutil.which("cc") is None:
        raise GroundError("There is no C compiler. Install gcc.")
    command = ["cc", "-std=gnu11", "-O2", "-Wall", "-D_GNU_SOURCE", "-pthread", "-isystem", include, *WORKER]
    link = [driver, "-Wl,--allow-shlib-undefined", f"-Wl,-rpath,{driver.parent}", "-ldl", "-o", output]
    done = subprocess.run([*map(str, command), *map(str, link)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise GroundError(f"The worker can't be compiled: {done.stderr.strip()[-500:]}.")


def plain_environment() -> dict[str, str]:
    """This process's, without any limiter, with all cards in NVML's order."""
    gone = ("LD_PRELOAD", "HAMI_SLICE_DIR", "CUDA_VISIBLE_DEVICES")
    kept = {name: value for name, value in os.environ.items() if name not in gone}
    return {**kept, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
