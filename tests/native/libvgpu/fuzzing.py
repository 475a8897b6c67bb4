"""Runs the fuzzer (fuzz/fuzz.c) on simulated cards of its own, and shrinks what fails."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent / "fuzz"
SIM_HEADERS = Path(__file__).resolve().parents[3] / "native" / "simgpu"
CARDS = 2
PATIENCE = 900  # seconds


@dataclass(frozen=True)
class Fuzzer:
    """The controller, the workers' program and what is preloaded into them."""

    controller: Path
    worker: Path
    limiter: Path
    sim: Path

    @classmethod
    def compile(cls, native, *, flags: tuple[str, ...] = (), limiter: Path | None = None) -> Fuzzer:
        """With `native`'s simulated card; `flags` are the workers' own."""
        common = (HERE / "plan.c", HERE / "board.c")
        libraries = (f"-I{SIM_HEADERS}", "-fno-strict-aliasing", f"-L{native.sim}")
        controller = native.compile(
            HERE / "fuzz.c", *common, HERE / "judge.c", flags=(*libraries, "-l:libnvidia-ml.so.1")
        )
        parts = tuple(HERE / f"worker_{part}.c" for part in ("memory", "code", "process"))
        worker = native.compile(HERE / "worker.c", *common, *parts, flags=(*libraries, "-l:libcuda.so.1", *flags))
        return cls(controller, worker, limiter or native.limiter, native.sim)

    def command(self, folder: Path, options: dict[str, int]) -> list[str]:
        return [str(self.controller), str(folder), str(self.worker), *self.words(options)]

    @staticmethod
    def words(options: dict[str, int]) -> list[str]:
        return [f"{name}={value}" for name, value in options.items()]

    def environment(self, folder: Path, **more: str) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "LD_LIBRARY_PATH": str(self.sim),
            "LIMITER": str(self.limiter),
            "HAMI_SIM_DIR": str(folder / "sim"),
            "HAMI_SIM_PROFILE": "t4",
            "HAMI_SIM_CARDS": str(CARDS),
            **more,
        }

    def run(self, *, more: dict[str, str] | None = None, **options: int) -> subprocess.CompletedProcess[str]:
        """One run; the return code tells whether ledger and driver stayed the same."""
        with scratch() as folder:
            return subprocess.run(
                self.command(folder, options),
                env=self.environment(folder, **(more or {})),
                capture_output=True,
                text=True,
                timeout=PATIENCE,
                check=False,
            )

    def shrink(self, **options: int) -> str:
        """The few steps that are enough for a run with turns=1 to fail."""
        with scratch() as folder:
            command = [sys.executable, str(HERE / "shrink.py"), str(self.controller), str(self.worker)]
            done = subprocess.run(
                [*command, *self.words(options)],
                env=self.environment(folder),
                capture_output=True,
                text=True,
                check=False,
            )
        return done.stdout + done.stderr


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder on tmpfs for a simulation and a slice."""
    folder = Path(tempfile.mkdtemp(prefix="hami-fuzz-", dir="/dev/shm"))
    (folder / "sim").mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder)
