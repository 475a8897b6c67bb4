"""How the commands for admins print tables.  Names come from people: nothing in them steers the terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..core.shown import printable

_PIPE_WIDTH = 200


def print_table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: Sequence[int] = ()) -> None:
    """Print `rows` below `heads`; columns whose index is in `numbers` are set to the right."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for index, head in enumerate(heads):
        table.add_column(head, justify="right" if index in numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    width = None if sys.stdout.isatty() else _PIPE_WIDTH
    console = Console(width=width, highlight=False, soft_wrap=False)
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        click.echo(line.rstrip())
