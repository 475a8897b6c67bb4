"""What stands in the journal: its tables, their versions, and a `Start` as a row."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import Column, Connection, Double, Index, Integer, MetaData, Row, String, Table, Text, inspect, select

from ..core.history import Start, StartState
from ..core.units import Mib

_metadata = MetaData()
_NAME, _WORDS, _POD = 255, 4000, 63 + 1 + 253  # a pod's: namespace, slash, name

starts = Table(
    "hami_starts",
    _metadata,
    Column("id", String(64), primary_key=True),
    Column("user_name", String(_NAME), nullable=False),
    Column("server_name", String(_NAME), nullable=False),
    Column("quota_group", String(_NAME), nullable=False),
    Column("profile", String(_NAME), nullable=False),
    Column("cards", Integer, nullable=False),
    Column("vram_mib", Integer, nullable=False),
    Column("cores_percent", Integer, nullable=False),
    Column("asked_at", Double, nullable=False),
    Column("state", String(16), nullable=False),
    Column("reason", String(_NAME), nullable=False),
    Column("words", Text, nullable=False),
    Column("position", Integer, nullable=False),
    Column("placed", Text, nullable=False),
    Column("pod", String(_POD), nullable=False),
    Column("started_at", Double),
    Column("ended_at", Double),
    Column("until", Double),
    Index("hami_starts_asked", "asked_at"),
    Index("hami_starts_ended", "ended_at"),
    Index("hami_starts_state", "state"),
)
meta = Table(
    "hami_meta", _metadata, Column("name", String(64), primary_key=True), Column("value", String(_NAME), nullable=False)
)

# Fields of a Start whose column has a plainer name for whoever reads with SQL.
_COLUMN_OF = {
    "user": "user_name",
    "server": "server_name",
    "group": "quota_group",
    "vram": "vram_mib",
    "cores": "cores_percent",
}
_LONGEST = {"words": _WORDS, "pod": _POD}
_FIELD_OF = {column: field for field, column in _COLUMN_OF.items()}
OPEN = tuple(state.value for state in StartState if state.open)

Migration = Callable[[Connection], None]
# Each takes a journal from the version that is its index to the next.  Append only.
MIGRATIONS: Sequence[Migration] = (_metadata.create_all,)
_VERSION = "version"


class NewerJournalError(RuntimeError):
    """A later version of this program has written the journal.  The message says so."""


def migrate(connection: Connection, migrations: Sequence[Migration] = MIGRATIONS) -> int:
    """Make the tables, or bring those of an earlier version up to date; the version that they had, 0: none.

    Raises:
        NewerJournalError: they are of a later version.
    """
    version = version_of(connection)
    refuse_newer(version, migrations)
    for step in migrations[version:]:
        step(connection)
    if version < len(migrations):
        connection.execute(meta.delete().where(meta.c.name == _VERSION))
        connection.execute(meta.insert().values(name=_VERSION, value=str(len(migrations))))
    return version


def version_of(connection: Connection) -> int:
    """The version of the tables that are there; 0: none."""
    if not inspect(connection).has_table(meta.name):
        return 0
    found = connection.execute(select(meta.c.value).where(meta.c.name == _VERSION)).scalar()
    return int(found) if found is not None and found.isdigit() else 0


def refuse_newer(version: int, migrations: Sequence[Migration] = MIGRATIONS) -> None:
    """Raise if `version` is not known here.

    Raises:
        NewerJournalError: so it is.
    """
    if version > len(migrations):
        raise NewerJournalError(
            f"its tables have version {version}, and this version of hami-hub knows {len(migrations)}; update hami-hub"
        )


def to_row(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a `Start`, by name, as columns.  What a person can type is cut to what any database takes."""
    row: dict[str, Any] = {}
    for field, value in fields.items():
        if field == "placed":
            row[field] = json.dumps(list(value))
        elif isinstance(value, StartState):
            row[field] = value.value
        elif isinstance(value, str):
            row[_COLUMN_OF.get(field, field)] = _storable(value, _LONGEST.get(field, _NAME))
        else:
            row[_COLUMN_OF.get(field, field)] = value
    return row


def from_row(row: Row[Any]) -> Start:
    """The start that a row of `starts` is."""
    fields = {_FIELD_OF.get(name, name): value for name, value in row._mapping.items()}
    fields["state"] = StartState(fields["state"])
    fields["placed"] = tuple(str(each) for each in json.loads(fields["placed"]))
    fields["vram"] = Mib(fields["vram"])
    return Start(**fields)


def _storable(text: str, longest: int) -> str:
    # PostgreSQL takes no NUL, SQLite no lone surrogates
    return text.encode("utf-8", "replace").decode().replace("\0", "")[:longest]
