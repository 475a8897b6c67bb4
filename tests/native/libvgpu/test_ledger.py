"""The ledger by itself, without a driver: nobody passes the limit, and what a killed process leaves is harmless."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from .conftest import PROGRAMS

SOURCES = Path(__file__).resolve().parents[3] / "native" / "libvgpu" / "src"
LEDGER = (SOURCES / "ledger.c", SOURCES / "life.c", SOURCES / "process.c")
RULES = re.findall(r"RULE\((\w+_\w+)\)", (PROGRAMS / "ledger_rules.c").read_text())


def run(*command: Path | str) -> str:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("scenario", "steps"),
    [("allocate", 10), ("retreat", 50), ("first_context", 6), ("reap", 25), ("reap_after_dead_reaper", 25)],
)
def test_killed_at_every_step_leaves_the_truth(native, scenario, steps):
    program = native.compile(PROGRAMS / "ledger_kill.c", *LEDGER, flags=("-DHAMI_LEDGER_STEPS",))
    assert int(run(program, scenario)) >= steps


@pytest.mark.parametrize("kills", [0, 3])
def test_racing_processes_never_pass_the_limit(native, kills):
    program = native.compile(PROGRAMS / "ledger_race.c", *LEDGER)
    passed, refused = re.findall(r"\d+", run(program, "6", "2", "100000", str(kills)))
    assert int(passed) > 0
    assert int(refused) > 0


def test_racing_threads_under_thread_sanitizer(native):
    program = native.compile(PROGRAMS / "ledger_race.c", *LEDGER, flags=("-fsanitize=thread",))
    assert "passed" in run(program, "1", "4", "5000", "0")


@pytest.mark.parametrize("rule", RULES)
def test_rule(native, rule):
    run(native.compile(PROGRAMS / "ledger_rules.c", *LEDGER, SOURCES / "refusal.c"), rule)


@pytest.mark.parametrize("scenario", ["allocate", "reap"])
def test_killed_at_every_step_under_address_sanitizer(native, scenario):
    flags = ("-DHAMI_LEDGER_STEPS", "-fsanitize=address,undefined")
    run(native.compile(PROGRAMS / "ledger_kill.c", *LEDGER, flags=flags), scenario)


@pytest.mark.parametrize("who", ["process", "thread"])
def test_who_waits_for_the_first_context_never_takes_the_rest_when_its_cost_is_known(native, tmp_path: Path, who: str):
    generated = f"-I{native.folder / 'libvgpu' / 'generated'}"
    flags = (generated, "-D__CUDA_API_VERSION_INTERNAL", "-DNVML_NO_UNVERSIONED_FUNC_DEFS")
    program = native.compile(PROGRAMS / "context_turn.c", SOURCES / "context_cost.c", *LEDGER, flags=flags)
    run(program, who, tmp_path / "usage")
