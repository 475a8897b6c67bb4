"""The journal keeps what it is told through all that can befall a file, and nobody who tells it waits."""

from __future__ import annotations

import logging
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, create_engine, text

from hami_hub.core.history import Start, StartState
from hami_hub.journal import Journal, JournalError, Reader, absolute, shown, url_problem
from hami_hub.journal import journal as module
from hami_hub.journal.tables import MIGRATIONS, NewerJournalError, migrate, version_of

from .starts import a_start

ALL_TIME = (0.0, 1e12)


class Patient(Journal):
    """Waits for a disk that others keep busy."""

    def flush(self, timeout: float = 60) -> bool:
        return super().flush(timeout)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/hami-hub.sqlite"


@pytest.fixture
def make(url: str) -> Iterator[Callable[..., Journal]]:
    made: list[Journal] = []

    def make(at: str = url, **more: Any) -> Journal:
        made.append(Patient(at, **{"days": 0, **more}))  # the starts here are of 1970
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def journal(make: Callable[..., Journal]) -> Journal:
    return make()


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_what_is_told_is_read_by_another(journal: Journal, url: str) -> None:
    journal.opened(a_start())
    assert journal.flush()
    assert Reader(url).open_starts() == (a_start(),)
    journal.changed("1", state=StartState.RUNNING, position=0, placed=("GPU-a", "GPU-b"), started_at=1010.5)
    journal.changed("1", state=StartState.ENDED, ended_at=1020.25)
    assert journal.flush()
    assert Reader(url).open_starts() == ()
    assert Reader(url).starts(*ALL_TIME) == (
        a_start(state=StartState.ENDED, position=0, placed=("GPU-a", "GPU-b"), started_at=1010.5, ended_at=1020.25),
    )


def test_refusals_are_read_newest_first(journal: Journal) -> None:
    journal.opened(a_start("1", state=StartState.REFUSED, reason="hami-quota", words="No.", ended_at=1000.0))
    journal.opened(a_start("2", state=StartState.RUNNING, asked_at=1001.0))
    journal.opened(a_start("3", asked_at=1002.0))
    journal.changed("3", state=StartState.FAILED, reason="hami-no-room", ended_at=1003.0)
    journal.flush()
    assert [each.id for each in journal.refusals(*ALL_TIME)] == ["3", "1"]
    assert [each.id for each in journal.refusals(*ALL_TIME, limit=1)] == ["3"]
    assert [each.id for each in journal.refusals(0, 1001)] == ["1"]


def test_starts_of_a_time_are_those_that_were_open_in_it(journal: Journal) -> None:
    journal.opened(a_start("over", asked_at=10.0, state=StartState.ENDED, ended_at=20.0))
    journal.opened(a_start("long", asked_at=10.0, state=StartState.ENDED, ended_at=200.0))
    journal.opened(a_start("runs", asked_at=10.0, state=StartState.RUNNING))
    journal.opened(a_start("later", asked_at=300.0))
    journal.flush()
    assert {each.id for each in journal.starts(100, 300)} == {"long", "runs"}
    assert [each.id for each in journal.starts(*ALL_TIME, limit=1)] == ["later"]


def test_without_a_url_nothing_is_kept_and_watchers_know_it_all(make: Callable[..., Journal], tmp_path: Path) -> None:
    seen: list[tuple[StartState | None, StartState]] = []
    journal = make("")
    journal.watch(lambda before, after: seen.append((before and before.state, after.state)))
    journal.opened(a_start())
    assert journal.open_now() == (a_start(),)
    journal.changed("1", state=StartState.CANCELLED, ended_at=1001.0)
    journal.close_strays(set(), 1.0)
    assert journal.flush()
    assert journal.open_now() == ()
    assert seen == [(None, StartState.WAITING), (StartState.WAITING, StartState.CANCELLED)]
    with pytest.raises(JournalError, match="journal_url is empty"):
        journal.open_starts()
    assert list(tmp_path.iterdir()) == []


