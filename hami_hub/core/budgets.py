"""Budgets: what a group's quota leaves, who pays for one more server, and why nobody does.

Pure.  A budget is a quota with what is charged to it; `spawner.charges` keeps the charges, `quota_words` says a
refusal, `budget_view` is for pages.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from .cards import WHOLE_CORES, Card
from .quota import Amount, Charge, Quota, QuotaFault, UserQuota, parse_quota
from .slices import SliceRequest
from .units import Mib


class Measure(str, Enum):
    """What a quota limits; the value is the end of the quota's key."""

    SERVERS = "servers"
    VRAM = "vram"
    CORES = "cores"

    def of(self, amount: Amount) -> int:
        """This measure of an amount."""
        return int(getattr(amount, self.value))


class Cause(str, Enum):
    """Why a group doesn't pay."""

    FAULT = "fault"  # its quota is written wrongly
    NOT_YOURS = "not-yours"  # the person is not in it, or it has no quota
    PROFILE = "profile"  # it doesn't pay for this profile
    SIZE_UNKNOWN = "size-unknown"  # nobody knows how big the card is
    LIMIT = "limit"


@dataclass(frozen=True, slots=True)
class Asked:
    """What somebody wants to start.

    Attributes:
        cards: how many; 0 for a server without a GPU, which nobody pays for.
        vram: MiB over all its cards; None: a share of a card, and no card is known.
        cores: percent over all its cards.
    """

    user: str
    profile: str
    cards: int = 0
    vram: Mib | None = Mib(0)
    cores: int = 0

    @property
    def amount(self) -> Amount:
        """What it would be charged; of what isn't known nothing."""
        return Amount(self.vram or Mib(0), self.cores, 1 if self.cards else 0)


def asked_of(user: str, profile: str, request: SliceRequest | None, cards: Iterable[Card]) -> Asked:
    """What `request` is charged before it has its cards: of `cards`, the biggest that will do counts."""
    if request is None:
        return Asked(user, profile)
    cores = (WHOLE_CORES if request.whole else request.cores) * request.cards
    if request.vram is not None:
        return Asked(user, profile, request.cards, Mib(request.vram * request.cards), cores)
    sizes = [request.vram_of(card) for card in cards if card.vram and request.wishes.allow(card)]
    vram = Mib(max(sizes) * request.cards) if sizes else None
    return Asked(user, profile, request.cards, vram, cores)


@dataclass(frozen=True, slots=True)
class Budget:
    """One group's quota with what is charged to it.

    Attributes:
        group: its name; "" is the default quota, for those who have no group with one.
        faults: what is written wrongly; then it pays for nothing.
        charges: of all its servers that start or run.
    """

    group: str
    quota: Quota
    charges: tuple[Charge, ...] = ()
    faults: tuple[QuotaFault, ...] = ()

    @property
    def used(self) -> Amount:
        """What is charged to the group."""
        return total(self.charges)

    def of_user(self, user: str) -> Amount:
        """What is charged to the group for one person."""
        return total(charge for charge in self.charges if charge.user == user)


def charged_budgets(groups: Iterable[tuple[str, Mapping[str, Any]]], charges: Iterable[Charge]) -> tuple[Budget, ...]:
    """The budgets of `groups`, names with their properties, of all `charges`."""
    charged: defaultdict[str, list[Charge]] = defaultdict(list)
    for charge in charges:
        charged[charge.group.casefold()].append(charge)
    found = []
    for name, properties in groups:
        quota, faults = parse_quota(properties)
        found.append(Budget(name, quota, tuple(charged[name.casefold()]), faults))
    return tuple(found)


