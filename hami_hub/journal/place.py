"""Where a journal lies: its URL, and the ways to open it.  What stands in it is `tables`'."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event, exc
from sqlalchemy.engine import URL, make_url
from sqlalchemy.pool import NullPool

DEFAULT_URL = "sqlite:///hami-hub.sqlite"
_LOCKED_SECONDS = 5.0
_BESIDE = ("", "-wal", "-shm")


class JournalError(RuntimeError):
    """The journal can't be read.  One plain sentence or two, with what to do."""


class NoJournalError(JournalError):
    """There is none: of a new hub not yet, until its first start."""


def url_problem(url: str) -> str:
    """Why `url` can't be a journal's, in words for admins; "" if it can, or means none."""
    if not url:
        return ""
    try:
        parsed = make_url(url)
        parsed.get_dialect().import_dbapi()
    except (exc.NoSuchModuleError, ImportError) as error:
        return f"{shown(url)} needs a driver that is not installed: {error}. Install it, or use sqlite:///…"
    except exc.ArgumentError:
        return "That is not the URL of a database. Write it like sqlite:////srv/jupyterhub/hami-hub.sqlite."
    if _is_sqlite(parsed) and sqlite_file(url) is None:
        return f"{shown(url)} names no file, and a journal in memory would be gone with the hub. Write {DEFAULT_URL}."
    return ""


def absolute(url: str, folder: Path | None = None) -> str:
    """`url` so that another process finds the same file: a relative path counts from `folder`, or from here."""
    path = sqlite_file(url)
    if path is None or path.is_absolute():
        return url
    parsed = make_url(url).set(database=str((folder or Path.cwd()) / path))
    return parsed.render_as_string(hide_password=False)


def shown(url: str) -> str:
    """`url` for logs and pages: a file's path, or the URL without its password."""
    path = sqlite_file(url)
    return str(path) if path is not None else make_url(url).render_as_string(hide_password=True)


def sqlite_file(url: str) -> Path | None:
    """The file of an SQLite journal; None: it lies elsewhere."""
    parsed = make_url(url)
    named = parsed.database not in (None, "", ":memory:") and not str(parsed.database).startswith("file:")
    return Path(str(parsed.database)) if _is_sqlite(parsed) and named else None


def engine_to_write(url: str) -> Engine:
    """For the one thread that writes."""
    if sqlite_file(url) is None:
        return create_engine(url, pool_pre_ping=True, pool_size=1)
    engine = create_engine(url, connect_args={"timeout": _LOCKED_SECONDS}, poolclass=NullPool)

    @event.listens_for(engine, "connect")
    def _prepare(connection: Any, _: object) -> None:
        # Readers never wait for the writer, nor it for them; a commit survives kill -9, if not a power failure.
        connection.execute("PRAGMA journal_mode=WAL").close()
        connection.execute("PRAGMA synchronous=NORMAL").close()
        # Python's driver would begin transactions of its own, and none for making tables and for savepoints.
        connection.isolation_level = None

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


def engine_to_read(url: str) -> Engine:
    """For anybody who reads; never makes a file.

    Raises:
        NoJournalError: there is no such file.
    """
    path = sqlite_file(url)
    if path is None:
        return create_engine(url, poolclass=NullPool)
    if not path.exists():
        raise NoJournalError(
            f"There is no journal at {path}. The hub makes it at the first start of a server; "
            "if it lies elsewhere, name that place as c.GpuSlices.journal_url does."
        )
    address = f"file:{quote(str(path.absolute()))}?mode=ro"

    def connect() -> sqlite3.Connection:
        return sqlite3.connect(address, uri=True, timeout=_LOCKED_SECONDS, check_same_thread=False)

    return create_engine("sqlite://", creator=connect, poolclass=NullPool)


def in_a_line(error: BaseException) -> str:
    """What a database said, without what SQLAlchemy adds and without the full stop."""
    return " ".join(str(getattr(error, "orig", None) or error).split()).rstrip(".?")


def is_damage(error: BaseException) -> bool:
    """Whether `error` says that the file isn't what it was."""
    text = str(getattr(error, "orig", error)).lower()
    return "malformed" in text or "not a database" in text


def is_removed(error: BaseException) -> bool:
    """Whether `error` says that another, empty file has been made since."""
    return "no such table" in str(getattr(error, "orig", error)).lower()


def move_aside(url: str) -> Path | None:
    """Put a damaged file where it can be looked at and is in nobody's way; where that is.

    Raises:
        OSError: it can't be moved.
    """
    path = sqlite_file(url)
    if path is None:
        return None
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    aside = path.with_name(f"{path.name}.damaged-{stamp}")
    for ending in _BESIDE:
        beside = path.with_name(path.name + ending)
        if beside.exists():
            beside.rename(aside.with_name(aside.name + ending))
    return aside


def _is_sqlite(url: URL) -> bool:
    return url.get_backend_name() == "sqlite"
