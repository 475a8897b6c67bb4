"""Kubernetes quantities as whole numbers.  Amounts that people type are parsed by `units`.

The API server rewrites quantities: what was applied as `4000` is read back as "4k".
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from functools import lru_cache

from .units import AmountError

_QUANTITY = re.compile(
    r"([+-]?)([0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30})(?:[eE]([+-]?[0-9]{1,2})|([A-Za-z]{1,2}))?"
)
_SUFFIXES = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    **{suffix: Fraction(1000**power) for power, suffix in enumerate("kMGTPE", 1)},
    **{f"{suffix}i": Fraction(1024**power) for power, suffix in enumerate("KMGTPE", 1)},
}
_SHOWN = 32


def whole_quantity(quantity: object) -> int:
    """The whole number that `quantity` ("4000", "4k", "1e3", 4000) stands for; may be negative.

    Raises:
        AmountError: no quantity, or not a whole number.
    """
    amount = _amount(quantity)
    if amount.denominator != 1:
        raise AmountError(f"{_quoted(quantity)} is not a whole number. Write one.")
    return int(amount)


def milli_quantity(quantity: object) -> int:
    """Thousandths of what `quantity` ("100m", "0.5", 2) stands for, rounded up as Kubernetes does.

    Raises:
        AmountError: no quantity.
    """
    return math.ceil(_amount(quantity) * 1000)


def _amount(quantity: object) -> Fraction:
    if isinstance(quantity, int) and not isinstance(quantity, bool):
        return Fraction(quantity)
    if not isinstance(quantity, str):
        raise AmountError(f"{_quoted(quantity)} is no quantity. Write a whole number.")
    return _parsed(quantity)


@lru_cache(maxsize=1024)  # a cluster writes the same few amounts all day
def _parsed(quantity: str) -> Fraction:
    match = _QUANTITY.fullmatch(quantity.strip())
    suffix = match[4] if match else None
    if match is None or (suffix and suffix not in _SUFFIXES):
        raise AmountError(f"{_quoted(quantity)} is no quantity. Write a whole number.")
    amount = Fraction(f"0{match[2]}" if match[2].startswith(".") else match[2].removesuffix("."))
    amount *= _SUFFIXES[suffix] if suffix else Fraction(10) ** int(match[3] or 0)
    return -amount if match[1] == "-" else amount


def _quoted(quantity: object) -> str:
    shown = str(quantity)
    return f'"{shown if len(shown) <= _SHOWN else shown[:_SHOWN] + "…"}"'
