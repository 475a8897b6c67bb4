"""As many random operations as one likes, with other seeds each time; `test_fuzz` is the short part.

    python -m tests.native.libvgpu.long_fuzz --operations 10000000

Prints a line a run and the sums; ends with 1 at the first run in which ledger and driver differ, with the few steps
that are enough for it if they can be found.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import sys
import time
from collections import Counter
from pathlib import Path

from ..conftest import build_native
from .fuzzing import Fuzzer

# Most operations are made at once; one run in turns takes as long as some of those.
SHAPES: tuple[tuple[str, dict[str, int]], ...] = (
    ("by turns", {"turns": 1, "workers": 3, "rounds": 40, "steps": 300, "kill": 30, "resize": 30}),
    ("at once", {"workers": 4, "rounds": 80, "steps": 1000, "kill": 50, "resize": 30}),
    ("large slice", {"workers": 6, "rounds": 60, "steps": 1000, "kill": 50, "resize": 30, "limit": 4000}),
    ("PID namespaces", {"workers": 4, "rounds": 80, "steps": 1000, "kill": 50, "resize": 30, "spaces": 2}),
    ("small slice", {"workers": 2, "rounds": 80, "steps": 1000, "kill": 30, "resize": 30, "limit": 400}),
)
COUNTED = ("operations", "done", "refused", "other answers", "kills", "resizes")


def sums_of(output: str) -> Counter[str]:
    last = output.splitlines()[-1]
    return Counter({name: int(re.search(rf"{name} (\d+)", last)[1]) for name in COUNTED})  # type: ignore[index]


def run(fuzzer: Fuzzer, wanted: int, first_seed: int) -> int:
    total: Counter[str] = Counter()
    start = time.monotonic()
    for seed in itertools.count(first_seed):
        title, options = SHAPES[seed % len(SHAPES)]
        if "spaces" in options and os.geteuid() != 0:
            continue
        done = fuzzer.run(seed=seed, **options)
        if done.returncode:
            print(f"{title}, seed {seed}: {done.stdout}{done.stderr}")
            if "turns" in options:
                print(fuzzer.shrink(seed=seed, **options))
            return 1
        sums = sums_of(done.stdout)
        total += sums
        print(f"{title}, seed {seed}: {', '.join(f'{name} {sums[name]}' for name in COUNTED)}", flush=True)
        if total["operations"] >= wanted:
            break
    print(f"\n{', '.join(f'{name} {total[name]:,}' for name in COUNTED)}, in {time.monotonic() - start:.0f} s")
    print("After each of the runs' rounds the page said what the driver counts, and nobody was above the limit.")
    return 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--operations", type=int, default=10_000_000)
    parser.add_argument("--seed", type=int, default=1000, help="of the first run")
    parser.add_argument("--limiter", type=Path, help="another one than ours as it is")
    options = parser.parse_args()
    fuzzer = Fuzzer.compile(build_native("native"), limiter=options.limiter)
    sys.exit(run(fuzzer, options.operations, options.seed))


if __name__ == "__main__":
    main()
