"""What somebody wrote, fit to be shown back to them: printable, on one line, and not too long."""

from __future__ import annotations


def printable(text: str) -> str:
    """`text` without what a terminal would obey."""
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)


def shown(value: object, longest: int = 64) -> str:
    """`value` as text of at most `longest` characters, and "…" where there were more."""
    plain = printable(" ".join(str(value).split()))
    return plain if len(plain) <= longest else plain[:longest] + "…"


def quoted(value: object, longest: int = 64) -> str:
    """The same in quotation marks."""
    return f'"{shown(value, longest)}"'
