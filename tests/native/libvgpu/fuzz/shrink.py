"""Shrinks a failing run of the fuzzer: leaves steps out as long as the rest still fails.

    python shrink.py WORKERS LIMITER FUZZ WORKER option=number ...       the options of a run with turns=1

Environment as for `fuzz`.  Prints the steps that are needed.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

Step = tuple[int, int]  # worker, number


def fails(program: list[str], steps: set[Step], kept: set[Step], folder: Path) -> tuple[str, list[str]] | None:
    """The complaint and the steps of a run that makes only the `kept` of `steps`; None if it ends well."""
    skip = folder / "skip"
    skip.write_bytes(b"".join(struct.pack("=Q", worker << 56 | number) for worker, number in sorted(steps - kept)))
    shutil.rmtree(folder / "sim", ignore_errors=True)
    (folder / "sim").mkdir()
    environment = {**os.environ, "HAMI_SIM_DIR": str(folder / "sim")}
    fuzz, worker, *options = program
    command = [fuzz, str(folder), worker, *options, f"skip={skip}"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 1:
        return None
    lines = [line for line in (folder / "steps").read_text().splitlines() if line]
    return done.stdout.strip(), lines


def kind_of(complaint: str) -> str:
    """What a complaint is about, without its figures."""
    return "".join(c for c in complaint.split(":", 1)[1] if c.isalpha())[:30]


def shrink(program: list[str], folder: Path) -> tuple[str, list[str]] | None:
    """Halves, quarters, and so on are left out, until no single step can be."""
    found = fails(program, set(), set(), folder)
    if found is None:
        return None
    turn = int(found[0].split("turn ")[1].split(":")[0])
    program = [*program, f"stop={turn + 1}"]
    kind = kind_of(found[0])
    steps = {(int(words[0]), int(words[1])) for words in map(str.split, found[1])}
    kept = sorted(steps)
    size = len(kept) // 2
    while size:
        at = 0
        while at < len(kept):
            rest = kept[:at] + kept[at + size :]
            smaller = fails(program, steps, set(rest), folder)
            if smaller and kind_of(smaller[0]) == kind:
                found, kept = smaller, rest
            else:
                at += size
        size //= 2
    return found


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="hami-fuzz-", dir="/dev/shm"))
    try:
        found = shrink(sys.argv[1:], folder)
    finally:
        shutil.rmtree(folder)
    if found is None:
        sys.exit("This run ends well.")
    print(found[0], *found[1], sep="\n")


if __name__ == "__main__":
    main()
