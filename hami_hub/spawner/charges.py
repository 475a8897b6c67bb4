"""Who is charged for what, in this hub, now.

Held in memory only and derived anew from the state of running servers when a hub starts: nothing is counted that could
be counted wrongly.  What a quota allows is decided by `hami_hub.core.budgets`.  Lives in the hub's event loop; no call
waits for anything, so nothing comes between a judgement and the charge.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ..core.budgets import Asked, Budget, Refused, charged_budgets, payer
from ..core.quota import Charge, Quota, has_quota
from ..core.slices import SliceId
from ..core.units import Mib

Groups = Iterable[tuple[str, Mapping[str, Any]]]


class Charges:
    """The charges of one hub, by the id of the start.

    Args:
        default_quota: properties of the quota of those who are in no group that has one.
    """

    def __init__(self, default_quota: Mapping[str, Any]) -> None:
        self._default = dict(default_quota)
        self._held: dict[str, Charge] = {}

    def all(self) -> tuple[Charge, ...]:
        """Every charge, oldest first."""
        return tuple(self._held.values())

    def of(self, start: str) -> Charge | None:
        """What a start is charged."""
        return self._held.get(start)

    def ends(self) -> dict[SliceId, float]:
        """Unix time when servers end by their time limits, of those that have one."""
        return {charge.holder: charge.until for charge in self._held.values() if charge.until is not None}

    def budgets(self, groups: Groups) -> tuple[Budget, ...]:
        """The budgets of somebody who is in `groups`: of those that have a quota, else the default one.

        Args:
            groups: names with their properties, as they are this moment.
        """
        return self._budgets(groups, without=None)

    def take(
        self, start: str, holder: SliceId, groups: Groups, asked: Asked, wanted: str, now: float
    ) -> Budget | Refused:
        """Charge a start to whoever pays for it, if anybody does.

        A former server of the same holder, which is still ending, doesn't stand in the way of its own next start.

        Args:
            start: its id, charged only once.
            holder: who will hold the slice.
            groups: see `budgets`.
            asked: what is to be started, with a GPU.
            wanted: the group that is to pay; "": whichever has most room.
            now: Unix time.
        """
        verdict = payer(self._budgets(groups, without=holder), asked, wanted)
        if isinstance(verdict, Budget):
            former = [self._held.pop(id_) for id_, each in tuple(self._held.items()) if each.holder == holder]
            amount = asked.amount
            self._held[start] = Charge(
                holder=holder,
                user=asked.user,
                group=verdict.group,
                profile=asked.profile,
                cards=asked.cards,
                vram=Mib(max(amount.vram, *(each.vram for each in former), 0)),
                cores=max(amount.cores, *(each.cores for each in former), 0),
                since=now,
                weight=verdict.quota.weight,
            )
        return verdict

    def settle(self, start: str, *, cards: int, vram: Mib, cores: int, until: float | None) -> None:
        """A start has its slice: from now on what it got is charged, not what it might have got."""
        if start in self._held:
            self._held[start] = replace(self._held[start], cards=cards, vram=vram, cores=cores, until=until)

    def restore(self, start: str, charge: Charge) -> None:
        """Take up what a running server is charged, after a restart of the hub; it counts whether it fits or not."""
        self._held[start] = charge

    def release(self, start: str) -> None:
        """A start has given back all that it held.  One that isn't charged is no error."""
        self._held.pop(start, None)

    def _budgets(self, groups: Groups, without: SliceId | None) -> tuple[Budget, ...]:
        held = [charge for charge in self._held.values() if charge.holder != without]
        paying = [(name, properties) for name, properties in groups if has_quota(properties)]
        return charged_budgets(paying or [("", self._default)], held)


def limits_anything(budgets: Iterable[Budget]) -> bool:
    """Whether there is anything in them that a person could want to know."""
    return any(budget.faults or budget.quota != Quota() for budget in budgets)
