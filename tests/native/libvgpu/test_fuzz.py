"""Random operations by several processes: the ledger says what the driver counts, and nobody passes the limit.

A short part with fixed seeds; `bench/limiter/fuzz.py` makes as many operations as one likes.
"""

from __future__ import annotations

import os
import re

import pytest

from .fuzzing import Fuzzer

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="a PID namespace without a user namespace takes root")


def operations(output: str) -> int:
    found = re.search(r"operations (\d+)", output)
    assert found, output
    return int(found[1])


@pytest.mark.parametrize("seed", [1, 2])
def test_by_turns(native, seed: int):
    fuzzer = Fuzzer.compile(native)
    options = {"seed": seed, "turns": 1, "workers": 3, "rounds": 12, "steps": 150, "kill": 30, "resize": 30}
    done = fuzzer.run(**options)
    if done.returncode:
        pytest.fail(f"{done.stdout}{done.stderr}\n{fuzzer.shrink(**options)}", pytrace=False)
    # two workers more or less: what an exec interrupts isn't counted
    assert operations(done.stdout) > 12 * 150 * 3 * 0.9


@pytest.mark.parametrize("seed", [3, 4])
def test_all_at_once(native, seed: int):
    done = Fuzzer.compile(native).run(seed=seed, workers=4, rounds=15, steps=500, kill=40, resize=30)
    assert done.returncode == 0, done.stdout + done.stderr
    assert operations(done.stdout) > 10_000


@ROOT_ONLY
def test_across_pid_namespaces(native):
    done = Fuzzer.compile(native).run(seed=5, workers=4, rounds=15, steps=500, kill=40, resize=30, spaces=2)
    assert done.returncode == 0, done.stdout + done.stderr


def test_one_small_slice_for_one_process(native):
    done = Fuzzer.compile(native).run(seed=6, turns=1, workers=1, rounds=10, steps=200, limit=260)
    assert done.returncode == 0, done.stdout + done.stderr


def test_clean_under_address_sanitizer(native, native_address):
    """What the limiter does with its own memory along the way."""
    fuzzer = Fuzzer.compile(native, flags=("-fsanitize=address,undefined",), limiter=native_address.limiter)
    more = {
        "ASAN_OPTIONS": "detect_leaks=0:verify_asan_link_order=0:abort_on_error=0",
        "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    }
    done = fuzzer.run(more=more, seed=7, workers=2, rounds=8, steps=300, kill=0, resize=30)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
