"""A real JupyterHub for tests: its own process, proxy, database and simulated card; driven by its REST API."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx
import jupyterhub
import websocket
from docker_daemon import DockerDaemon
from systemd_container import SystemdContainer

from hami_hub import native
from hami_hub.core.slices import Placement
from hami_hub.slicepage import PageError, read_placement
from hami_hub.spawner.leftovers import SERVER_FILE
from tests.hub_client import PATIENCE, Failed, HubClient, api_client

HERE = Path(__file__).parent
_LOOK_SECONDS = 0.1
_LOG_SHOWN = 8000  # characters
_ASKED_BY_TESTS = re.compile(r" 200 GET /hub/api/users/")
_PROXY = "from configurable_http_proxy.cli import main; main()"


class Hub(HubClient):
    """`with Hub(spawner="hami-simple") as hub: hub.start("alice", {"profile": "small"})`.

    Args:
        spawner: entry point or class.
        container: run the hub in there; its users are that machine's.
        simulated: whether the hub meets a simulated card.
        patient: whether a form waits for what comes of its start, however long that takes; else it is told at once
            that the server starts.
        environment: more of it, for the hub.
        config: more settings, by class name.
    """

    def __init__(
        self,
        *,
        spawner: str,
        container: SystemdContainer | DockerDaemon | None = None,
        simulated: bool = True,
        patient: bool = False,
        environment: dict[str, str] | None = None,
        **config: dict[str, Any],
    ) -> None:
        self.shm = Path(tempfile.mkdtemp(prefix="hami-hub-", dir="/dev/shm"))
        self.shm.chmod(0o755)
        self.folder = Path(tempfile.mkdtemp(prefix="hami-hub-"))
        self.folder.chmod(0o755)
        self.slice_root = self.shm / "slices"
        self.log = self.folder / "hub.log"
        self._container = container
        self._token = secrets.token_hex(16)
        ports = _free_ports(3)
        self.url, hub_url, proxy_url = (f"http://127.0.0.1:{port}" for port in ports)
        self.settings: dict[str, Any] = {
            "folder": str(self.folder),
            "shm": str(self.shm),
            "patient": PATIENCE if patient else None,
            "url": self.url,
            "hub_url": hub_url,
            "proxy_url": proxy_url,
            "token": self._token,
            "spawner": spawner,
            "server": str(self._readable_server()),
            "slice_root": str(self.slice_root),
            "config": config,
        }
        sim = self.shm / "sim"
        sim.mkdir()
        sim.chmod(0o1777)
        self._environment = {
            **{key: value for key, value in os.environ.items() if key not in ("LD_LIBRARY_PATH", native.ENV_SIM_DIR)},
            **(native.sim_environment(sim) if simulated else {}),
            **(environment or {}),
        }
        self._proxy: subprocess.Popen[bytes] | None = None
        self._hub: subprocess.Popen[bytes] | None = None
        self.api = api_client(hub_url, self._token)

    # --- the hub itself

    def __enter__(self) -> Hub:
        try:
            port, api = (self.settings[key].rpartition(":")[2] for key in ("url", "proxy_url"))
            places = ["--ip=127.0.0.1", f"--port={port}", "--api-ip=127.0.0.1", f"--api-port={api}"]
            environment = {**os.environ, "CONFIGPROXY_AUTH_TOKEN": self._token}
            self._proxy = self._begin([sys.executable, "-c", _PROXY, *places], environment)
            self.begin()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def begin(self) -> None:
        """Start the hub's process, and return when it answers."""
        environment = {**self._environment, "HAMI_TEST_HUB": json.dumps(self.settings)}
        command = [sys.executable, "-m", "jupyterhub", "-f", str(HERE / "hub_config.py")]
        if self._container is not None:
            variables = [f"{key}={value}" for key, value in environment.items()]
            command = self._container.inside("env", "-i", *variables, *command)
        self._hub = self._begin(command, environment)
        self._until(self._answers)

    def kill(self) -> None:
        """End the hub as a crash does; its servers run on."""
        assert self._hub is not None
        self._signal(signal.SIGKILL)
        self._hub.wait(PATIENCE)
        self._hub = None

    def inside(self, *command: str) -> str:
        """Run a command where the hub runs; what it prints."""
        whole = self._container.inside(*command) if self._container is not None else command
        return subprocess.run(whole, capture_output=True, text=True, check=True, timeout=PATIENCE).stdout

    @property
    def alive(self) -> bool:
        return self._hub is not None and self._hub.poll() is None

    def close(self) -> None:
        """End the servers, the hub and the proxy, and remove all they left."""
        with contextlib.suppress(Exception):
            self.stop_all()
        self.api.close()
        for process in (self._hub, self._proxy):
            if process is None:
                continue
            if process is self._hub and self._container is not None:
                # who brought it into the container hands no signal on
                with contextlib.suppress(OSError, subprocess.SubprocessError):
                    self._signal(signal.SIGTERM)
            else:
                process.send_signal(signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._hub = self._proxy = None
        self._end_servers()
        shutil.rmtree(self.shm, ignore_errors=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    # --- people and their servers

    def start(self, user: str, options: Any, server: str = "") -> None:
        """Start a server and return when it is ready.

        Raises:
            Failed: it was not started, with what the person read.
        """
        self.ask(user, options, server)
        self.until_started(user, server)

    def ask(self, user: str, options: Any, server: str = "") -> None:
        """Ask for a server, as `start` does, and return while it still starts.

        Raises:
            Failed: it was refused at once.
        """
        self.api.post(f"/users/{user}")
        place = self.place(user, server)
        # JupyterHub 5 takes the body for the options themselves.
        body = {"user_options": options} if jupyterhub.version_info[0] >= 6 else options
        answer = self.api.post(place, json=body) if body is not None else self.api.post(place)
        if answer.status_code >= 400:
            raise Failed(answer.json()["message"])

    @contextlib.contextmanager
    def followed(self, user: str, server: str = "") -> Iterator[list[str]]:
        """Somebody looks at the progress from now on; afterwards all is there that was said until the server was ready.

        Of a server that is ready no more is told than that: who wants to know what is said has to look before.
        """
        said: list[str] = []
        events = self.progress(user, server)
        said.append(next(events)["message"])
        yield said
        said += [event["message"] for event in events]

    def until_waiting(self, user: str) -> str:
        """Wait until somebody is in line; what they are told."""
        return next(event["message"] for event in self.progress(user) if "in line" in event["message"])

    def stop(self, user: str, server: str = "") -> None:
        """Stop a server, or cancel its start, and return when that is done."""
        self.api.delete(self.place(user, server))
        self.until_stopped(user, server)

    def until_stopped(self, user: str, server: str = "") -> None:
        """Wait until the hub knows that a server is gone."""
        self._until(lambda: server not in self.servers(user))

    def call(self, user: str, what: str, content: object = None, server: str = "") -> dict[str, Any]:
        """Have the (fake) server of a user do something."""
        place = "/".join(part for part in (self.url, "user", user, server, what) if part)
        answer = (
            httpx.get(place, timeout=PATIENCE) if content is None else httpx.post(place, json=content, timeout=PATIENCE)
        )
        result: dict[str, Any] = answer.json()
        return result

    def run(self, user: str, code: str, *, env: dict[str, str] | None = None, server: str = "") -> str:
        """Run Python in a process of the user's server; what it prints.  `env` replaces the environment."""
        done = self.call(user, "run", {"code": code, "env": env}, server)
        assert done["rc"] == 0, done["err"]
        return str(done["out"]).strip()

    def begin_process(self, user: str, code: str, server: str = "") -> tuple[int, str]:
        """Start a process that outlives the server, as kernels do: its PID and the first line that it prints."""
        begun = self.call(user, "begin", {"code": code}, server)
        # in a container it has another than where the hub runs
        inner = f"NSpid:.*\\b{begun['pid']}$"
        files = " ".join(f"/proc/{pid}/status" for pid in self.processes_of(user))
        # one of them may have ended since
        [found] = self.inside("sh", "-c", f"grep -slE '{inner}' {files} || true").split()
        return int(found.split("/")[2]), str(begun["said"]).strip()

    def run_in_kernel(self, user: str, code: str) -> str:
        """Run Python in a kernel of a real server; what it prints."""
        place = f"{self.url}/user/{user}/api/kernels"
        begun = httpx.post(place, headers=self.api.headers, json={"name": "python3"}, timeout=PATIENCE)
        channels = f"{place}/{begun.json()['id']}/channels".replace("http", "ws", 1)
        header = {"msg_id": secrets.token_hex(8), "msg_type": "execute_request", "username": "", "session": "tests"}
        # The reply comes by another way than what is printed, and may be faster.
        over = ("status", header["msg_id"])
        message = {
            "channel": "shell",
            "header": {**header, "version": "5.3"},
            "parent_header": {},
            "metadata": {},
            "content": {"code": code, "silent": False},
        }
        socket_ = websocket.create_connection(channels, timeout=PATIENCE, header=dict(self.api.headers))
        try:
            socket_.send(json.dumps(message))
            printed = ""
            while True:
                got = json.loads(socket_.recv())
                kind, content = got["header"]["msg_type"], got["content"]
                if kind == "stream":
                    printed += content["text"]
                elif kind == "error":
                    raise AssertionError(content["evalue"])
                elif (kind, got["parent_header"].get("msg_id")) == over and content["execution_state"] == "idle":
                    return printed.strip()
        finally:
            socket_.close()

    def kill_server(self, user: str) -> None:
        """End a server as a crash or the kernel does."""
        with contextlib.suppress(httpx.HTTPError, ValueError):
            self.call(user, "die", {})

    # --- what is reserved

    def held(self) -> dict[str, Placement]:
        """The slices that there are, by the readable part of their directory's name."""
        end = time.monotonic() + PATIENCE
        while True:
            directories = self.slice_root.iterdir() if self.slice_root.exists() else iter(())
            found = [path for path in directories if not path.name.startswith(".")]
            try:
                return {path.name.rpartition("-")[0]: read_placement(path) for path in found}
            except PageError:  # one of them is being made or removed
                if time.monotonic() > end:
                    raise
                time.sleep(_LOOK_SECONDS / 10)

    def until_held(self, *holders: str) -> None:
        """Wait until these and no others hold a slice."""
        self._until(lambda: sorted(self.held()) == sorted(holders))

    def until_noted(self, holder: str) -> None:
        """Wait until the hub has started a holder's server."""
        self._until(lambda: (self.directory(holder) / SERVER_FILE).exists())

    def metrics(self) -> str:
        """The hub's metrics, in Prometheus' format."""
        return self.api.get(self.api.base_url.join("/hub/metrics")).text

    def directory(self, holder: str) -> Path:
        """The slice directory of a holder."""
        [found] = [path for path in self.slice_root.iterdir() if path.name.rpartition("-")[0] == holder]
        return found

    def processes_of(self, user: str) -> list[str]:
        """The PIDs of a user's server and of what it started, as they are where the hub runs."""
        script = f'grep -lz "^JUPYTERHUB_USER={user}$" /proc/[0-9]*/environ 2>/dev/null || true'
        return [path.split("/")[2] for path in self.inside("sh", "-c", script).split()]

    # --- small things

    def _signal(self, number: signal.Signals) -> None:
        """Send a signal to the hub itself."""
        self.inside("kill", f"-{int(number)}", (self.folder / "hub.pid").read_text().strip())

    def _end_servers(self) -> None:
        """End what a hub that died has left."""
        for line in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                if self.settings["server"].encode() in line.read_bytes():
                    os.kill(int(line.parent.name), signal.SIGKILL)

    def _begin(self, command: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
        with self.log.open("a") as output:
            return subprocess.Popen(command, cwd=self.folder, env=environment, stdout=output, stderr=subprocess.STDOUT)

    def _answers(self) -> bool:
        if not self.alive:
            raise RuntimeError(f"The hub ended:\n{self._log_end()}")
        with contextlib.suppress(httpx.TransportError):
            return self.api.get("/").status_code == 200
        return False

    def _until(self, condition: Callable[[], object], seen: Callable[[], object] | None = None) -> None:
        """Wait until it holds; if it never does, what is `seen` instead is told, else what is held."""
        end = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > end:
                told = f"Held: {self.held()}" if seen is None else seen()
                raise TimeoutError(f"{told}\n{self._log_end()}")
            time.sleep(_LOOK_SECONDS)

    def _log_end(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()
        return "\n".join(line for line in lines if not _ASKED_BY_TESTS.search(line))[-_LOG_SHOWN:]

    def _readable_server(self) -> Path:
        """The fake server where every user of the machine can read it."""
        copy = self.shm / "fake_server.py"
        shutil.copy(HERE / "fake_server.py", copy)
        copy.chmod(0o644)
        return copy


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