def test_a_watcher_that_fails_and_a_field_that_is_none_cost_nobody_a_start(
    journal: Journal, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("a bug")

    journal.watch(fails)
    journal.opened(a_start())
    journal.changed("1", colour="green")
    journal.flush()
    assert journal.open_starts() == (a_start(),)
    assert len(caplog.records) == 2


def test_a_new_hub_takes_up_what_runs_and_ends_what_does_not(make: Callable[..., Journal], url: str) -> None:
    first = make()
    runs = a_start("runs", state=StartState.RUNNING, position=0, started_at=1001.0, words="", placed=("GPU-a",))
    first.opened(runs)
    first.opened(a_start("gone", state=StartState.RUNNING))
    first.opened(a_start("starts", state=StartState.STARTING))
    first.flush()
    second = make()
    second.restored(a_start("runs", state=StartState.RUNNING, asked_at=5.0, profile="forgotten"))
    second.restored(a_start("never told", state=StartState.RUNNING))
    second.close_strays({"runs"}, at=2000.0)
    second.opened(a_start("new"))
    second.flush()
    found = {each.id: each for each in Reader(url).starts(*ALL_TIME)}
    assert found["runs"] == runs
    assert {each.id: each for each in second.open_now()}["runs"] == runs
    assert (found["gone"].state, found["gone"].ended_at) == (StartState.ENDED, 2000.0)
    assert (found["starts"].state, found["starts"].reason) == (StartState.FAILED, "hami-hub-restarted")
    assert found["new"].state is StartState.WAITING
    assert found["never told"].state is StartState.RUNNING
    second.changed("runs", state=StartState.ENDED, ended_at=3000.0)
    second.flush()
    assert {each.id for each in Reader(url).open_starts()} == {"new", "never told"}


def test_a_change_while_a_server_is_taken_up_loses_nothing_that_was_known(
    make: Callable[..., Journal], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = make()
    first.opened(a_start("runs", state=StartState.RUNNING, profile="known"))
    assert first.flush(30)
    first.close()
    second = make()
    known = threading.Event()
    take_up = second._restore

    def restore(connection: Connection, told: Start) -> None:
        take_up(connection, told)
        known.set()

    def slow(start: Start, **fields: Any) -> Start:
        if threading.current_thread() is threading.main_thread():
            known.wait(0.5)  # long enough for the journal's thread to come between, if it may
        return replace(start, **fields)

    monkeypatch.setattr(second, "_restore", restore)
    monkeypatch.setattr(module, "replace", slow)
    second.restored(a_start("runs", state=StartState.RUNNING, profile="forgotten"))
    second.changed("runs", until=9.0)
    assert second.flush(30)
    (start,) = second.starts(*ALL_TIME)
    assert (start.profile, start.until) == ("known", 9.0)


def test_what_becomes_of_a_start_that_only_the_file_knows_is_kept(make: Callable[..., Journal], url: str) -> None:
    first = make()
    first.opened(a_start(state=StartState.RUNNING))
    first.flush()
    second = make()
    second.changed("1", state=StartState.ENDED, ended_at=9.0)
    second.flush()
    assert [each.ended_at for each in Reader(url).starts(*ALL_TIME)] == [9.0]


def test_old_starts_are_forgotten_and_open_ones_never(make: Callable[..., Journal], url: str) -> None:
    now, day = time.time(), 86400.0
    first = make(days=0)
    first.opened(a_start("old", state=StartState.ENDED, ended_at=now - 401 * day))
    first.opened(a_start("young", state=StartState.ENDED, ended_at=now - 399 * day))
    first.opened(a_start("runs", asked_at=now - 900 * day, state=StartState.RUNNING))
    first.flush()
    assert len(Reader(url).starts(*ALL_TIME)) == 3
    second = make(days=400)
    second.opened(a_start("new", asked_at=now))
    second.flush()
    assert {each.id for each in Reader(url).starts(*ALL_TIME)} == {"young", "runs", "new"}


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "x" * 5000, "'; DROP TABLE hami_starts; --", "<b>"])
def test_what_a_person_typed_is_kept_as_far_as_a_database_can(journal: Journal, name: str) -> None:
    journal.opened(a_start(user=name, profile=name, words=name))
    journal.flush()
    [found] = journal.open_starts()
    assert found.user == name.replace("\0", "").replace("\ud800", "?")[:255]


def test_a_change_that_no_database_takes_keeps_nothing_back(journal: Journal, caplog: pytest.LogCaptureFixture) -> None:
    journal.opened(a_start("1", cards="many"))
    journal.opened(a_start("bad", asked_at=None))
    journal.opened(a_start("2"))
    assert journal.flush()
    assert "2" in {each.id for each in journal.open_starts()}
    assert "can't be kept" in caplog.text


# --- damage, full and read-only disks, crashes


