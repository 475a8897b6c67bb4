"""What `hami-hub quota` prints of a group: its quota beside what runs, and what is written wrongly.  Pure."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ...core.budgets import Budget, Measure
from ...core.quota import quota_properties
from ...core.quota_words import bare_amount
from .edits import ours
from .hub import Group

LIST_HEADS = ("Group", "Members", "VRAM", "Cores", "Servers", "For each person", "More")
SHOW_HEADS = ("Key", "Value", "Used")
CSV_HEADS = (
    "group",
    "members",
    "vram_used_mib",
    "vram_quota_mib",
    "cores_used",
    "cores_quota",
    "servers_used",
    "servers_quota",
    "wrong",
)
_PER_USER = ("hami.vram-per-user", "hami.cores-per-user", "hami.servers-per-user")
_IN_COLUMNS = ("hami.vram", "hami.cores", "hami.servers", *_PER_USER)
_NO_LIMIT = "–"
_ORDER = (Measure.VRAM, Measure.CORES, Measure.SERVERS)


def list_row(group: Group, budget: Budget, *, used_known: bool) -> tuple[str, ...]:
    """`group` as a row below `LIST_HEADS`."""
    written = quota_properties(budget.quota)
    amounts = (_of_limit(measure, budget, used_known=used_known) for measure in _ORDER)
    each = [
        f"{key.removeprefix('hami.').removesuffix('-per-user')} {written[key]}" for key in _PER_USER if key in written
    ]
    more = [f"{key.removeprefix('hami.')} {value}" for key, value in written.items() if key not in _IN_COLUMNS]
    more += [f"{fault.key} is wrong" for fault in budget.faults]
    return (group.name, str(len(group.members)), *amounts, ", ".join(each) or _NO_LIMIT, ", ".join(more))


def csv_row(group: Group, budget: Budget, *, used_known: bool) -> tuple[str, ...]:
    """`group` as a row below `CSV_HEADS`; what isn't known, and what isn't limited, is empty."""
    amounts: list[str] = []
    for measure in _ORDER:
        limit = getattr(budget.quota, measure.value)
        amounts += (str(measure.of(budget.used)) if used_known else "", "" if limit is None else str(limit))
    return (group.name, str(len(group.members)), *amounts, " ".join(fault.text for fault in budget.faults))


def show_rows(group: Group, budget: Budget, *, used_known: bool) -> list[tuple[str, ...]]:
    """The keys of `group` as rows below `SHOW_HEADS`."""
    measures = {f"hami.{measure.value}": measure for measure in Measure}
    return [
        (
            key,
            str(group.properties[key]),
            amount(measures[key], measures[key].of(budget.used)) if used_known and key in measures else "",
        )
        for key in ours(group.properties)
    ]


def as_json(group: Group, budget: Budget, *, used_known: bool) -> dict[str, Any]:
    """The same for programs."""
    used = budget.used
    return {
        "group": group.name,
        "members": len(group.members),
        "properties": {key: group.properties[key] for key in ours(group.properties)},
        "used": {"vram_mib": used.vram, "cores": used.cores, "servers": used.servers} if used_known else None,
        "faults": [asdict(fault) for fault in budget.faults],
    }


def exceeded(budget: Budget) -> str:
    """What is to be known where more runs than the quota allows; "" where it doesn't."""
    over = [
        f"{amount(measure, measure.of(budget.used))} of {amount(measure, limit)}"
        for measure in _ORDER
        if (limit := getattr(budget.quota, measure.value)) is not None and measure.of(budget.used) > limit
    ]
    if not over:
        return ""
    return (
        f"More runs than that: {', '.join(over)}. Nothing that runs is ended; "
        "nothing new starts until it is below the quota."
    )


def amount(measure: Measure, value: int) -> str:
    """An amount as tables show it."""
    return "0" if measure is Measure.VRAM and not value else bare_amount(measure, value)


def _of_limit(measure: Measure, budget: Budget, *, used_known: bool) -> str:
    limit = getattr(budget.quota, measure.value)
    parts = [amount(measure, measure.of(budget.used))] if used_known else []
    parts += [amount(measure, limit)] if limit is not None else []
    return " of ".join(parts) or _NO_LIMIT
