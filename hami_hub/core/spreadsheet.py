"""Tables for spreadsheets, as CSV of RFC 4180.  Names come from people: no cell is taken for a formula."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence


def to_csv(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """`rows` below a line with `heads`."""
    written = io.StringIO()
    writer = csv.writer(written)
    writer.writerow(heads)
    writer.writerows([_no_formula(cell) for cell in row] for row in rows)
    return written.getvalue()


def _no_formula(text: str) -> str:
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text
