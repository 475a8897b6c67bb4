"""Every case of every C program, each in a process and on a card of its own; all again with sanitizers."""

from __future__ import annotations

import re

import pytest

from .conftest import PROGRAMS, Machine

CASES = [
    pytest.param(source.stem, case, id=f"{source.stem}-{case}")
    for source in sorted(PROGRAMS.glob("*.c"))
    for case in re.findall(r"^CASE\((\w+)\)", source.read_text(), re.MULTILINE)
]


@pytest.mark.parametrize(("program", "case"), CASES)
def test_case(machine: Machine, program: str, case: str) -> None:
    done = machine.run(program, case)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("program", "case"), CASES)
def test_case_with_sanitizers(sanitized_machine: Machine, program: str, case: str) -> None:
    done = sanitized_machine.run(program, case)
    assert (done.returncode, done.stderr) == (0, "")
