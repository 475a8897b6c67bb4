"""`hami-hub demo` for real: it starts, people work in it, it ends, and nothing is left."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import requests

from hami_hub.native import NativeMissingError, limiter_path

from .demo_process import Demo, variables_of
from .person import PATIENCE, Person

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(autouse=True)
def _compiled() -> None:
    try:
        limiter_path()
    except NativeMissingError as error:
        pytest.skip(str(error))


def test_a_day_with_the_demo(tmp_path: Path) -> None:
    """One demo for many aspects: what it says, who may log in, whose home is whose, the admin's rights, the end."""
    with Demo(tmp_path / "demo") as demo:
        assert "Simulated: Tesla T4, 15 GiB." in demo.output
        assert demo.url in demo.output
        assert demo.password() in demo.output
        assert requests.get(f"{demo.url}/hub/login", timeout=PATIENCE).status_code == 200

        assert Person(demo.url, "alice", "wrong").log_in().status_code == 403
        assert Person(demo.url, "mallory", demo.password()).log_in().status_code == 403

        alice = Person(demo.url, "alice", demo.password())
        assert alice.log_in().status_code == 200
        alice.start(profile="gpu-4g")
        names = {entry["name"] for entry in alice.get("/api/contents").json()["content"]}
        assert {path.name for path in Path(__file__).parents[2].glob("notebooks/*.ipynb")} <= names
        assert alice.post("/api/kernels", name="python3").status_code == 201
        assert "apputils-extension:announcements" in alice.get("/lab").text  # among what is disabled

        admin = Person(demo.url, "admin", demo.password())
        assert admin.log_in().status_code == 200
        admin.start(profile="cpu")
        variables = server_environment(demo, "alice")
        assert variables["PATH"].startswith(f"{Path(sys.executable).parent}:")  # where hami-hub is
        assert "HAMI_DEMO" not in variables
        assert "admin:servers" in scopes_of(server_environment(demo, "admin"))
        assert "admin:servers" not in scopes_of(variables)

        started = demo.everything()
        assert len(started) >= 5  # hub, proxy, two servers, a kernel
        state = demo.state()
        assert list((state / "slices").iterdir())

        assert demo.end(signal.SIGINT) == 0
        assert demo.everything() == []
        assert not state.exists()


def server_environment(demo: Demo, name: str) -> dict[str, str]:
    """The variables of an account's server."""
    return next(found for pid in demo.everything() if (found := variables_of(pid)).get("JUPYTERHUB_USER") == name)


def scopes_of(variables: dict[str, str]) -> list[str]:
    """What a server may do at the hub, with the token that it was given."""
    header = {"Authorization": f"token {variables['JUPYTERHUB_API_TOKEN']}"}
    answer = requests.get(f"{variables['JUPYTERHUB_API_URL']}/user", headers=header, timeout=PATIENCE)
    return list(answer.json()["scopes"])


def test_a_killed_demo_is_cleaned_up_by_the_next(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    with Demo(folder) as first:
        alice = Person(first.url, "alice", first.password())
        alice.log_in()
        alice.start(profile="cpu")
        left = first.state()
        # everything that could have cleaned up; the demo doesn't see that its hub goes, nor the hub that the demo goes
        os.kill(first.process.pid, signal.SIGSTOP)
        for pid in (*running(first, b"demo_config.py", b"hami_hub.cli.demo.proxy"), first.process.pid):
            os.kill(pid, signal.SIGKILL)
        first.process.wait()
        orphans = first.everything()
        assert orphans
        with Demo(folder, port=first.port) as second:
            assert not left.exists()
            assert not set(orphans) & set(second.everything())
            assert Person(second.url, "alice", second.password()).log_in().status_code == 200
            assert second.end(signal.SIGTERM) == 0
            assert second.everything() == []


def running(demo: Demo, *programs: bytes) -> list[int]:
    """The processes of a demo whose command line has one of these words."""

    def command(pid: int) -> bytes:
        with contextlib.suppress(OSError):  # one that has ended since
            return Path(f"/proc/{pid}/cmdline").read_bytes()
        return b""

    return [pid for pid in demo.everything() if any(program in command(pid) for program in programs)]


def test_a_killed_demo_takes_its_hub_with_it(tmp_path: Path) -> None:
    with Demo(tmp_path / "demo") as demo:
        # JupyterHub shows its pages an instant before it takes signals
        while not takes(running(demo, b"demo_config.py")[0], signal.SIGTERM):
            time.sleep(0.05)
        demo.process.kill()
        demo.process.wait()
        # the hub is told, and ends what it started
        for pid in demo.everything():
            subprocess.run(["tail", "--pid", str(pid), "-f", "/dev/null"], check=True, timeout=90)
        assert demo.everything() == []


def takes(pid: int, number: signal.Signals) -> bool:
    """Whether a process has a handler for a signal."""
    caught = re.search(r"^SigCgt:\s*(\w+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return caught is not None and bool(int(caught[1], 16) >> (number - 1) & 1)


def test_a_second_demo_in_the_same_folder(tmp_path: Path) -> None:
    with Demo(tmp_path / "demo") as demo:
        answer = demo_fails("--dir", str(demo.folder), "--port", str(demo.port))
        assert answer == (
            f"Error: A demo runs in {demo.folder} already: {demo.url}. "
            "Use that one, end it with Ctrl-C, or name another folder with --dir.\n"
        )
        assert demo.process.poll() is None
        assert demo.end() == 0


def test_a_port_in_use(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        answer = demo_fails("--dir", str(tmp_path / "demo"), "--port", str(port))
    assert answer.startswith(f"Error: Port {port} is in use: --port ")
    assert answer.count("\n") == 1


@pytest.mark.parametrize("folder", ["/proc/demo", "/dev/null/demo"])
def test_a_folder_that_cannot_be_written(folder: str) -> None:
    answer = demo_fails("--dir", folder)
    assert answer.startswith("Error: /")
    assert "Name another folder with --dir." in answer
    assert answer.count("\n") == 1


def test_a_hub_that_will_not_start_is_told_with_its_log(tmp_path: Path) -> None:
    (tmp_path / "demo" / "hub.sqlite").mkdir(parents=True)
    assert "hub.sqlite can't be used (Is a directory)" in demo_fails("--dir", str(tmp_path / "demo"))


def demo_fails(*options: str) -> str:
    """What a demo says that can't be started."""
    command = [sys.executable, "-m", "hami_hub.cli", "demo", "--simulated", *options]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
    assert answer.returncode == 1
    assert answer.stdout == ""
    return answer.stderr
