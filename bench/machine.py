"""What the benchmarks on a card ask of their command line and of the machine."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from hami_hub import native

_FIND_HEADERS = Path(__file__).resolve().parents[1] / "native" / "tools" / "find_headers.py"


def add_machine_options(parser: argparse.ArgumentParser) -> None:
    """Which libraries, headers and card are meant, and where the report goes."""
    add = parser.add_argument
    add("--ours", type=Path, metavar="LIBRARY", help="our limiter, where it is not the installed one")
    add("--cuda-include", type=Path, metavar="FOLDER", help="of cuda.h; default: the installed wheel's or toolkit's")
    add("--simulated", action="store_true", help="on a simulated T4, to try the bench")
    add("--sim", type=Path, metavar="FOLDER", help="of the simulated driver, where it is not the installed one")
    add("--note", action="append", default=[], help="a line for the report's facts: say, a library's version")
    add(
        "--output",
        type=Path,
        default=Path("docs/proofs"),
        help="where the report's folder is made; default: docs/proofs",
    )


def find_headers() -> Path:
    """The folder of cuda.h: the installed wheel's or toolkit's."""
    done = subprocess.run([sys.executable, _FIND_HEADERS], capture_output=True, text=True, check=False)
    # a folder without cuda.h: the compiler will say so
    return Path(done.stdout.strip() or "/usr/local/cuda/include")


def sim_folder(options: argparse.Namespace) -> Path | None:
    """The simulated driver's folder, if that is asked for."""
    if not options.simulated:
        return None
    return (options.sim or native.sim_folder()).resolve()