def total(charges: Iterable[Charge]) -> Amount:
    """The sum of `charges`."""
    vram = cores = servers = 0
    for charge in charges:
        vram, cores, servers = vram + charge.vram, cores + charge.cores, servers + 1
    return Amount(Mib(vram), cores, servers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Why a group doesn't pay.  `quota_words.why_refused` says it.

    Attributes:
        measure, limit, used: which limit, what it is, and what is charged towards it; with `Cause.LIMIT`.
        of_user: it is one for each person; `exception`: for this one.
        charges: what is charged towards that limit.
        fits: the most VRAM over all cards that the group would pay for now, all else equal; None: no limit.
        others: what could be had instead: of `Cause.PROFILE` profiles, else groups.
    """

    cause: Cause
    group: str
    asked: Asked
    measure: Measure = Measure.SERVERS
    limit: int = 0
    used: int = 0
    of_user: bool = False
    exception: bool = False
    charges: tuple[Charge, ...] = ()
    fits: Mib | None = None
    others: tuple[str, ...] = ()
    faults: tuple[QuotaFault, ...] = ()

    @property
    def key(self) -> str:
        """The property that says so; "" of a group that has none."""
        if self.cause is Cause.FAULT:
            return self.faults[0].key
        if self.cause is Cause.PROFILE:
            return "hami.profiles"
        if self.cause is Cause.NOT_YOURS:
            return ""
        if self.exception:
            return f"hami.user.{self.asked.user}.{self.measure.value}"
        return f"hami.{self.measure.value}{'-per-user' if self.of_user else ''}"

    @property
    def left(self) -> int:
        """What the limit leaves; 0 also where a lowered one is exceeded."""
        return max(0, self.limit - self.used)

    @property
    def never(self) -> bool:
        """Whether it can't be had by waiting either."""
        return self.cause is not Cause.LIMIT or self.measure.of(self.asked.amount) > self.limit


def judge(budget: Budget, asked: Asked) -> Refused | None:
    """Why the group doesn't pay for `asked`; None if it does."""
    if not asked.cards:
        return None
    if budget.faults:
        return Refused(cause=Cause.FAULT, group=budget.group, asked=asked, faults=budget.faults)
    profiles = budget.quota.profiles
    if profiles is not None and asked.profile not in profiles:
        return Refused(cause=Cause.PROFILE, group=budget.group, asked=asked, others=tuple(sorted(profiles)))
    limits = tuple(_limits(budget, asked))
    if asked.vram is None and any(limit.measure is Measure.VRAM for limit in limits):
        return Refused(cause=Cause.SIZE_UNKNOWN, group=budget.group, asked=asked, measure=Measure.VRAM)
    # What can never be had is said before what can be waited for.
    exceeded = [each for each in limits if each.used + each.measure.of(asked.amount) > each.limit]
    worst = min(exceeded, key=lambda each: not each.never, default=None)
    return None if worst is None else replace(worst, fits=_affordable(limits, asked))


def _affordable(limits: Iterable[Refused], asked: Asked) -> Mib | None:
    """See `affordable_vram`."""
    most: int | None = None
    for limit in limits:
        if limit.measure is Measure.VRAM:
            most = limit.left if most is None else min(most, limit.left)
        elif limit.used + limit.measure.of(asked.amount) > limit.limit:
            return Mib(0)
    return None if most is None else Mib(most)


def _limits(budget: Budget, asked: Asked) -> Iterable[Refused]:
    """Each limit that holds, as the refusal that it would be."""
    mine = tuple(charge for charge in budget.charges if charge.user == asked.user)
    own = budget.quota.users.get(asked.user.casefold(), UserQuota())
    scopes = ((budget.quota, budget.charges, False), (budget.quota.of_user(asked.user), mine, True))
    for limits, charges, of_user in scopes:
        used = total(charges)
        for measure in Measure:
            limit = getattr(limits, measure.value)
            if limit is not None:
                yield Refused(
                    cause=Cause.LIMIT,
                    group=budget.group,
                    asked=asked,
                    measure=measure,
                    limit=limit,
                    used=measure.of(used),
                    of_user=of_user,
                    exception=of_user and getattr(own, measure.value) is not None,
                    charges=charges,
                )


def payers(budgets: Sequence[Budget], asked: Asked) -> tuple[Budget, ...]:
    """Those who would pay for `asked`, the one with most room first."""
    can = [budget for budget in budgets if judge(budget, asked) is None]
    return tuple(sorted(can, key=lambda budget: -room(budget, asked)))


def payer(budgets: Sequence[Budget], asked: Asked, wanted: str = "") -> Budget | Refused:
    """Who pays for `asked`: the group that the person names, else the one with most room; or why nobody does.

    Args:
        budgets: of the person's groups that have a quota; of nobody's, the default one.
        asked: what they want.
        wanted: a group's name, upper or lower case.
    """
    if wanted and asked.cards:
        named = _named(budgets, wanted)
        if named is None:
            others = tuple(budget.group for budget in budgets if budget.group)
            return Refused(cause=Cause.NOT_YOURS, group=wanted, asked=asked, others=others)
        refused = judge(named, asked)
        if refused is None:
            return named
        if refused.cause is Cause.PROFILE:
            return refused
        return replace(refused, others=tuple(other.group for other in payers(budgets, asked)))
    if can := payers(budgets, asked):
        return can[0]
    refusals = [refused for budget in budgets if (refused := judge(budget, asked)) is not None]
    # The nearest to a yes says most: what may come free, then the limit that leaves most.
    return min(refusals, key=lambda refused: (refused.never, refused.cause is not Cause.LIMIT, -refused.left))


def room(budget: Budget, asked: Asked) -> float:
    """How many more like `asked` the budget would pay for; infinite without a limit."""
    most = math.inf
    for limit in _limits(budget, asked):
        each = limit.measure.of(asked.amount)
        if each:
            most = min(most, limit.left / each)
    return most


def affordable_vram(budget: Budget, asked: Asked) -> Mib | None:
    """The most VRAM over all its cards that `asked` could have from this budget, all else equal; None: no limit."""
    if judge(budget, replace(asked, vram=Mib(0))) is not None:
        return Mib(0)
    return _affordable(_limits(budget, asked), asked)


def _named(budgets: Sequence[Budget], wanted: str) -> Budget | None:
    exactly = next((budget for budget in budgets if budget.group == wanted), None)
    if exactly is not None:
        return exactly
    return next((budget for budget in budgets if same_group(budget.group, wanted)), None)


def same_group(one: str, other: str) -> bool:
    """Whether two names mean one group: upper and lower case are the same."""
    return one.casefold() == other.casefold()