def test_a_damaged_file_is_moved_aside_and_what_is_open_begins_the_new_one(
    journal: Journal, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "hami-hub.sqlite"
    journal.opened(a_start("1"))
    journal.flush()
    for ending in ("-wal", "-shm"):
        path.with_name(path.name + ending).unlink(missing_ok=True)
    path.write_bytes(b"no database at all" * 1000)
    with pytest.raises(JournalError, match="is damaged"):
        journal.open_starts()
    journal.opened(a_start("2"))
    assert journal.flush(30)
    assert {each.id for each in journal.open_starts()} == {"1", "2"}
    [aside] = tmp_path.glob("*.damaged-*")
    assert aside.read_bytes().startswith(b"no database")
    assert f"was moved to {aside.name}" in caplog.text


def test_a_file_with_a_damaged_page_is_noticed_when_a_hub_begins(
    make: Callable[..., Journal], url: str, tmp_path: Path
) -> None:
    first = make()
    for number in range(500):
        first.opened(a_start(str(number), words="x" * 200))
    assert first.flush()
    first.close()
    path = tmp_path / "hami-hub.sqlite"
    whole = bytearray(path.read_bytes())
    whole[4096 * 3 : 4096 * 20] = b"\xff" * (4096 * 17)
    path.write_bytes(whole)
    second = make()
    second.opened(a_start("new"))
    assert second.flush(30)
    assert [each.id for each in Reader(url).open_starts()] == ["new"]


def test_a_file_that_was_removed_is_made_again_with_what_is_open(journal: Journal, tmp_path: Path) -> None:
    journal.opened(a_start("1"))
    journal.flush()
    for path in tmp_path.iterdir():
        path.unlink()
    journal.opened(a_start("2"))
    assert journal.flush(30)
    assert {each.id for each in journal.open_starts()} == {"1", "2"}


def test_where_it_cannot_be_written_nobody_waits_and_it_is_written_when_it_can(
    make: Callable[..., Journal], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    journal = make(f"sqlite:///{tmp_path}/not/there/j.sqlite")
    for number in range(100):
        journal.opened(a_start(str(number)))
    until(lambda: "unable to open database file" in caplog.text)
    assert not journal.flush(0)
    (tmp_path / "not/there").mkdir(parents=True)
    assert journal.flush(30)
    assert len(journal.open_starts()) == 100
    assert "is written again" in caplog.text
    assert len([each for each in caplog.records if each.levelno == logging.ERROR]) == 1


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "hami-journal-test", str(folder)])
    if mounted.returncode != 0:
        pytest.skip("nothing can be mounted here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_costs_nothing_but_patience(
    make: Callable[..., Journal], small_disk: Path, caplog: pytest.LogCaptureFixture
) -> None:
    journal = make(f"sqlite:///{small_disk}/j.sqlite")
    journal.opened(a_start("first"))
    assert journal.flush()
    (small_disk / "ballast").write_bytes(b"x" * 110_000)
    for number in range(300):
        journal.opened(a_start(str(number), words="x" * 200))
    until(lambda: "full" in caplog.text)
    assert {each.id for each in journal.open_starts()} >= {"first"}
    (small_disk / "ballast").unlink()
    subprocess.run(["mount", "-o", "remount,size=4m", str(small_disk)], check=True)
    assert journal.flush(60)
    assert len(journal.open_starts()) == 301


def test_a_disk_that_has_become_read_only_is_waited_for(
    make: Callable[..., Journal], small_disk: Path, caplog: pytest.LogCaptureFixture
) -> None:
    journal = make(f"sqlite:///{small_disk}/j.sqlite")
    journal.opened(a_start("1"))
    journal.flush()
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    journal.opened(a_start("2"))
    until(lambda: "can't be written" in caplog.text)
    subprocess.run(["mount", "-o", "remount,rw", str(small_disk)], check=True)
    assert journal.flush(60)
    assert {each.id for each in journal.open_starts()} == {"1", "2"}


def test_a_reader_never_makes_a_file(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="There is no journal at"):
        Reader(f"sqlite:///{tmp_path}/none.sqlite").open_starts()
    sqlite3.connect(tmp_path / "other.sqlite").close()
    with pytest.raises(JournalError, match="is no journal"):
        Reader(f"sqlite:///{tmp_path}/other.sqlite").open_starts()
    assert [path.name for path in tmp_path.iterdir()] == ["other.sqlite"]


def test_two_readers_and_a_writer_at_once(journal: Journal, url: str) -> None:
    journal.opened(a_start("0"))
    journal.flush()
    seen: list[int] = []
    wrong: list[BaseException] = []
    over = threading.Event()

    def read() -> None:
        try:
            while not over.is_set():
                seen.append(len(Reader(url).open_starts()))
        except BaseException as error:
            wrong.append(error)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for each in readers:
        each.start()
    for number in range(1, 200):
        journal.opened(a_start(str(number)))
        journal.flush()
    over.set()
    for each in readers:
        each.join()
    assert wrong == []
    assert seen
    assert len(Reader(url).open_starts()) == 200


