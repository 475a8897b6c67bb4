"""Reads a journal, from whichever process; never makes or changes anything."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Select, exc, or_, select

from ..core.history import Start, StartState
from .place import DEFAULT_URL, JournalError, absolute, engine_to_read, in_a_line, is_damage, shown
from .tables import OPEN, NewerJournalError, from_row, refuse_newer, starts, version_of


class Reader:
    """A journal, to be read.

    Args:
        url: as `c.GpuSlices.journal_url`; "": none is kept, and reading it says so.

    Each method raises `JournalError` where the journal can't be read.
    """

    def __init__(self, url: str = DEFAULT_URL) -> None:
        self.url = absolute(url) if url else ""

    def open_starts(self) -> tuple[Start, ...]:
        """Those of which more will become, in the order in which they were asked for."""
        return self._read(select(starts).where(starts.c.state.in_(OPEN)).order_by(starts.c.asked_at, starts.c.id))

    def starts(self, t0: float, t1: float, limit: int | None = None, *, user: str | None = None) -> tuple[Start, ...]:
        """Those that were open at some time between `t0` and `t1`, Unix time, newest first; of one `user`, or all."""
        within = [starts.c.asked_at < t1, or_(starts.c.ended_at.is_(None), starts.c.ended_at >= t0)]
        if user is not None:
            within.append(starts.c.user_name == user)
        return self._read(_newest_first(select(starts).where(*within), limit))

    def refusals(self, t0: float, t1: float, limit: int | None = None) -> tuple[Start, ...]:
        """Those that were refused or failed and were asked for between `t0` and `t1`, newest first."""
        sad = starts.c.state.in_((StartState.REFUSED.value, StartState.FAILED.value))
        within = (starts.c.asked_at >= t0, starts.c.asked_at < t1)
        return self._read(_newest_first(select(starts).where(sad, *within), limit))

    def _read(self, query: Select[Any]) -> tuple[Start, ...]:
        with self._connection() as connection:
            return tuple(_starts(connection, query))

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        if not self.url:
            raise JournalError("No journal is kept: c.GpuSlices.journal_url is empty. Set it to keep one.")
        try:
            engine = engine_to_read(self.url)
            with engine.connect() as connection:
                version = version_of(connection)
                refuse_newer(version)
                if not version:
                    raise JournalError(f"{shown(self.url)} is no journal of starts. Name another place.")
                yield connection
        except NewerJournalError as error:
            raise JournalError(f"The journal {shown(self.url)} can't be read: {error}.") from None
        except exc.SQLAlchemyError as error:
            raise JournalError(_why(self.url, error)) from None


def _newest_first(query: Select[Any], limit: int | None) -> Select[Any]:
    return query.order_by(starts.c.asked_at.desc(), starts.c.id).limit(limit)


def _starts(connection: Connection, query: Select[Any]) -> Iterator[Start]:
    for row in connection.execute(query):
        try:
            yield from_row(row)
        except (TypeError, ValueError):
            continue  # written by hand, or half of a damaged file: the others are still worth seeing


def _why(url: str, error: exc.SQLAlchemyError) -> str:
    if is_damage(error):
        return f"The journal {shown(url)} is damaged. The hub moves it aside and begins a new one when it next writes."
    return (
        f"The journal {shown(url)} can't be read: {in_a_line(error)}. "
        "Read it as the hub's user, and see that its folder and database are there."
    )
