"""A real Docker daemon for tests, private to them: its own PID and mount namespaces, data, socket, network.

It is for tests of the Docker spawner: a hub that is run `inside` sees the containers' processes as Docker does.  Files
and network are the machine's own, so the hub is reached on 127.0.0.1, and containers are on a bridge of this daemon's.
Its image has no files but a few of /etc: the machine's programs and the project's environment are mounted into it.

It needs root and dockerd: `why_not()` says in one sentence what is missing.
"""

from __future__ import annotations

import functools
import io
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import docker
from systemd_container import cgroups

import hami_hub

BOOT_TIMEOUT = 120  # seconds; it takes two
IMAGE, NETWORK = "hami-test:1", "hami-test"
PEOPLE_UID = 20000
TOOLS = ("dockerd", "containerd", "runc", "unshare", "nsenter", "setpriv", "mount", "ip")
_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
# What a program of the machine's needs in a container, and su.
_FOLDERS = ("/usr", "/lib", "/lib64", "/bin")  # /sbin holds the container's init
_ETC = ("ld.so.cache", "pam.d", "security", "login.defs", "nsswitch.conf", "shells", "ssl")
_BRIDGE = "hami-dk"
# PID 1 of the new namespace, so that nothing outlives it; says the PID that the machine knows it by.
_BOOT = """\
read -r pid rest < /proc/self/stat
mount -t proc proc /proc
echo "$pid"
"$@" &
wait
"""


class DockerDaemon:
    """A running dockerd: `with DockerDaemon() as daemon: daemon.client.containers()`.

    Use it only where `why_not()` is None.  start() raises RuntimeError when it does not come up.
    """

    def __init__(self) -> None:
        self.pid = 0  # of its PID 1, as the machine counts
        self.folder = Path(tempfile.mkdtemp(prefix="hami-docker-"))
        self.url = f"unix://{self.folder}/docker.sock"
        self.bridge = f"{_BRIDGE}{os.getpid()}"
        self.gateway = ""
        self._process: subprocess.Popen[bytes] | None = None
        self.client: docker.APIClient = None

    def start(self) -> DockerDaemon:
        """Boot, and return when there is an image and a network."""
        try:
            self.begin()
            self._make_network()
            self.client.import_image_from_data(
                _image(), repository=IMAGE.partition(":")[0], tag=IMAGE.partition(":")[2]
            )
        except BaseException:
            self.stop()
            raise
        return self

    def begin(self) -> None:
        """Start the daemon, and return when it answers."""
        (self.folder / "daemon.json").write_text("{}")
        command = ["setpriv", "--pdeathsig=KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child"]
        command += ["sh", "-c", _BOOT, "sh", *self._daemon()]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, env={"PATH": _PATH}, cwd="/"
            )
        assert self._process.stdout is not None
        self.pid = int(self._process.stdout.readline() or 0)
        end = time.monotonic() + BOOT_TIMEOUT
        while time.monotonic() < end and self._process.poll() is None:
            try:
                self.client = docker.APIClient(self.url, version="auto", timeout=60)
                return
            except docker.errors.DockerException:
                time.sleep(0.1)
        raise RuntimeError(f"dockerd did not come up:\n{(self.folder / 'log').read_text()[-4000:]}")

    def inside(self, *command: str | os.PathLike[str]) -> list[str]:
        """The command line that runs `command` where the daemon runs."""
        return ["nsenter", f"--target={self.pid}", "--mount", "--pid", "--", *(os.fspath(each) for each in command)]

    def execute(self, container: str, *command: str, user: str = "", environment: dict[str, str] | None = None) -> str:
        """`docker exec`: what the command prints.

        Raises:
            AssertionError: it failed.
        """
        made = self.client.exec_create(container, list(command), user=user, environment=environment or {})
        output: bytes = self.client.exec_start(made["Id"])
        end = time.monotonic() + BOOT_TIMEOUT
        # Docker may have noted the end of what is printed before that of who prints it.
        while (state := self.client.exec_inspect(made["Id"]))["Running"] and time.monotonic() < end:
            time.sleep(0.05)
        assert state["ExitCode"] == 0, f"{state['ExitCode']}: {output.decode()}"
        return output.decode().strip()

    def spawner(self) -> dict[str, Any]:
        """Settings of DockerSpawner that run the tests' servers on this daemon."""
        python = {sys.prefix, sys.base_prefix, *hami_hub.__path__, *(path for path in sys.path if Path(path).is_dir())}
        mounts = {*(folder for folder in _FOLDERS if Path(folder).exists()), *python}
        return {
            "client_kwargs": {"base_url": self.url},
            "image": IMAGE,
            "network_name": NETWORK,
            "read_only_volumes": {path: path for path in sorted(mounts)},
            # the fake server ends itself, which PID 1 of a container can't
            "extra_host_config": {"init": True},
            "extra_create_kwargs": {"user": str(PEOPLE_UID)},
            "environment": {"HOME": "/home"},
        }

    def stop(self) -> None:
        """End the daemon and all that runs in it, and leave nothing behind.  Harmless when not running."""
        if self._process is not None:
            # Who started PID 1 ends when that has ended, and all that ran in there with it.
            if self.pid and self._process.poll() is None:
                os.kill(self.pid, signal.SIGKILL)
            else:
                self._process.kill()
            self._process.wait(BOOT_TIMEOUT)
        subprocess.run(["ip", "link", "delete", self.bridge], capture_output=True, env={"PATH": _PATH})
        for groups in cgroups(self.folder.name):
            for group, _, _ in os.walk(groups, topdown=False):
                os.rmdir(group)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.pid, self._process = 0, None

    def __enter__(self) -> DockerDaemon:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _daemon(self) -> list[str]:
        kind = subprocess.run(
            ["stat", "-f", "-c", "%T", self.folder], capture_output=True, text=True, check=True
        ).stdout
        options = {
            "host": self.url,
            "config-file": self.folder / "daemon.json",
            "data-root": self.folder / "data",
            "exec-root": self.folder / "exec",
            "pidfile": self.folder / "docker.pid",
            "cgroup-parent": f"/{self.folder.name}",
            "bridge": "none",
            "iptables": "false",
            "ip6tables": "false",
            "ip-masq": "false",
            "ip-forward": "false",
            "storage-driver": "vfs" if "overlay" in kind else "overlay2",  # one overlay can't lie on another
            "log-level": "warn",
        }
        return ["dockerd", *(f"--{key}={value}" for key, value in options.items())]

    def _make_network(self) -> None:
        _remove_bridges_of_the_dead()
        # Docker knows its own networks, and not those of another test run's daemon.
        taken = subprocess.run(["ip", "-4", "-o", "address"], capture_output=True, text=True, check=True).stdout
        subnet = next(f"198.18.{number}" for number in range(256) if f" 198.18.{number}." not in taken)
        self.gateway = f"{subnet}.1"
        pool = docker.types.IPAMPool(subnet=f"{subnet}.0/24", gateway=self.gateway)
        self.client.create_network(
            NETWORK,
            driver="bridge",
            options={"com.docker.network.bridge.name": self.bridge},
            ipam=docker.types.IPAMConfig(pool_configs=[pool]),
        )


