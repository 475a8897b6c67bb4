"""What the form draws of the budgets that could pay for a person's next server.

Pure.  What a budget allows is decided by `hami_hub.core.budgets`; this only puts it into the form's shape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ...core.budgets import Asked, Budget, Measure, Refused, asked_of, judge, payers, same_group
from ...core.cards import Card
from ...core.profiles import Profile
from ...core.units import Mib


@dataclass(frozen=True, slots=True)
class Use:
    """How much of one thing is charged: `used` by the group, `mine` of it by the person.

    `limit` is the group's, `my_limit` each person's; None: there is none.
    """

    used: int
    mine: int
    limit: int | None = None
    my_limit: int | None = None

    @property
    def limited(self) -> bool:
        """Whether any limit holds."""
        return self.limit is not None or self.my_limit is not None

    @property
    def left(self) -> int:
        """What the person may still take; 0 where there is no limit, so ask `limited` first."""
        lefts = [limit - taken for limit, taken in ((self.limit, self.used), (self.my_limit, self.mine))
                 if limit is not None]  # fmt: skip
        return max(0, min(lefts, default=0))


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetLine:
    """One budget of the person.

    Attributes:
        group: its name; "" is the default quota.
        vram, cores, servers: in MiB, percent of a card, servers with a GPU.
        faults: what is written wrongly in the quota, in sentences.
        can_pay: whether it pays for anything at all now.
        chosen: whether the person picked it the last time.
    """

    group: str
    vram: Use
    cores: Use
    servers: Use
    faults: tuple[str, ...] = ()
    can_pay: bool = True
    chosen: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """Who pays for a profile; what it is charged says its offer.

    Attributes:
        payer: who pays if the person names nobody; None: nobody can.
        refusals: why a group can't pay, by its name; a group that can, if only for a smaller amount, has none.
    """

    payer: str | None
    refusals: Mapping[str, str] = field(default_factory=dict)


def budget_lines(budgets: Sequence[Budget], user: str, chosen_group: str = "") -> tuple[BudgetLine, ...]:
    """The budgets as lines of the form.

    Args:
        budgets: those of the person's groups that have a quota, or the default one.
        user: who looks at the form.
        chosen_group: the group that they named the last time.
    """
    return tuple(_line(budget, user, chosen_group) for budget in budgets)


def bills(
    profiles: Iterable[Profile],
    budgets: Sequence[Budget],
    user: str,
    cards: Sequence[Card],
    why: Callable[[Refused], str],
) -> dict[str, Bill]:
    """Who pays for each profile with a GPU, by its name.

    Args:
        profiles: what is offered.
        budgets: see `budget_lines`.
        user: who would start it.
        cards: all that there are: where a profile names no amount, the biggest counts.
        why: a refusal in words.
    """
    return {
        str(profile.name): _bill(profile, asked_of(user, str(profile.name), profile.request, cards), budgets, why)
        for profile in profiles
        if profile.request is not None
    }


def _line(budget: Budget, user: str, chosen_group: str) -> BudgetLine:
    used, mine = budget.used, budget.of_user(user)
    personal = budget.quota.of_user(user)
    uses = {
        measure: Use(
            measure.of(used),
            measure.of(mine),
            getattr(budget.quota, measure.value),
            getattr(personal, measure.value),
        )
        for measure in Measure
    }
    return BudgetLine(
        group=budget.group,
        vram=uses[Measure.VRAM],
        cores=uses[Measure.CORES],
        servers=uses[Measure.SERVERS],
        faults=tuple(fault.text for fault in budget.faults),
        can_pay=not budget.faults,
        chosen=bool(chosen_group) and same_group(budget.group, chosen_group),
    )


def _bill(profile: Profile, asked: Asked, budgets: Sequence[Budget], why: Callable[[Refused], str]) -> Bill:
    least = asked
    if profile.bounds is not None:
        least = replace(asked, vram=Mib(profile.bounds.min_vram * asked.cards), cores=0)
    refused = {budget.group: judge(budget, least) for budget in budgets}
    can = payers(budgets, asked) or payers(budgets, least)
    return Bill(
        payer=can[0].group if can else None,
        refusals={group: why(verdict) for group, verdict in refused.items() if verdict is not None},
    )
