"""The pieces of `hami-hub demo` that need no hub: its folder, its ports, its settings, its processes."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import click
import pytest

import hami_hub
from hami_hub.cli.demo import cards, folder, ports, processes, state
from hami_hub.cli.demo.folder import DemoFolder, notebooks_folder
from hami_hub.cli.demo.settings import Settings

SETTINGS = Settings(folder="/d", state="/dev/shm/s", port=8000, hub_port=1, proxy_port=2, password="x")


@pytest.fixture
def demo(tmp_path: Path) -> DemoFolder:
    return DemoFolder(tmp_path / "demo")


def test_the_password_is_made_once_and_is_nobody_elses(demo: DemoFolder) -> None:
    password = demo.password()
    assert re.fullmatch(r"[a-z2-9]{4}-[a-z2-9]{4}-[a-z2-9]{4}", password)
    assert demo.password() == password
    assert (demo.path / "password").stat().st_mode & 0o777 == 0o600


def test_an_empty_password_file_is_no_password(demo: DemoFolder) -> None:
    (demo.path / "password").write_text("\n")
    (demo.path / "password").chmod(0o644)
    assert len(demo.password()) == 14
    assert (demo.path / "password").stat().st_mode & 0o777 == 0o600


def test_a_second_demo_in_the_same_folder_is_told_where_the_first_is(demo: DemoFolder) -> None:
    demo.note("http://127.0.0.1:8000")
    with pytest.raises(
        click.ClickException, match=r"A demo runs in .* already: http://127\.0\.0\.1:8000\. Use that one"
    ):
        DemoFolder(demo.path)


def test_every_account_gets_the_notebooks_and_keeps_its_own(demo: DemoFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    source = demo.path / "notebooks"
    source.mkdir()
    (source / "01.ipynb").write_text("new")
    monkeypatch.setattr(folder, "notebooks_folder", lambda: source)
    demo.make_homes(["alice", "bob"])
    (demo.path / "homes" / "alice" / "01.ipynb").write_text("alice's")
    demo.make_homes(["alice", "bob"])
    assert (demo.path / "homes" / "alice" / "01.ipynb").read_text() == "alice's"
    assert (demo.path / "homes" / "bob" / "01.ipynb").read_text() == "new"


def test_the_hubs_database_is_forgotten(demo: DemoFolder) -> None:
    (demo.path / "hub.sqlite").touch()
    demo.forget_hub()
    demo.forget_hub()
    assert not (demo.path / "hub.sqlite").exists()


@pytest.fixture
def tmpfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "shm"
    folder.mkdir()
    monkeypatch.setattr(state, "_TMPFS", folder)
    return folder


def test_the_folder_in_memory_ends_with_its_demo(tmpfs: Path) -> None:
    with state.memory_folder() as folder:
        (folder / "slices").mkdir()
        assert folder.stat().st_mode & 0o777 == 0o700
        with state.memory_folder() as other:
            assert folder.exists()
            assert other != folder
    assert list(tmpfs.iterdir()) == []


def test_what_killed_demos_left_is_removed_and_nothing_else(tmpfs: Path) -> None:
    abandoned = tmpfs / "hami-demo-abandoned"
    abandoned.mkdir()
    (abandoned / "lock").touch()
    precious = tmpfs / "precious"
    precious.mkdir()
    (precious / "lock").touch()
    (tmpfs / "hami-demo-link").symlink_to(precious)
    (tmpfs / "hami-demo-strange").mkdir()
    with state.memory_folder():
        assert not abandoned.exists()
        assert precious.exists()
        assert (tmpfs / "hami-demo-link").is_symlink()
        assert (tmpfs / "hami-demo-strange").exists()


def test_no_folder_in_memory_is_told(tmpfs: Path) -> None:
    tmpfs.rmdir()
    with pytest.raises(click.ClickException, match=r"shm can't be written \(No such file or directory\)"):
        state.memory_folder().__enter__()


def test_notebooks_of_an_installed_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "hami_hub"
    monkeypatch.setattr(hami_hub, "__file__", str(package / "__init__.py"))
    monkeypatch.setattr(hami_hub, "__path__", [str(package)])
    with pytest.raises(click.ClickException, match="notebooks are not in the installed package"):
        notebooks_folder()
    (package / "_notebooks").mkdir(parents=True)
    assert notebooks_folder() == package / "_notebooks"


def test_settings_travel_by_environment() -> None:
    assert Settings.from_environment(SETTINGS.environment()) == SETTINGS
    assert SETTINGS.url == "http://127.0.0.1:8000"


def test_ports() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert ports.why_not(port) == "is in use"
        free = ports.next_free(port)
        assert free is not None
        assert free > port
        assert ports.why_not(free) is None
    assert ports.next_free(65535) is None
    assert len(set(ports.any_free(5))) == 5


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        ("Tesla T4, 15360\n", "Tesla T4, 15 GiB"),
        ("Tesla T4, 15360\nTesla T4, 15360\nNVIDIA A10, 23028\n", "2 x Tesla T4, 15 GiB, NVIDIA A10, 22.4 GiB"),
        ("Tesla T4, [N/A]\n", "Tesla T4, memory unknown"),
    ],
)
def test_cards_are_named_in_a_few_words(monkeypatch: pytest.MonkeyPatch, lines: str, text: str) -> None:
    answer = subprocess.CompletedProcess([], 0, stdout=lines, stderr="")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: answer)
    assert cards.describe_cards({}) == text


def test_what_cannot_be_asked_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = subprocess.CompletedProcess([], 1, stdout="", stderr="Error: No driver.\n")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: answer)
    with pytest.raises(click.ClickException, match=r"^The cards can't be asked\. No driver\.$"):
        cards.describe_cards({})


_STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
)


def test_processes_that_will_not_end_are_killed() -> None:
    marked = {**os.environ, "HAMI_TEST_MARK": "stubborn one"}
    with subprocess.Popen([sys.executable, "-c", _STUBBORN], env=marked, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"up\n"
        found = processes.started_with("HAMI_TEST_MARK", "stubborn one")
        assert found == [child.pid]
        assert processes.started_with("HAMI_TEST_MARK", "stubborn") == []
        processes.end(found, patience=0.2)
        assert child.wait(30) == -signal.SIGKILL


# In a process of its own, since it is a setting of the whole process: an orphan comes to the subreaper.
_ADOPTS = """
import subprocess, sys
from hami_hub.cli.demo import processes
processes.adopt_orphans()
leave = "from subprocess import *; print(Popen(['sleep', '60'], stdout=DEVNULL, start_new_session=True).pid)"
orphan = int(subprocess.check_output([sys.executable, "-c", leave]))
assert processes.descendants() == [orphan], processes.descendants()
processes.end([orphan], patience=5)
assert processes.descendants() == []
"""


def test_orphans_are_found_and_ended() -> None:
    subprocess.run([sys.executable, "-c", _ADOPTS], check=True, timeout=60)
