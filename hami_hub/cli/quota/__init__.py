"""`hami-hub quota`: quotas of groups, read and written by the hub's REST API, and tried on the journal.

`where` finds the hub, `hub` asks it, `edits` changes properties, `show` prints; what a quota means is `core.quota`'s.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

import click

from ...core.dry_run import DryRun, would_have_refused
from ...core.quota import has_quota, parse_quota
from ...core.shown import printable
from ...core.spreadsheet import to_csv
from ...core.times import DAY
from ..tables import print_table
from .edits import EditError, faults, with_values, without
from .hub import Group
from .show import CSV_HEADS, LIST_HEADS, SHOW_HEADS, as_json, csv_row, exceeded, list_row, show_rows
from .where import Where, finding

_EXAMPLES = 10

json_option = click.option("--json", "for_programs", is_flag=True, help="For programs.")


@click.group()
def command() -> None:
    """Quotas of groups: what the servers of a group may hold together.

    Keys may be written without their "hami.": vram=24GiB is hami.vram=24GiB.
    """


@command.command("list")
@click.option("--all", "all_groups", is_flag=True, help="Groups without a quota too.")
@click.option("--csv", "as_table", is_flag=True, help="For spreadsheets.")
@json_option
@finding
def list_(*, all_groups: bool, as_table: bool, for_programs: bool, where: Where) -> None:
    """All groups with a quota, and what they hold."""
    groups = [each for each in where.hub().groups() if all_groups or has_quota(each.properties)]
    budgets, used_known = where.budgets(groups)
    pairs = list(zip(groups, budgets, strict=True))
    if for_programs:
        _print_json([as_json(*pair, used_known=used_known) for pair in pairs])
        return
    if as_table:
        click.echo(to_csv(CSV_HEADS, [csv_row(*pair, used_known=used_known) for pair in pairs]), nl=False)
    elif pairs:
        print_table(LIST_HEADS, [list_row(*pair, used_known=used_known) for pair in pairs], numbers=(1,))
    else:
        click.echo("No group has a quota. Set one with hami-hub quota set GROUP vram=24GiB.")


@command.command()
@click.argument("group")
@json_option
@finding
def show(*, group: str, for_programs: bool, where: Where) -> None:
    """The quota of GROUP as it is written, what is used of it, and what is wrong with it."""
    _show(where.hub().group(group), where, for_programs=for_programs)


@command.command("set")
@click.argument("group")
@click.argument("edits", nargs=-1, required=True, metavar="KEY=VALUE...")
@json_option
@finding
def set_(*, group: str, edits: tuple[str, ...], for_programs: bool, where: Where) -> None:
    """Set keys of the quota of GROUP; others keep their values.  A wrong value changes nothing."""
    hub = where.hub()
    before = hub.group(group)
    after = hub.change(before, _edited(lambda: with_values(before.properties, edits)))
    _show(after, where, for_programs=for_programs)


@command.command()
@click.argument("group")
@click.argument("keys", nargs=-1, required=True, metavar="KEY...")
@json_option
@finding
def unset(*, group: str, keys: tuple[str, ...], for_programs: bool, where: Where) -> None:
    """Remove keys from the quota of GROUP."""
    hub = where.hub()
    before = hub.group(group)
    after = hub.change(before, _edited(lambda: without(before.properties, keys)))
    _show(after, where, for_programs=for_programs)


@command.command()
@json_option
@finding
def check(*, for_programs: bool, where: Where) -> None:
    """Find what is written wrongly, in all groups.  Exit code 1 if there is anything."""
    groups = where.hub().groups()
    wrong = {each.name: [fault.text for fault in found] for each in groups if (found := faults(each.properties))}
    if for_programs:
        _print_json(wrong)
    elif wrong:
        for name, texts in wrong.items():
            click.echo(printable(f"{name}: {' '.join(texts)} Until then the group pays for nothing."))
    else:
        with_quota = sum(has_quota(each.properties) for each in groups)
        click.echo(f"{with_quota} of {len(groups)} groups have a quota, and nothing is written wrongly.")
    raise SystemExit(bool(wrong))


@command.command("dry-run")
@click.argument("group")
@click.argument("edits", nargs=-1, metavar="[KEY=VALUE...]")
@click.option("--unset", "keys", multiple=True, metavar="KEY", help="Try it without this key.")
@click.option("--days", type=click.FloatRange(min=0, min_open=True), default=30, show_default=True)
@json_option
@finding
def dry_run(
    *, group: str, edits: tuple[str, ...], keys: tuple[str, ...], days: float, for_programs: bool, where: Where
) -> None:
    """What the quota of GROUP, so changed, would have refused in the last days.  Changes nothing."""
    there = where.hub().group(group)
    changed = _edited(lambda: with_values(without(there.properties, keys), edits))
    quota, wrong = parse_quota(changed)
    if wrong:
        texts = [fault.text for fault in wrong]
        raise click.ClickException(printable(" ".join([*texts, "With that the group pays for nothing at all."])))
    now = time.time()
    since = now - days * DAY
    found = would_have_refused(quota, where.starts(since, now), there.name, since=since, now=now)
    if for_programs:
        _print_json(_dry_run_json(found))
    else:
        _print_dry_run(found, days)


def _show(group: Group, where: Where, *, for_programs: bool) -> None:
    [budget], used_known = where.budgets([group])
    if for_programs:
        _print_json(as_json(group, budget, used_known=used_known))
        return
    members = f"{len(group.members)} members" if len(group.members) != 1 else "1 member"
    click.echo(printable(f"{group.name}, {members}"))
    rows = show_rows(group, budget, used_known=used_known)
    if not rows:
        click.echo("No quota: the group pays for nothing, as if it weren't there.")
        return
    print_table(SHOW_HEADS, rows)
    for fault in budget.faults:
        click.echo(printable(f"{fault.text} Until then the group pays for nothing."))
    if over := exceeded(budget):
        click.echo(over)


def _edited(edit: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    try:
        return edit()
    except EditError as error:
        raise click.ClickException("\n".join(map(printable, str(error).split("\n")))) from None


def _dry_run_json(found: DryRun) -> dict[str, Any]:
    refused = [
        {"asked_at": each.start.asked_at, "user": each.start.user, "profile": each.start.profile, "key": each.key}
        for each in found.refused
    ]
    return {"judged": found.judged, "refused": refused, "users": found.users, "cut_short": found.cut_short}


def _print_dry_run(found: DryRun, days: float) -> None:
    click.echo(found.text(days))
    if not found.refused:
        return
    rows = [
        (f"{datetime.fromtimestamp(each.start.asked_at):%Y-%m-%d %H:%M}", each.start.user, each.start.profile, each.key)
        for each in found.refused[:_EXAMPLES]
    ]
    print_table(("Asked", "Who", "Profile", "Refused by"), rows)
    if len(found.refused) > _EXAMPLES:
        click.echo(f"… and {len(found.refused) - _EXAMPLES} more.")


def _print_json(what: object) -> None:
    click.echo(json.dumps(what, ensure_ascii=False))