@functools.cache
def why_not() -> str | None:
    """One sentence on why no dockerd can be started here, or None when it can."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        return "Only root on Linux may start a Docker daemon: run the tests as root for this part."
    missing = [tool for tool in TOOLS if shutil.which(tool, path=f"{os.environ['PATH']}:{_PATH}") is None]
    if missing:
        return f"{missing[0]} is not installed: install docker.io, iproute2 and util-linux."
    make = f"mount -t tmpfs tmpfs /mnt && ip link add {_BRIDGE}-try type bridge && ip link delete {_BRIDGE}-try"
    done = subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "sh", "-c", make], capture_output=True, text=True, env={"PATH": _PATH}
    )
    if done.returncode:
        return f"This machine forbids what a Docker daemon needs ({done.stderr.strip() or 'no reason given'})."
    return None


def _remove_bridges_of_the_dead() -> None:
    """Of test runs that were killed."""
    for path in Path("/sys/class/net").glob(f"{_BRIDGE}[0-9]*"):
        if not Path(f"/proc/{path.name.removeprefix(_BRIDGE)}").exists():
            subprocess.run(["ip", "link", "delete", path.name], capture_output=True, env={"PATH": _PATH})


def _image() -> bytes:
    """A root folder as a tar: no programs, and accounts of its own."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name in ("etc", "home", "tmp", "run", "var/tmp", "dev", "proc", "sys"):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if name in ("home", "tmp", "var/tmp") else 0o755
            tar.addfile(entry)
        for name in _ETC:
            if Path("/etc", name).exists():
                tar.add(f"/etc/{name}", f"etc/{name}")
        texts = {
            "passwd": f"root:x:0:0::/root:/bin/sh\nperson:x:{PEOPLE_UID}:{PEOPLE_UID}::/home:/bin/sh\n",
            "shadow": "root:*:19000:0:99999:7:::\nperson:*:19000:0:99999:7:::\n",
            "group": f"root:x:0:\nperson:x:{PEOPLE_UID}:\n",
        }
        for name, text in texts.items():
            entry = tarfile.TarInfo(f"etc/{name}")
            entry.size, entry.mode = len(text), 0o644
            tar.addfile(entry, io.BytesIO(text.encode()))
    return buffer.getvalue()
