"""`Journal`: what the hub tells of each start, kept in memory while it is open and handed to the writer."""

from __future__ import annotations

import atexit
import logging
import threading
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, select

from ..core.history import Start, StartState
from .place import DEFAULT_URL
from .reader import Reader
from .tables import OPEN, from_row, starts, to_row
from .writer import Save, Writer

Watcher = Callable[[Start | None, Start], None]

_LAST_SECONDS = 5.0
RESTARTED = "hami-hub-restarted"


class Journal(Reader):
    """The hub's journal.  No call of the first part waits for a disk, or raises.

    Args:
        url: as `c.GpuSlices.journal_url`; "": nothing is kept, but `open_now` and watchers know of what happens.
        days: how long a start is kept after its end; 0: for ever.
        log: where trouble is told.
    """

    def __init__(self, url: str = DEFAULT_URL, *, days: float = 400, log: logging.Logger | None = None) -> None:
        super().__init__(url)
        self._log = log or logging.getLogger(__name__)
        self._open: dict[str, Start] = {}
        self._restoring: dict[str, Start] = {}  # as they were told, until the journal's own row is known
        self._lock = threading.Lock()
        self._watchers: list[Watcher] = []
        self._writer = Writer(self.url, keep_days=days, everything=self.open_now, log=self._log) if self.url else None
        atexit.register(self.close)

    # --- what the hub tells -------------------------------------------------------------------------------------

    def opened(self, start: Start) -> None:
        """An attempt to start a server; or one that was refused at once."""
        with self._lock:
            self._hold(start)
        if self._writer is not None:
            self._writer.save(start)
        self._tell(None, start)

    def changed(self, id: str, **fields: Any) -> None:  # noqa: A002
        """Something became of a start: fields of `Start`, by name."""
        with self._lock:
            before, restoring = self._open.get(id), id in self._restoring
            try:
                after = replace(before, **fields) if before is not None else None
            except TypeError:
                self._log.exception("What became of a start could not be kept.")
                return
            if after is not None:
                self._hold(after)
        if self._writer is not None and (after is None or restoring):
            self._writer.do(lambda connection: _change(connection, id, fields))
        elif self._writer is not None and after is not None:
            self._writer.save(after)
        if after is not None:
            self._tell(before, after)

    def restored(self, start: Start) -> None:
        """A server of an earlier hub runs on.  What the journal knows of it already, it knows better than `start`."""
        with self._lock:
            self._open[start.id] = start
            if self._writer is not None:
                self._restoring[start.id] = start
        self._tell(None, start)
        if self._writer is not None:
            self._writer.do(lambda connection: self._restore(connection, start))

    def close_strays(self, known: Collection[str], at: float) -> None:
        """What is open in the journal and nobody's any more has ended at `at`: a hub that died couldn't say so.

        Args:
            known: ids of the starts whose servers run on.
            at: Unix time.
        """
        with self._lock:
            known = {*known, *self._open}
        if self._writer is not None:
            self._writer.do(lambda connection: _close_strays(connection, known, at))

    def watch(self, watcher: Watcher) -> None:
        """Have `watcher(before, after)` called at each change; `before` is None at the first."""
        self._watchers.append(watcher)

    def open_now(self) -> tuple[Start, ...]:
        """The open starts of this hub, from memory."""
        with self._lock:
            return tuple(self._open.values())

    def flush(self, timeout: float = _LAST_SECONDS) -> bool:
        """Wait until all that was told is stored, for those who read it next; False: it isn't."""
        return self._writer is None or self._writer.flush(timeout)

    def close(self) -> None:
        """Store what waits, within seconds, and end."""
        atexit.unregister(self.close)
        if self._writer is not None:
            self._writer.close(_LAST_SECONDS)

    # --- inside -------------------------------------------------------------------------------------------------

    def _hold(self, start: Start) -> None:
        if start.state.open:
            self._open[start.id] = start
        else:
            self._open.pop(start.id, None)

    def _tell(self, before: Start | None, after: Start) -> None:
        for watcher in self._watchers:
            try:
                watcher(before, after)
            except Exception:
                self._log.exception("What became of a start could not be counted.")

    def _restore(self, connection: Connection, told: Start) -> None:
        row = connection.execute(select(starts).where(starts.c.id == told.id)).first()
        kept = told if row is None else replace(from_row(row), state=told.state, ended_at=None, reason="", words="")
        Save((kept,))(connection)
        with self._lock:
            self._restoring.pop(told.id, None)
            now = self._open.get(told.id)
            if now is not None:
                # What has become of it meanwhile is stored after this.
                since = {name: new for name in Start.__slots__ if (new := getattr(now, name)) != getattr(told, name)}
                self._open[told.id] = replace(kept, **since)


def _change(connection: Connection, id_: str, fields: dict[str, Any]) -> None:
    connection.execute(starts.update().where(starts.c.id == id_).values(to_row(fields)))


def _close_strays(connection: Connection, known: Collection[str], at: float) -> None:
    for id_, state in connection.execute(select(starts.c.id, starts.c.state).where(starts.c.state.in_(OPEN))).all():
        if id_ in known:
            continue
        ran = state == StartState.RUNNING.value
        fields: dict[str, Any] = {
            "state": StartState.ENDED if ran else StartState.FAILED,
            "ended_at": at,
            "position": 0,
        }
        if not ran:
            fields |= {"reason": RESTARTED, "words": "The hub was restarted before the server ran."}
        _change(connection, id_, fields)
