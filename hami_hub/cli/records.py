"""Where the commands for admins find the journal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from ..journal import DEFAULT_URL, Reader, url_problem

_Command = TypeVar("_Command", bound=Callable[..., Any])


def journal_option(command: _Command) -> _Command:
    """Give `command` the option `--journal`."""
    return click.option(
        "--journal",
        metavar="URL",
        envvar="HAMI_JOURNAL_URL",
        default=DEFAULT_URL,
        show_default=True,
        help="The journal, as c.GpuSlices.journal_url names it, or its file; also $HAMI_JOURNAL_URL.",
    )(command)


def reader(journal: str) -> Reader:
    """The journal that an option names.

    Raises:
        ClickException: it can't be one.
    """
    url = journal if "://" in journal else f"sqlite:///{Path(journal).absolute()}"
    if problem := url_problem(url):
        raise click.ClickException(problem)
    return Reader(url)
