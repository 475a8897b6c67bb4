"""The one thread that writes the journal.

What is handed to it is kept until it is stored: a full disk, a database that is away or a damaged file cost nobody a
start, and what happened meanwhile is written when they are well again.  Of each start only its newest row is kept, so
what waits stays small.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from sqlalchemy import Connection, Engine, exc

from ..core.history import Start
from ..core.times import DAY
from .place import engine_to_write, in_a_line, is_damage, is_removed, move_aside, shown
from .tables import migrate, starts, to_row

Job = Callable[[Connection], None]

_LONGEST_PAUSE = 30.0
_COMPLAINT_SECONDS = 60.0
_MOST_WAITING = 50_000
_MOST_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Save:
    """Store starts as they now are."""

    starts: tuple[Start, ...]

    def __call__(self, connection: Connection) -> None:
        rows = [to_row({name: getattr(start, name) for name in Start.__slots__}) for start in self.starts]
        connection.execute(starts.delete().where(starts.c.id.in_([row["id"] for row in rows])))
        connection.execute(starts.insert(), rows)


class Writer:
    """Writes to the journal at `url`, from a thread that begins with the first thing to write.

    Args:
        keep_days: how long a start is kept after its end; 0: for ever.
        everything: asked for what a new database has to begin with.
        log: where the thread says what is wrong, once a minute at most.
    """

    def __init__(
        self, url: str, *, keep_days: float, everything: Callable[[], Iterable[Start]], log: logging.Logger
    ) -> None:
        self._url = url
        self._keep_days = keep_days
        self._everything = everything
        self._log = log
        self._waiting: dict[object, Job] = {}
        self._busy = False
        self._closing = False
        self._lost = 0
        self._news = threading.Condition()
        self._thread: threading.Thread | None = None
        # what follows is the thread's own
        self._engine: Engine | None = None
        self._pause = 0.0
        self._complained = 0.0
        self._failing = False
        self._forget_at = 0.0

    def save(self, start: Start) -> None:
        """Store `start`; returns at once."""
        self._put(start.id, Save((start,)))

    def do(self, job: Job) -> None:
        """Have `job` done after what was handed in before; returns at once."""
        self._put(object(), job)

    def flush(self, timeout: float) -> bool:
        """Wait until all is stored; False: it is not yet."""
        with self._news:
            return self._news.wait_for(lambda: not self._waiting and not self._busy, timeout)

    def close(self, timeout: float) -> None:
        """End the thread, giving it `timeout` seconds to store what waits."""
        with self._news:
            self._closing = True
            self._news.notify_all()
        if self._thread is not None:
            self._thread.join(timeout)

    def _put(self, key: object, job: Job) -> None:
        with self._news:
            self._waiting.pop(key, None)
            self._waiting[key] = job
            if len(self._waiting) > _MOST_WAITING:
                del self._waiting[next(iter(self._waiting))]
                self._lost += 1
            if self._thread is None and not self._closing:
                self._thread = threading.Thread(target=self._run, name="hami-journal", daemon=True)
                self._thread.start()
            self._news.notify_all()

    # --- the thread ---------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while (batch := self._take()) is not None:
            if not self._settle(batch, stored=self._store(batch)):
                break
        self._drop_engine()

    def _take(self) -> dict[object, Job] | None:
        with self._news:
            self._news.wait_for(lambda: self._waiting or self._closing)
            if not self._waiting:
                return None
            batch, self._waiting, self._busy = self._waiting, {}, True
            return batch

    def _settle(self, batch: dict[object, Job], *, stored: bool) -> bool:
        """Take back what could not be stored, and pause then; False: there is no more time."""
        with self._news:
            if not stored:
                self._waiting = {**batch, **self._waiting}
            self._busy = False
            self._news.notify_all()
            return stored or not self._news.wait_for(lambda: self._closing, self._pause)

    def _store(self, batch: dict[object, Job]) -> bool:
        """Write all of `batch`; False: not now."""
        try:
            with self._connection() as connection:
                self._do(connection, batch.values())
                self._forget(connection)
        except Exception as error:
            self._drop_engine()
            if self._mended(error):
                self._pause = 0.0
            else:
                self._pause = min(_LONGEST_PAUSE, 2 * self._pause or 0.5)
                self._failing = True
                self._complain(f"{in_a_line(error)}. Servers start without it; starts and ends that wait: {len(batch)}")
            return False
        if self._failing:
            lost = f", but {self._lost} changes were too many to be kept meanwhile" if self._lost else ""
            self._log.info("The journal %s is written again%s.", shown(self._url), lost)
        self._failing, self._pause, self._lost = False, 0.0, 0
        return True

    @contextlib.contextmanager
    def _connection(self) -> Iterator[Connection]:
        if self._engine is None:
            self._engine = engine_to_write(self._url)
            with self._engine.begin() as connection:
                if connection.dialect.name == "sqlite":
                    self._check(connection)
                if not migrate(connection):
                    # The old one may have been damaged or removed under us.
                    self._do(connection, [Save((start,)) for start in self._everything()])
        with self._engine.begin() as connection:
            yield connection

    @staticmethod
    def _check(connection: Connection) -> None:
        said = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar()
        if said != "ok":
            raise exc.DatabaseError("PRAGMA quick_check", None, Exception(f"malformed: {said}"))

    def _do(self, connection: Connection, jobs: Iterable[Job]) -> None:
        for job in _together(jobs):
            if self._done(connection, job, tell=not isinstance(job, Save)):
                continue
            for start in job.starts if isinstance(job, Save) else ():
                self._done(connection, Save((start,)), tell=True)

    def _done(self, connection: Connection, job: Job, *, tell: bool) -> bool:
        """Do one job; False: it will never be taken, and must not keep the others back."""
        try:
            with connection.begin_nested():
                job(connection)
        except Exception as error:
            if isinstance(error, exc.DBAPIError) and not isinstance(error, (exc.DataError, exc.IntegrityError)):
                raise
            if tell:
                self._log.error("A change can't be kept in the journal %s: %s.", shown(self._url), in_a_line(error))
            return False
        return True

    def _forget(self, connection: Connection) -> None:
        now = time.time()
        if self._keep_days and now >= self._forget_at:
            self._forget_at = now + DAY
            forget(connection, now - self._keep_days * DAY)

    def _mended(self, error: BaseException) -> bool:
        """Whether a file that was removed or damaged was the trouble, and a new one can take its place."""
        if is_removed(error) and not self._failing:
            self._failing = True
            self._log.warning("The journal %s was removed, and is begun anew.", shown(self._url))
            return True
        if not is_damage(error):
            return False
        try:
            aside = move_aside(self._url)
        except OSError:
            return False
        if aside is None:
            return False
        self._log.error(
            "The journal %s is damaged and was moved to %s. A new one is begun.", shown(self._url), aside.name
        )
        return True

    def _complain(self, text: str) -> None:
        now = time.monotonic()
        if not self._complained or now - self._complained >= _COMPLAINT_SECONDS:
            self._complained = now
            self._log.error("The journal %s can't be written: %s.", shown(self._url), text)

    def _drop_engine(self) -> None:
        if self._engine is not None:
            self._engine.dispose()
            self._engine = None


def _together(jobs: Iterable[Job]) -> Iterator[Job]:
    """`jobs` in their order, with what follows each other to be stored in one go."""
    saved: list[Start] = []
    for job in jobs:
        if isinstance(job, Save):
            saved += job.starts
        if saved and (not isinstance(job, Save) or len(saved) >= _MOST_AT_ONCE):
            yield Save(tuple(saved))
            saved = []
        if not isinstance(job, Save):
            yield job
    if saved:
        yield Save(tuple(saved))


def forget(connection: Connection, before: float) -> None:
    """Remove the starts that ended before `before`, Unix time."""
    connection.execute(starts.delete().where(starts.c.ended_at < before))
