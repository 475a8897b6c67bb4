"""The report of a run of `hami-hub prove`, as Markdown.  Pure: `steps` has run it all."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from .bench import Ran


class Verdict(str, Enum):
    """How a proof ended; the value is what the report says."""

    HOLDS = "holds"
    FAILS = "FAILS"
    LEFT_OUT = "left out"


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """One claim and what was seen.

    Attributes:
        title: the heading.
        claim: what is to be seen, a sentence.
        problems: what was seen instead; empty if the claim holds.
        left_out: why it wasn't tried; "" if it was.
        ran: the commands, with their raw output.
        record: a notebook's cells and outputs, as Markdown.
    """

    title: str
    claim: str
    problems: Sequence[str] = ()
    left_out: str = ""
    ran: Sequence[Ran] = ()
    record: str = ""

    @property
    def verdict(self) -> Verdict:
        """Holds, fails, or was left out."""
        if self.left_out:
            return Verdict.LEFT_OUT
        return Verdict.FAILS if self.problems else Verdict.HOLDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A whole run.

    Attributes:
        date: "2026-11-29".
        card: the model.
        facts: what there was on the machine, name and value.
    """

    date: str
    card: str
    simulated: bool
    facts: Sequence[tuple[str, str]] = ()
    proofs: Sequence[Proof] = field(default_factory=list)

    @property
    def folder(self) -> str:
        """The folder's name: "2026-11-29-nvidia-h200"."""
        card = re.sub(r"[^a-z0-9]+", "-", self.card.lower()).strip("-")
        return f"{self.date}-{card}{'-simulated' if self.simulated else ''}"

    @property
    def failed(self) -> bool:
        """Whether any proof failed."""
        return any(proof.verdict is Verdict.FAILS for proof in self.proofs)


def render(report: Report) -> str:
    """The report as Markdown: the verdicts first, then every proof with its raw output."""
    card = f"a simulated {report.card}" if report.simulated else f"one {report.card}"
    parts = [
        f"# Proofs on {card}, {report.date}",
        "Written by `hami-hub prove`. Output is raw, as the commands printed it.",
        _table(("claim", "verdict"), [(f"{n}. {p.title}", p.verdict.value) for n, p in enumerate(report.proofs, 1)]),
        "## The machine",
        _table(("", ""), report.facts),
    ]
    for number, proof in enumerate(report.proofs, 1):
        parts += _proof(number, proof)
    return "\n\n".join(part.rstrip("\n") for part in parts if part) + "\n"


def _proof(number: int, proof: Proof) -> list[str]:
    parts = [f"## {number}. {proof.title}", proof.claim]
    if proof.left_out:
        return [*parts, f"Left out: {proof.left_out}"]
    parts.append(f"**{proof.verdict.value.capitalize()}.**" if not proof.problems else _problems(proof.problems))
    parts += [_ran(ran) for ran in proof.ran]
    parts.append(proof.record)
    return parts


def _problems(problems: Sequence[str]) -> str:
    return "**FAILS:**\n\n" + "\n".join(f"* {problem}" for problem in problems)


def _ran(ran: Ran) -> str:
    text = f"$ {ran.command}\n{ran.output}"
    if ran.code != 0:
        text += "\n[not done in time]" if ran.code is None else f"\n[exit code {ran.code}]"
    fence = "````" if "```" in text else "```"
    return f"{fence}console\n{text}\n{fence}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)
