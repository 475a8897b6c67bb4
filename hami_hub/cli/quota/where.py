"""The options by which the commands find their hub and its journal."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from ...core.budgets import Budget, charged_budgets
from ...core.history import Start, charge_of
from ...journal import JournalError
from ..records import journal_option, reader
from .hub import Group, HubApi


@dataclass(frozen=True, slots=True)
class Where:
    """A hub and its journal."""

    hub_url: str
    token_file: Path | None
    journal: str

    def hub(self) -> HubApi:
        """The hub, as whoever has the token."""
        token = os.environ.get("JUPYTERHUB_API_TOKEN", "")
        if self.token_file is not None:
            try:
                token = self.token_file.read_text().strip()
            except (OSError, UnicodeDecodeError) as error:
                raise click.ClickException(f"The token in {self.token_file} can't be read: {error}.") from None
        return HubApi(self.hub_url, token)

    def starts(self, t0: float, t1: float) -> tuple[Start, ...]:
        """What the journal knows of a time."""
        try:
            return reader(self.journal).starts(t0, t1)
        except JournalError as error:
            raise click.ClickException(str(error)) from None

    def budgets(self, groups: Iterable[Group]) -> tuple[tuple[Budget, ...], bool]:
        """The groups' quotas with what is charged to them; False: no journal says what that is."""
        charges, known = [], False
        with contextlib.suppress(JournalError):
            charges = [charge_of(start) for start in reader(self.journal).open_starts() if start.cards]
            known = True
        return charged_budgets(((group.name, group.properties) for group in groups), charges), known


def finding(command: Callable[..., None]) -> Callable[..., None]:
    """Give `command` the options that make up its argument `where`."""

    @functools.wraps(command)
    def with_where(*, hub_url: str, token_file: Path | None, journal: str, **options: Any) -> None:
        command(where=Where(hub_url, token_file, journal), **options)

    hub_url = click.option(
        "--hub-url",
        metavar="URL",
        envvar="JUPYTERHUB_API_URL",
        default="http://127.0.0.1:8000",
        show_default=True,
        help="The hub; also $JUPYTERHUB_API_URL.",
    )
    token_file = click.option(
        "--token-file",
        type=click.Path(path_type=Path, dir_okay=False),
        help="A file with a token of the hub; else it is taken from $JUPYTERHUB_API_TOKEN.",
    )
    return hub_url(token_file(journal_option(with_where)))
