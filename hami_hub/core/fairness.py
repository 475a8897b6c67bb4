"""In which order those who wait are served: groups by what they have had for their weight, each group's by arrival.

Decides only; `spawner.past` knows what groups have had, `line` serves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from .units import MIB_PER_GIB, Mib

# What a turn is counted as while nobody knows how long it will last.
_TURN_HOURS = 1.0

Who = TypeVar("Who")


@dataclass(frozen=True, slots=True)
class Waiting:
    """One who waits: for which group's account, and for how much VRAM over all cards."""

    group: str
    weight: float
    vram: Mib


def in_turn(waiting: Mapping[Who, Waiting], past: Mapping[str, float]) -> tuple[Who, ...]:
    """Those who wait, in the order in which they are served.

    The group that has had least for its weight sends its first; that turn counts as an hour of what is asked for, so
    two groups of weight 2 and 1 take turns as 2 to 1.

    Args:
        waiting: in order of arrival.
        past: GiB-hours that each group has had, old ones counting less; of one that isn't there 0.
    """
    lines: dict[str, list[Who]] = {}
    for who, each in waiting.items():
        lines.setdefault(each.group.casefold(), []).append(who)
    had = _casefolded(past)
    arrived = {group: number for number, group in enumerate(lines)}
    order: list[Who] = []
    while lines:
        group = min(lines, key=lambda each: (had.get(each, 0.0) / waiting[lines[each][0]].weight, arrived[each]))
        who = lines[group].pop(0)
        order.append(who)
        had[group] = had.get(group, 0.0) + waiting[who].vram / MIB_PER_GIB * _TURN_HOURS
        if not lines[group]:
            del lines[group]
    return tuple(order)


def _casefolded(past: Mapping[str, float]) -> dict[str, float]:
    had: dict[str, float] = {}
    for group, hours in past.items():
        had[group.casefold()] = had.get(group.casefold(), 0.0) + hours
    return had
