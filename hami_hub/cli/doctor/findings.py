"""What the doctor found, and how it is printed.  Pure; the checks are in `checks`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import Enum


class Verdict(str, Enum):
    """How a check came out.  Only `WRONG` makes the doctor's exit code 1."""

    GOOD = "good"
    WRONG = "wrong"
    LEFT_OUT = "left-out"  # doesn't apply here


_MARKS = {Verdict.GOOD: "✓", Verdict.WRONG: "✗", Verdict.LEFT_OUT: "–"}
_NAME_WIDTH = 12


@dataclass(frozen=True, slots=True)
class Finding:
    """One line: what was checked, what came out, and for what is wrong the remedy."""

    check: str
    verdict: Verdict
    text: str
    remedy: str = ""


def good(check: str, text: str) -> Finding:
    """All is well."""
    return Finding(check, Verdict.GOOD, text)


def wrong(check: str, text: str, remedy: str) -> Finding:
    """Something is to be mended, and how."""
    return Finding(check, Verdict.WRONG, text, remedy)


def left_out(check: str, text: str) -> Finding:
    """Not checked, and why."""
    return Finding(check, Verdict.LEFT_OUT, text)


def render(findings: Iterable[Finding]) -> str:
    """One line a finding, with its remedy in a line below."""
    lines = []
    for finding in findings:
        lines.append(f"{_MARKS[finding.verdict]} {finding.check:<{_NAME_WIDTH}}{finding.text}")
        if finding.remedy:
            lines.append(f"  {'':{_NAME_WIDTH}}{finding.remedy}")
    return "\n".join(lines)


def to_json(findings: Iterable[Finding]) -> str:
    """The same for programs: a list of objects with check, verdict, text and remedy."""
    return json.dumps([asdict(finding) for finding in findings], indent=2, ensure_ascii=False)
