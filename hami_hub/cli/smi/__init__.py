"""`hami-hub smi`: the cards, or inside a slice the slice, in nvidia-smi's layout and with its query options.

For machines and containers where nvidia-smi isn't: on a simulated card, and beside it on a real one.  `read` asks,
`table`, `query` and `refusals` print; nothing is printed around what nvidia-smi would print.
"""

from __future__ import annotations

from pathlib import Path

import click

from ...cards import NoCardsError
from ...slicepage import PageError, find_slice, read_slice
from .query import QueryError, parse_format, query_gpus, query_processes
from .read import read_snapshot, select
from .refusals import render_refusals
from .table import render_list, render_table
from .view import Snapshot


@click.command()
@click.option("-L", "--list-gpus", "as_list", is_flag=True, help="One line a card, with its UUID.")
@click.option(
    "-i", "--id", "gpu", metavar="CARDS", help="Only these cards: index, UUID or bus id, with commas between."
)
@click.option("--query-gpu", metavar="FIELDS", help="Fields of the cards as CSV: uuid,name,memory.total,memory.used")
@click.option("--query-compute-apps", metavar="FIELDS", help="Fields of the processes: pid,process_name,used_memory")
@click.option("--format", "layout", metavar="FORMAT", default="csv", help="csv, csv,noheader or csv,noheader,nounits.")
@click.option("--refusals", is_flag=True, help="Inside a slice: the allocations that were refused last, and why.")
@click.option("--escapes", is_flag=True, help="For admins: processes that hold more than their slice answers for.")
@click.option(
    "--slices",
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    help="The hub's folder of slices, if c.GpuSlices.slice_root isn't its default.",
)
def command(
    *,
    as_list: bool,
    gpu: str | None,
    query_gpu: str | None,
    query_compute_apps: str | None,
    layout: str,
    refusals: bool,
    escapes: bool,
    slices: Path | None,
) -> None:
    """The cards, or the slice that this runs in, in nvidia-smi's layout."""
    try:
        if refusals:
            text = _refusals()
        elif escapes:
            from .escapes import render_escapes  # the hub's side, which nobody else needs

            text = render_escapes(slices)
        else:
            snapshot = _snapshot(gpu)
            if query_gpu is not None:
                text = query_gpus(snapshot, query_gpu, parse_format(layout))
            elif query_compute_apps is not None:
                text = query_processes(snapshot, query_compute_apps, parse_format(layout))
            elif not snapshot.gpus:
                text = "No devices were found"  # nvidia-smi's words
            else:
                text = render_list(snapshot) if as_list else render_table(snapshot)
    except (NoCardsError, PageError, QueryError) as error:
        raise click.ClickException(str(error)) from None
    if text:
        click.echo(text)


def _snapshot(gpu: str | None) -> Snapshot:
    snapshot = read_snapshot()
    if gpu is None:
        return snapshot
    chosen = select(snapshot, gpu)
    if chosen is None:
        there = ", ".join(str(each.index) for each in snapshot.gpus) or "none"
        raise click.ClickException(f'There is no card "{gpu[:80]}" here. Cards by index: {there}.')
    return chosen


def _refusals() -> str:
    directory = find_slice()
    if directory is None:
        raise click.ClickException("This is no slice, so nothing is refused here. Run it in a server with a slice.")
    view = read_slice(directory)
    return render_refusals(view.refusals, {process.pid: process.name for process in view.processes})
