"""Amounts: VRAM in whole MiB, cores in whole percent of one card.  Text in, text out, never a float.

Bytes exist only where a page or a driver speaks them, and become MiB there at once.  A text that is no amount raises
`AmountError`, whose message is shown to the person who typed it.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import NewType

from .language import later, say
from .shown import quoted

Mib = NewType("Mib", int)
Percent = NewType("Percent", int)

MIB_PER_GIB = 1024
BYTES_PER_MIB = 1024 * 1024
# More than any card has: 16 TiB.  An amount above it is a slip of the keyboard, not a wish.
MAX_VRAM = Mib(16 * 1024 * 1024)

_MIB_PER_UNIT = {
    "": Fraction(1),
    "m": Fraction(1),
    "mi": Fraction(1),
    "mib": Fraction(1),
    "gi": Fraction(MIB_PER_GIB),
    "gib": Fraction(MIB_PER_GIB),
    "ti": Fraction(MIB_PER_GIB**2),
    "tib": Fraction(MIB_PER_GIB**2),
}
_DECIMAL_UNITS = {"k", "kb", "mb", "g", "gb", "t", "tb"}
# ASCII digits only: int() would take the digits of every script.
_AMOUNT = re.compile(r"([0-9]{1,13})(?:\.([0-9]{1,9}))? ?([A-Za-z]{0,3})")
_PERCENT = re.compile(r"([0-9]{1,9}) ?%?")
_SHOWN = 32
# What a percentage may be of.
CORES = later("cores")
CARD_VRAM = later("a card's VRAM")


class AmountError(ValueError):
    """A text that is no amount.  The message is one plain sentence with a way out, fit to be shown."""


def parse_vram(text: str | int, *, least: Mib = Mib(1), most: Mib = MAX_VRAM) -> Mib:
    """The amount of VRAM that `text` names: "4 GiB", "4Gi", "1.5 GiB", "4096", "4096MiB"; a bare number is MiB.

    Raises:
        AmountError: not an amount, not a whole number of MiB, less than `least` or more than `most`.
    """
    shown = _quoted(text)
    match = None if isinstance(text, bool) else _AMOUNT.fullmatch(str(text).strip(" \t"))
    if match is None:
        raise AmountError(say("{text} is not an amount of VRAM. Write it like 4 GiB or 4096 MiB.", text=shown))
    whole, decimals, unit = match[1], match[2] or "", match[3]
    if unit.lower() in _DECIMAL_UNITS:
        raise AmountError(
            say(
                "{text} uses a decimal unit, VRAM is counted in MiB and GiB. Write it like 4 GiB or 4096 MiB.",
                text=shown,
            )
        )
    if unit.lower() not in _MIB_PER_UNIT:
        raise AmountError(
            say("{text} has a unit that VRAM is not counted in. Write it like 4 GiB or 4096 MiB.", text=shown)
        )
    amount = Fraction(int(whole + decimals), 10 ** len(decimals)) * _MIB_PER_UNIT[unit.lower()]
    if amount.denominator != 1:
        raise AmountError(say("{text} is not a whole number of MiB. Write it like 4 GiB or 4096 MiB.", text=shown))
    if amount < least:
        raise AmountError(
            say(
                "{text} is no memory at all, a slice needs at least 1 MiB. Write it like 4 GiB or 4096 MiB.", text=shown
            )
        )
    if amount > most:
        raise AmountError(say("{text} is more than any card has. Write it like 4 GiB or 4096 MiB.", text=shown))
    return Mib(int(amount))


def mib_down(amount: int) -> Mib:
    """The whole MiB in `amount` bytes: for what there is."""
    return Mib(amount // BYTES_PER_MIB)


def mib_up(amount: int) -> Mib:
    """The MiB that `amount` bytes need: for what is in use."""
    return Mib(-(-amount // BYTES_PER_MIB))


def format_vram(amount: Mib) -> str:
    """`amount` as people write it; `parse_vram` gives it back: 4096 is "4 GiB", 4000 is "4000 MiB"."""
    if amount and amount % MIB_PER_GIB == 0:
        return f"{amount // MIB_PER_GIB} GiB"
    return f"{amount} MiB"


def format_gib(amount: Mib) -> str:
    """`amount` in GiB with at most one decimal, rounded down: for people comparing, not for parsing back."""
    tenths = amount * 10 // MIB_PER_GIB
    if amount and not tenths:
        return f"{amount} MiB"
    return f"{tenths // 10} GiB" if tenths % 10 == 0 else f"{tenths // 10}.{tenths % 10} GiB"


def parse_percent(text: str | int, *, of: str = CORES) -> Percent:
    """A whole percentage from 0 to 100: "25", "25 %", 25.  `of`: `CORES` or `CARD_VRAM`, for the error.

    Raises:
        AmountError: not a whole number from 0 to 100.
    """
    match = None if isinstance(text, bool) else _PERCENT.fullmatch(str(text).strip(" \t"))
    if match is None or int(match[1]) > 100:
        raise AmountError(
            say(
                "{text} is not a percentage of {whole}. Write a whole number from 0 to 100, like 25 %.",
                text=_quoted(text),
                whole=say(of),
            )
        )
    return Percent(int(match[1]))


def _quoted(text: object) -> str:
    return quoted(text, _SHOWN)