def test_somebody_who_locks_the_file_is_waited_for(journal: Journal, tmp_path: Path) -> None:
    journal.opened(a_start("1"))
    journal.flush()
    other = sqlite3.connect(tmp_path / "hami-hub.sqlite", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    journal.opened(a_start("2"))
    assert not journal.flush(0.2)
    other.execute("COMMIT")
    other.close()
    assert journal.flush(30)
    assert len(journal.open_starts()) == 2


def test_what_was_stored_survives_kill_9_at_any_moment(url: str, make: Callable[..., Journal]) -> None:
    program = textwrap.dedent("""
        import sys
        sys.path.insert(0, {root!r})
        from tests.unit.test_journal import Patient, a_start
        journal = Patient({url!r})
        for number in range(100000):
            journal.opened(a_start(f"{{number:06}}"))
            if number % 10 == 0:
                assert journal.flush()
                print(number, flush=True)
    """).format(root=str(Path(__file__).parents[2]), url=url)
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    stored = [int(next(process.stdout)) for _ in range(30)][-1]
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    second = make()
    second.opened(a_start("new"))
    assert second.flush()
    ids = {each.id for each in Reader(url).open_starts()}
    assert "new" in ids
    assert ids >= {f"{number:06}" for number in range(stored + 1)}


def test_what_waits_is_stored_when_the_process_ends(url: str) -> None:
    program = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parents[2])!r})\n"
        "from tests.unit.test_journal import Journal, a_start\n"
        f"journal = Journal({url!r})\n"
        "for number in range(500): journal.opened(a_start(str(number)))\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
    assert len(Reader(url).open_starts()) == 500


# --- versions and places


def test_tables_of_an_earlier_version_are_brought_up_to_date(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path}/j.sqlite")

    def second(connection: Connection) -> None:
        connection.execute(text("ALTER TABLE hami_starts ADD COLUMN colour VARCHAR(8)"))

    with engine.begin() as connection:
        assert migrate(connection) == 0
        assert migrate(connection) == len(MIGRATIONS)
    with engine.begin() as connection:
        assert migrate(connection, [*MIGRATIONS, second]) == len(MIGRATIONS)
        assert version_of(connection) == len(MIGRATIONS) + 1
        connection.execute(text("SELECT colour FROM hami_starts"))
        with pytest.raises(NewerJournalError, match="update hami-hub"):
            migrate(connection)
    engine.dispose()


def test_a_journal_of_a_later_version_is_left_alone(
    journal: Journal, url: str, tmp_path: Path, make: Callable[..., Journal], caplog: pytest.LogCaptureFixture
) -> None:
    journal.opened(a_start())
    assert journal.flush()
    journal.close()
    with sqlite3.connect(tmp_path / "hami-hub.sqlite") as connection:
        connection.execute("UPDATE hami_meta SET value = '99'")
    second = make()
    second.opened(a_start("2"))
    until(lambda: "update hami-hub" in caplog.text)
    with pytest.raises(JournalError, match="version 99"):
        Reader(url).open_starts()
    assert len(list(tmp_path.glob("*.damaged*"))) == 0


def test_a_row_that_makes_no_sense_hides_no_other(journal: Journal, tmp_path: Path) -> None:
    journal.opened(a_start("1"))
    journal.opened(a_start("2", state=StartState.RUNNING))
    journal.flush()
    with sqlite3.connect(tmp_path / "hami-hub.sqlite") as connection:
        connection.execute("UPDATE hami_starts SET placed = 'not json' WHERE id = '1'")
    assert [each.id for each in journal.open_starts()] == ["2"]


@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("", ""),
        ("sqlite:///hami-hub.sqlite", ""),
        ("sqlite:////srv/hub/hami-hub.sqlite", ""),
        ("sqlite://", "in memory"),
        ("sqlite:///:memory:", "in memory"),
        ("hami-hub.sqlite", "not the URL"),
        ("oracle9://x", "not installed"),
    ],
)
def test_a_url_that_cannot_be_a_journals_is_told_at_once(url: str, word: str) -> None:
    problem = url_problem(url)
    assert (problem == "") if not word else word in problem


def test_a_password_is_never_shown() -> None:
    url = "postgresql://hub:secret@db/hub"
    assert "secret" not in shown(url)
    assert "secret" not in url_problem(url)
    assert absolute(url) == url


def test_a_relative_place_is_the_same_for_all_processes(tmp_path: Path) -> None:
    assert absolute("sqlite:///j.sqlite", tmp_path) == f"sqlite:///{tmp_path}/j.sqlite"
    assert Reader(absolute("sqlite:///j.sqlite", tmp_path)).url.endswith("/j.sqlite")
    odd = tmp_path / "a ?#%41 b"
    odd.mkdir()
    journal = Patient(absolute("sqlite:///j.sqlite", odd))
    journal.opened(a_start())
    assert journal.flush()
    assert Reader(journal.url).open_starts() == (a_start(),)
    journal.close()
