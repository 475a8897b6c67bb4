"""`hami-hub usage`: who had how much of the cards, read from the hub's journal."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Sequence
from datetime import datetime

import click

from ..core.history import Use, UsedBy, group_shown, use, use_csv
from ..core.times import DAY
from ..journal import JournalError
from .records import journal_option, reader
from .tables import print_table

_FORMATS = ["%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"]


@click.command()
@click.option("--by", type=click.Choice([each.value for each in UsedBy]), default="user", show_default=True)
@click.option(
    "--days", type=click.FloatRange(min=0, min_open=True), default=30, show_default=True, help="The last days."
)
@click.option("--from", "begin", type=click.DateTime(_FORMATS), help="From this day on, instead of --days.")
@click.option("--to", "end", type=click.DateTime(_FORMATS), help="Until this day, without it; now if it isn't given.")
@click.option("--csv", "as_csv", is_flag=True, help="For spreadsheets.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@journal_option
def command(
    *, by: str, days: float, begin: datetime | None, end: datetime | None, as_csv: bool, as_json: bool, journal: str
) -> None:
    """GiB-hours, hours and starts, by user or group.  Run it where the hub runs."""
    now = time.time()
    t1 = min(now, end.timestamp()) if end is not None else now
    t0 = begin.timestamp() if begin is not None else t1 - days * DAY
    if t0 >= t1:
        raise click.ClickException("That time is empty or still to come. Give a --from that is before --to and now.")
    try:
        uses = use(reader(journal).starts(t0, t1), t0, t1, by=UsedBy(by), now=now)
    except JournalError as error:
        raise click.ClickException(str(error)) from None
    if as_json:
        click.echo(json.dumps([dataclasses.asdict(each) for each in uses], ensure_ascii=False))
    elif as_csv:
        click.echo(use_csv(uses, UsedBy(by)), nl=False)
    else:
        _print(uses, by, t0, t1)


def _print(uses: Sequence[Use], by: str, t0: float, t1: float) -> None:
    click.echo(f"From {_moment(t0)} to {_moment(t1)}:")
    if not uses:
        click.echo("no server was started.")
        return
    rows = [_row(group_shown(each.key), each) for each in uses]
    heads = (by.capitalize(), "GiB-hours", "Card-hours", "Server-hours", "Starts", "Refused")
    print_table(heads, [*rows, _row("all", _sum(uses))], numbers=range(1, 6))


def _row(name: str, each: Use) -> tuple[str, ...]:
    amounts = (f"{amount:,.1f}" for amount in (each.gib_hours, each.card_hours, each.server_hours))
    return (name, *amounts, str(each.starts), str(each.refused))


def _sum(uses: Sequence[Use]) -> Use:
    return Use(
        "",
        gib_hours=sum(each.gib_hours for each in uses),
        card_hours=sum(each.card_hours for each in uses),
        server_hours=sum(each.server_hours for each in uses),
        starts=sum(each.starts for each in uses),
        refused=sum(each.refused for each in uses),
    )


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at).strftime("%Y-%m-%d %H:%M")
