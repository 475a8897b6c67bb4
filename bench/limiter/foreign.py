"""Run the test programs of other limiters, as they are, without a limiter and with ours.

    python -m bench.limiter.foreign HAMI_CORE/test --include HAMI_CORE/src
    python -m bench.limiter.foreign VGPU_MANAGER/library/test --name libvgpu-control.so

Each `test_*.c` of the folder is compiled against this machine's driver and run in a slice of 12000 MiB; nothing of them
is in this project.  What a test says of itself is its exit code, 77 being its own word for leaving something out.
Programs in .cu need nvcc, and are named as left out without it.
Prints a table; ends with 1 if a test fails with our limiter only.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bench.machine import find_headers, sim_folder

from .column import OURS, RAW, Shape, make_column, plain_environment
from .outside import Outside
from .programs import find_driver, find_runtime
from .run import SCRATCH_ROOT, our_limiter

SECONDS = 60  # after which a test hangs
LIMIT = 12000
_SKIPPED = 77
_FLAGS = ("-std=gnu11", "-O1", "-w", "-pthread")


@dataclass(frozen=True)
class Compiled:
    """A test's program, or why there is none."""

    name: str
    program: Path | None
    why: str = ""


def compile_test(source: Path, folder: Path, *, includes: list[Path], link: list[Path | str]) -> Compiled:
    """Compile one C or CUDA program."""
    compiler = "cc" if source.suffix == ".c" else shutil.which("nvcc")
    if compiler is None:
        return Compiled(source.name, None, "nvcc is not here")
    program = folder / source.stem
    flags, linker = (_FLAGS, "-Wl,") if source.suffix == ".c" else (("-w", "-arch=native"), "-Xlinker=")
    command: list[Path | str] = [compiler, *flags, *(f"-I{each}" for each in includes), source, "-o", program, *link]
    command += [f"{linker}--allow-shlib-undefined", "-ldl", "-lrt", "-lm"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return Compiled(source.name, program)
    errors = [
        line for line in done.stderr.splitlines() if any(word in line for word in ("error", "undefined", "fatal"))
    ]
    return Compiled(source.name, None, f"doesn't compile: {(errors or ['?'])[0].split(': ', 1)[-1][:90]}")


def run_test(program: Path, shape: Shape, log: Path) -> str:
    """What came of it, in a word."""
    shape.fresh_slice(LIMIT)
    try:
        with log.open("ab") as output:
            output.write(f"==== {program.name}, {shape.column.title}\n".encode())
            output.flush()
            done = subprocess.run(
                shape.command([program]),
                env=shape.environment(),
                cwd=program.parent,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=SECONDS,
                check=False,
            )
    except subprocess.TimeoutExpired:
        return f"no end in {SECONDS} s"
    if done.returncode == _SKIPPED:
        return "leaves itself out"
    if done.returncode < 0:
        return f"signal {-done.returncode}"
    return "passes" if done.returncode == 0 else f"fails ({done.returncode})"


def main() -> int:
    options = _parser().parse_args()
    include = options.cuda_include or find_headers()
    sim = sim_folder(options)
    base = plain_environment()
    with (
        tempfile.TemporaryDirectory(prefix="hami-foreign-", dir=SCRATCH_ROOT) as scratch,
        tempfile.TemporaryDirectory(prefix="hami-foreign-") as programs,
    ):
        if sim:
            card_variables = {"HAMI_SIM_DIR": f"{scratch}/sim", "HAMI_SIM_PROFILE": "h200"}
            os.environ.update(card_variables)
            base |= {"LD_LIBRARY_PATH": str(sim), **card_variables}
        card = Outside(sim=sim).card
        limiter = our_limiter(options)
        if options.name and limiter:
            limiter = Path(shutil.copy(limiter, Path(programs) / options.name))
        columns = [make_column(RAW, ours=None), make_column(OURS, ours=limiter)]
        shapes = [
            Shape(column, Path(scratch) / f"column{number}", [card.uuid], dict(base), mounted=False)
            for number, column in enumerate(columns)
        ]
        driver = sim / "libcuda.so.1" if sim else find_driver()
        runtime = None if sim else find_runtime(include)
        link: list[Path | str] = [driver, driver.parent / "libnvidia-ml.so.1", *([runtime] if runtime else [])]
        includes = [include, options.tests, *options.include]
        failed = False
        print(f"Card: {card.model}, driver {card.driver}\n\n| test | no limiter | ours |\n| --- | --- | --- |")
        for source in sorted([*options.tests.glob("test_*.c"), *options.tests.glob("test_*.cu")]):
            if source.name in options.skip:
                continue
            # nvcc brings its own headers and runtime
            known = link if source.suffix == ".c" else [f"-Xlinker={each}" for each in link[:2]]
            test = compile_test(source, Path(programs), includes=includes[source.suffix == ".cu" :], link=known)
            if test.program is None:
                print(f"| {test.name} | {test.why} | |", flush=True)
                continue
            raw, ours = (run_test(test.program, shape, options.log) for shape in shapes)
            failed |= ours != "passes" and raw == "passes"
            print(f"| {test.name} | {raw} | {ours} |", flush=True)
        for shape in shapes:
            shape.close()
    return int(failed)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.limiter.foreign", description=(__doc__ or "").splitlines()[0]
    )
    add = parser.add_argument
    add("tests", type=Path, help="folder of the tests' sources")
    add("--include", type=Path, action="append", default=[], metavar="FOLDER", help="more headers that they need")
    add("--skip", action="append", default=[], metavar="TEST", help="not this one: test_alloc_hold.c never ends")
    add("--log", type=Path, default=Path("/dev/null"), help="gets all that they say")
    add("--name", metavar="FILE", help="how the limiter's file is called, for tests that look for theirs")
    add("--ours", type=Path, metavar="LIBRARY", help="our limiter, where it is not the installed one")
    add("--cuda-include", type=Path, metavar="FOLDER", help="of cuda.h")
    add("--simulated", action="store_true", help="on a simulated card: those that need the driver only")
    add("--sim", type=Path, metavar="FOLDER", help="of the simulated driver, where it is not the installed one")
    parser.set_defaults(limiter=[OURS])
    return parser


if __name__ == "__main__":
    sys.exit(main())
