"""What a quota would have refused in the past: the journal's starts, judged again.

Pure.  The judging is that of `budgets`, the same that judges a start of today; `history` has what happened.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable
from dataclasses import dataclass

from .budgets import Asked, Budget, judge, same_group
from .history import Start, StartState, charge_of
from .quota import Charge, Quota


@dataclass(frozen=True, slots=True)
class WouldRefuse:
    """A start of the past, and the key of the quota that would have refused it: "hami.vram"."""

    start: Start
    key: str


@dataclass(frozen=True, slots=True)
class DryRun:
    """What a quota would have done to the starts of some time.

    Attributes:
        judged: starts that were accepted then; `refused`: those of them that would have been refused, oldest first.
        cut_short: servers that ran longer than the quota's `max_lifetime`.
    """

    judged: int
    refused: tuple[WouldRefuse, ...] = ()
    cut_short: int = 0

    @property
    def users(self) -> tuple[str, ...]:
        """Whose starts would have been refused, by name."""
        return tuple(sorted({each.start.user for each in self.refused}))

    def text(self, days: float) -> str:
        """One or two sentences for admins about the last `days` days."""
        when = f"In the last {days:g} days this" if days != 1 else "In the last day this"
        if not self.judged:
            return f"{when} would have refused nothing: no server with a GPU was started that this group paid for."
        text = f"{when} would have refused {len(self.refused) or 'none'} of {_counted(self.judged, 'start')}"
        text += f", of {_counted(len(self.users), 'person', 'people')}." if self.refused else "."
        if self.cut_short:
            text += f" It would have stopped {_counted(self.cut_short, 'server')} at the end of hami.max-lifetime."
        return text


def would_have_refused(
    quota: Quota, starts: Iterable[Start], group: str, *, since: float = -math.inf, now: float = math.inf
) -> DryRun:
    """Judge the accepted starts of `group` again, in order of time, as if `quota` had held.

    What is refused in this doesn't count towards the next one, and what runs longer than the quota's lifetime counts
    until its end.  Starts before `since` are not judged, but count as long as they lasted: a quota ends nothing that
    runs.
    """
    ours = sorted(
        (
            each
            for each in starts
            if same_group(each.group, group) and each.cards and each.state is not StartState.REFUSED
        ),
        key=lambda each: (each.asked_at, each.id),
    )
    held: dict[str, Charge] = {}
    ends: list[tuple[float, str]] = []
    refused: list[WouldRefuse] = []
    judged = cut_short = 0
    for start in ours:
        while ends and ends[0][0] <= start.asked_at:
            del held[heapq.heappop(ends)[1]]
        end = _end(start, quota)
        if start.asked_at >= since:
            judged += 1
            asked = Asked(start.user, start.profile, start.cards, start.vram, start.cores)
            why = judge(Budget(group, quota, tuple(held.values())), asked)
            if why is not None:
                refused.append(WouldRefuse(start, why.key))
                continue
            cut_short += end < min(now, _ended(start))
        held[start.id] = charge_of(start)
        heapq.heappush(ends, (end, start.id))
    return DryRun(judged, tuple(refused), cut_short)


def _ended(start: Start) -> float:
    return math.inf if start.ended_at is None else start.ended_at


def _end(start: Start, quota: Quota) -> float:
    """When `start` would have given its slice back."""
    if quota.max_lifetime is None or start.started_at is None:
        return _ended(start)
    return min(_ended(start), start.started_at + quota.max_lifetime)


def _counted(n: int, one: str, many: str = "") -> str:
    return f"{n} {one if n == 1 else many or one + 's'}"
