"""The budgets as the form shows them: gauges with words beside them, and who of several groups pays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...core.language import say
from ...core.units import MIB_PER_GIB, Mib, format_gib, format_vram
from .budgets import BudgetLine, Use

_MANY = 5


@dataclass(frozen=True, slots=True)
class Gauge:
    """One thing that a budget limits.

    Attributes:
        kind: "vram", "cores" or "servers", as in a bill.
        left: what is left, in words; `text`: what is used, by whom, of how much.
        use: the figures themselves, for the preview of a choice.
        mine, others: percent of the bar.
    """

    kind: str
    label: str
    left: str
    text: str
    use: Use
    mine: int
    others: int


@dataclass(frozen=True, slots=True)
class BudgetView:
    """One budget.

    Attributes:
        id: unique on the page, of letters and digits; a group's name may be anything.
        value: what the form sends if this one is to pay.
        remarks: what an admin has to put right.
    """

    id: str
    value: str
    title: str
    gauges: tuple[Gauge, ...]
    remarks: tuple[str, ...]
    can_pay: bool
    checked: bool


@dataclass(frozen=True, slots=True)
class BudgetsView:
    """All of them; `choice` if the person has to be asked who pays, then `automatic` is the answer of those who don't
    mind, picked if `undecided`.  `many`: more than fit on a screen.
    """

    heading: str
    lines: tuple[BudgetView, ...] = ()
    choice: bool = False
    automatic: str = ""
    undecided: bool = True
    legend: tuple[tuple[str, str], ...] = ()
    many: bool = False


def budgets_view(lines: Sequence[BudgetLine]) -> BudgetsView:
    """What is shown of `lines`; nothing of budgets that limit nothing."""
    views = tuple(_view(line, number, len(lines) > 1) for number, line in enumerate(lines))
    choice = len(views) > 1
    if not choice and not any(view.gauges or view.remarks for view in views):
        return BudgetsView("")
    return BudgetsView(
        heading=say("Who pays") if choice else _title(lines[0].group),
        lines=views,
        choice=choice,
        automatic=say("The group with the most room for it"),
        undecided=not any(view.checked for view in views),
        many=len(views) > _MANY,
        legend=(
            ("mine", say("Yours")),
            ("others", say("Others'")),
            ("choice", say("Your choice")),
            ("left", say("Left")),
        ),
    )


def shown(kind: str, amount: int) -> str:
    """An amount of `kind` as people read it."""
    if kind == "vram":
        return format_vram(Mib(amount)) if 0 < amount < MIB_PER_GIB else format_gib(Mib(amount))
    return f"{amount} %" if kind == "cores" else str(amount)


def _view(line: BudgetLine, number: int, choice: bool) -> BudgetView:
    labels: tuple[tuple[str, Callable[[], str], Use], ...] = (
        ("vram", lambda: say("VRAM"), line.vram),
        ("cores", lambda: say("Cores"), line.cores),
        ("servers", lambda: say("GPU servers"), line.servers),
    )
    remarks = (say("This group can't pay until an admin corrects its quota."), *line.faults) if line.faults else ()
    return BudgetView(
        id=f"hami-budget-{number}",
        value=line.group,
        title=line.group if choice and line.group else _title(line.group),
        # What a quota that is written wrongly comes to is nobody's to guess.
        gauges=() if line.faults else tuple(_gauge(kind, label(), use) for kind, label, use in labels if use.limited),
        remarks=remarks,
        can_pay=line.can_pay,
        checked=choice and line.chosen and line.can_pay,
    )


def _title(group: str) -> str:
    return say("Budget of {group}", group=group) if group else say("Your budget")


def _gauge(kind: str, label: str, use: Use) -> Gauge:
    mine, others = (use.mine, use.used - use.mine) if use.limit is not None else (use.mine, 0)
    # A lowered quota may be exceeded; the bar is full then, and the words say it.
    whole = max(use.limit if use.limit is not None else use.my_limit or 0, mine + others, 1)
    return Gauge(
        kind,
        label,
        say("{left} left", left=shown(kind, use.left)),
        _used(kind, use),
        use,
        mine=mine * 100 // whole,
        others=others * 100 // whole,
    )


def _used(kind: str, use: Use) -> str:
    amounts = {
        "used": shown(kind, use.used),
        "mine": shown(kind, use.mine),
        "limit": shown(kind, use.limit or 0),
        "most": shown(kind, use.my_limit or 0),
    }
    if use.limit is None:
        return say("You have {mine} of {most}.", **amounts)
    if use.my_limit is not None:
        return say("{used} of {limit} in use; you have {mine} of your {most}.", **amounts)
    if use.mine:
        return say("{used} of {limit} in use, {mine} by you.", **amounts)
    return say("{used} of {limit} in use.", **amounts)
