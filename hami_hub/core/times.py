"""Lengths of time as people write them in settings: "45m", "1h30m", "8h", "2d"; whole seconds inside."""

from __future__ import annotations

import re

DAY = 86400.0
MOST_SECONDS = 10 * 365 * 24 * 3600
_SECONDS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_TIME = re.compile(r"(?:([0-9]{1,9})d)?(?:([0-9]{1,9})h)?(?:([0-9]{1,9})m)?(?:([0-9]{1,9})s)?")


def parse_time(text: str) -> int | None:
    """The seconds that `text` names; None: it names none, none of them, or more than ten years."""
    match = _TIME.fullmatch(text.replace(" ", "").lower())
    if match is None:
        return None
    seconds = sum(int(part or 0) * unit for part, unit in zip(match.groups(), _SECONDS.values(), strict=True))
    return seconds if 1 <= seconds <= MOST_SECONDS else None


def format_time(seconds: int) -> str:
    """`seconds` as `parse_time` reads it: "8h", "1h30m"; days only where they are whole."""
    written, left = "", seconds
    for unit, length in _SECONDS.items():
        if left >= length and (unit != "d" or left % length == 0):
            written += f"{left // length}{unit}"
            left %= length
    return written
