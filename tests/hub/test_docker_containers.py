"""Containers of a real Docker daemon: who comes in by another door meets the same slice, and nothing leads out."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("dockerspawner", reason="dockerspawner is not installed")

import docker
import requests
from docker_daemon import IMAGE, DockerDaemon
from hub_process import Failed, Hub
from shapes import SHAPES
from test_starting import DRIVER, OUT_OF_MEMORY, QUARTER

from hami_hub.spawner import docker_host, processes
from hami_hub.spawner.docker import GpuDockerSpawner

pytestmark = pytest.mark.docker

HELD = f"1 4096 0 0 {OUT_OF_MEMORY}"
CONTAINER = "jupyter-alice"
NVIDIA_MAJOR = 195


@pytest.fixture(scope="module")
def alices(daemon: DockerDaemon) -> Iterator[Hub]:
    """A hub on which Alice has a quarter of the card."""
    with Hub(spawner=SHAPES["docker"], container=daemon, DockerSpawner=daemon.spawner()) as hub:
        hub.start("alice", QUARTER)
        yield hub


def bare(hub: Hub) -> list[str]:
    """`env -i`, with as little as a program can do with and still meet the simulated driver."""
    kept = ("LD_LIBRARY_PATH", "HAMI_SIM_DIR", "HAMI_SIM_PROFILE", "HAMI_SIM_CARDS")
    environment = hub.call("alice", "env")
    return ["env", "-i", *(f"{name}={environment[name]}" for name in kept)]


# --- who comes in by another door ------------------------------------------------------------------------------------


@pytest.mark.parametrize("user", ["0", "20000", "4711"], ids=["root", "the user", "somebody else"])
def test_docker_exec_meets_the_slice(alices: Hub, daemon: DockerDaemon, user: str) -> None:
    assert daemon.execute(CONTAINER, *bare(alices), sys.executable, "-c", DRIVER, user=user) == HELD


def test_su_meets_the_slice(alices: Hub, daemon: DockerDaemon) -> None:
    code = DRIVER.replace('"', '\\"')
    command = f'{" ".join(bare(alices))} {sys.executable} -c "{code}"'
    assert daemon.execute(CONTAINER, "su", "person", "-c", command, user="0") == HELD


WAYS_OUT = {
    "unmount": "umount /etc/ld.so.preload",
    "mount over it": "mount --bind /dev/null /etc/ld.so.preload",
    "remount": "mount -o remount,bind,rw /run/hami/slice",
    "write": "echo > /etc/ld.so.preload",
    "remove": "rm -f /etc/ld.so.preload",
    "another root": "chroot / true",
    "user namespace": "unshare -Urm true",
    "the limits": "echo > /run/hami/slice/limits",
    "the library": "echo > /run/hami/libvgpu.so",
}


@pytest.mark.parametrize("way", WAYS_OUT.values(), ids=WAYS_OUT)
@pytest.mark.parametrize("user", ["0", "20000"], ids=["root", "the user"])
def test_nobody_in_a_container_gets_rid_of_the_limiter(alices: Hub, daemon: DockerDaemon, user: str, way: str) -> None:
    said = daemon.execute(CONTAINER, "sh", "-c", f"({way}) 2>/dev/null && echo done || echo refused", user=user)
    assert said == "refused"
    assert daemon.execute(CONTAINER, "cat", "/etc/ld.so.preload") == "/run/hami/libvgpu.so"


def test_who_gets_around_the_limiter_is_told_by_the_container_they_are_in(alices: Hub, daemon: DockerDaemon) -> None:
    if os.uname().machine != "x86_64":
        pytest.skip("The linker of this machine has another name.")
    # A linker of one's own, which doesn't know the file: no preload can stop that.
    make = """
import os
linker = open("/lib64/ld-linux-x86-64.so.2", "rb").read().replace(b"/etc/ld.so.preload", b"/etc/ld.so.nothing")
open("/tmp/linker", "wb").write(linker)
os.chmod("/tmp/linker", 0o755)
"""
    hold = DRIVER + "\nimport time; print('', flush=True); time.sleep(600)"
    hub = alices
    hub.run("alice", make)
    environment = {**hub.call("alice", "env"), "HAMI_SLICE_DIR": "/nowhere"}
    run = f"import os; os.execve('/tmp/linker', ['/tmp/linker', {sys.executable!r}, '-c', {hold!r}], {environment!r})"
    pid, said = hub.begin_process("alice", run)
    try:
        assert said.endswith(" 0 0"), "the way around is none"
        command = [sys.executable, "-m", "hami_hub.cli", "smi", "--escapes", "--slices", str(hub.slice_root)]
        told = subprocess.run(
            daemon.inside("env", *(f"{key}={value}" for key, value in hub._environment.items()), *command),
            capture_output=True,
            text=True,
        )
        assert re.search(
            rf"^alice/ holds \d+ MiB of the card .* process {pid} got around the limiter\.$", told.stdout
        ), told.stdout + told.stderr
    finally:
        hub.inside("kill", "-9", str(pid))


# --- settings ---------------------------------------------------------------------------------------------------------


REFUSED = {
    "privileged": ({"privileged": True}, "would be privileged"),
    "capability": ({"cap_add": ["SYS_ADMIN"]}, "would have the capability SYS_ADMIN"),
    "capability, long name": ({"cap_add": ["NET_RAW", "cap_sys_chroot"]}, "would have the capability SYS_CHROOT"),
    "all capabilities": ({"cap_add": ["ALL"]}, "would have the capability ALL"),
    "no seccomp": ({"security_opt": ["seccomp=unconfined"]}, "would have no seccomp profile"),
    "no seccomp, old form": ({"security_opt": ["seccomp:unconfined"]}, "would have no seccomp profile"),
}


@pytest.mark.parametrize(("config", "why"), REFUSED.values(), ids=REFUSED)
def test_settings_that_lead_out_of_a_slice(config: dict[str, object], why: str) -> None:
    assert docker_host.way_out(config) == (
        f"Your server was not started: its container {why}, and could leave its slice. Ask an admin to put it right."
    )


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"cap_add": ["NET_ADMIN"], "cap_drop": ["ALL"]},
        {"security_opt": ["no-new-privileges", "seccomp=/etc/mine.json"]},
        {"privileged": False, "cap_add": None, "security_opt": None},
    ],
)
def test_settings_that_do_not(config: dict[str, object]) -> None:
    assert docker_host.way_out(config) == ""
    assert docker_host.held(config)["cap_drop"][-1] == "SYS_CHROOT"


def test_a_container_that_could_leave_its_slice_is_not_started(daemon: DockerDaemon) -> None:
    config = {**daemon.spawner(), "extra_host_config": {"init": True, "privileged": True}}
    with Hub(spawner=SHAPES["docker"], container=daemon, DockerSpawner=config) as hub:
        with pytest.raises(Failed) as refused:
            hub.start("bob", QUARTER)
        assert str(refused.value) == (
            "Your server was not started: its container would be privileged, and could leave its slice. "
            "Ask an admin to put it right."
        )
        assert hub.held() == {}
        assert "Traceback" not in hub.log.read_text()


def test_an_image_that_can_not_be_had_is_named(daemon: DockerDaemon) -> None:
    config = {**daemon.spawner(), "image": "hami-nowhere:1", "pull_policy": "never"}
    with Hub(spawner=SHAPES["docker"], container=daemon, DockerSpawner=config) as hub:
        with pytest.raises(Failed, match=r"^Your server was not started: its image hami-nowhere:1 can't be had\."):
            hub.start("bob", QUARTER)
        assert hub.held() == {}
        assert "Traceback" not in hub.log.read_text()


def test_a_daemon_that_does_not_answer_is_said_to(daemon: DockerDaemon) -> None:
    config = {**daemon.spawner(), "client_kwargs": {"base_url": "unix:///nowhere/docker.sock"}}
    with Hub(spawner=SHAPES["docker"], container=daemon, DockerSpawner=config) as hub:
        with pytest.raises(Failed, match=r"^Docker doesn't answer, so your server was not started\."):
            hub.start("bob", QUARTER)
        hub.until_held()
        assert hub.alive


def test_a_container_that_is_kept_is_never_used_again(daemon: DockerDaemon) -> None:
    config = {**daemon.spawner(), "remove": False}
    with Hub(spawner=SHAPES["docker"], container=daemon, DockerSpawner=config) as hub:
        hub.start("bob", QUARTER)
        first = daemon.client.inspect_container("jupyter-bob")
        hub.stop("bob")
        hub.until_held()
        assert daemon.client.inspect_container("jupyter-bob")["State"]["Status"] == "exited"
        hub.start("bob", {"profile": "half"})
        assert daemon.client.inspect_container("jupyter-bob")["Id"] != first["Id"]
        assert hub.run("bob", DRIVER) == "1 8192 0 0 0"
        hub.stop("bob")
    daemon.client.remove_container("jupyter-bob", force=True)


def test_the_admins_own_mounts_and_settings_are_kept(daemon: DockerDaemon, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "note").write_text("kept\n")
    config = {
        **daemon.spawner(),
        "mounts": [{"type": "bind", "source": str(tmp_path), "target": "/notes/{username}", "read_only": True}],
        "extra_host_config": {"init": True, "cap_drop": ["NET_RAW"], "shm_size": 1 << 20},
    }
    with Hub(spawner=SHAPES["docker"], container=daemon, DockerSpawner=config) as hub:
        hub.start("bob", QUARTER)
        assert hub.run("bob", "print(open('/notes/bob/note').read())") == "kept"
        made = daemon.client.inspect_container("jupyter-bob")["HostConfig"]
        assert (made["CapDrop"], made["ShmSize"]) == (["NET_RAW", "SYS_CHROOT"], 1 << 20)
        hub.stop("bob")


# --- a server's end --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("late", ["shim", "daemon"])
def test_a_server_that_died_is_seen_to_though_docker_has_not_heard_of_it(daemon: DockerDaemon, late: str) -> None:
    with Hub(spawner=SHAPES["docker"], container=daemon, DockerSpawner=daemon.spawner()) as hub:
        hub.start("bob", QUARTER)
        first = str(daemon.client.inspect_container("jupyter-bob")["State"]["Pid"])
        shim = hub.inside("cut", "-d ", "-f4", f"/proc/{first}/stat").strip()
        stopped = shim if late == "shim" else (daemon.folder / "docker.pid").read_text()
        hub.inside("kill", "-STOP", stopped)
        try:
            hub.inside("kill", "-KILL", first)
            hub.until_stopped("bob")
        finally:
            hub.inside("kill", "-CONT", stopped)
        hub.until_held()
        hub.start("bob", QUARTER)
        hub.stop("bob")
        assert "Traceback" not in hub.log.read_text()


# --- cards ------------------------------------------------------------------------------------------------------------


def test_a_container_has_its_own_cards_device_and_no_other(daemon: DockerDaemon, tmp_path: Path) -> None:
    for minor, name in ((0, "nvidia0"), (1, "nvidia1"), (255, "nvidiactl")):
        os.mknod(tmp_path / name, 0o666 | stat.S_IFCHR, os.makedev(NVIDIA_MAJOR, minor))
    config = docker_host.with_files(docker_host.held({}), [1], tmp_path)
    binds = [f"{path}:{path}:ro" for path in ("/usr", "/lib", "/lib64", "/bin") if Path(path).exists()]
    made = daemon.client.create_host_config(network_mode="none", binds=binds, init=True, **config)
    name = daemon.client.create_container(IMAGE, ["sleep", "600"], host_config=made, user="0")["Id"]
    daemon.client.start(name)
    try:
        assert daemon.execute(name, "sh", "-c", "ls /dev | grep nvidia | xargs") == "nvidia1 nvidiactl"
        tries = "".join(
            f"(: < {path}) 2>&1 | grep -oE 'not permitted|No such device' || echo opened; "
            for path in ("/dev/nvidia1", "/tmp/nvidia0")
        )
        said = daemon.execute(name, "sh", "-c", f"mknod /tmp/nvidia0 c {NVIDIA_MAJOR} 0; {tries}")
        # there is no driver behind the one, and no way to the other
        assert said.splitlines() == ["No such device", "not permitted"]
    finally:
        daemon.client.remove_container(name, force=True)


def test_the_runtime_is_asked_for_just_the_slices_cards() -> None:
    mine = {"Driver": "other", "Capabilities": [["fast"]]}
    everything = {"driver": "nvidia", "count": -1, "capabilities": [["gpu"]]}
    config = docker_host.with_runtime({"device_requests": [mine, everything]}, ["GPU-1", "GPU-2"])
    asked = {"Driver": "nvidia", "DeviceIDs": ["GPU-1", "GPU-2"], "Capabilities": [["gpu", "compute", "utility"]]}
    assert config["device_requests"] == [mine, asked]
    assert docker_host.with_runtime({"device_requests": [everything]}, [])["device_requests"] == []
    made = docker.types.HostConfig(version="1.41", **config)
    assert made["DeviceRequests"][1]["DeviceIDs"] == ["GPU-1", "GPU-2"]


def test_without_a_card_there_is_no_device(tmp_path: Path) -> None:
    (tmp_path / "nvidiactl").symlink_to("/dev/null")
    assert docker_host.with_files({"devices": ["/dev/fuse"]}, [], tmp_path) == {"devices": ["/dev/fuse"]}


@pytest.mark.parametrize(
    ("runtimes", "there"), [({"nvidia": {}, "runc": {}}, True), ({"runc": {}}, False), (None, False)]
)
def test_the_runtime_is_found_by_what_docker_says(runtimes: object, there: bool) -> None:
    assert docker_host.has_runtime({"Runtimes": runtimes}) is there


# --- the real server --------------------------------------------------------------------------------------------------


def test_a_kernel_of_the_real_server_in_a_container_is_held_to_the_slice(daemon: DockerDaemon) -> None:
    pytest.importorskip("jupyterlab")
    real = {"cmd": [sys.executable, "-m", "jupyterhub.singleuser"], "http_timeout": 120}
    hub = Hub(spawner=SHAPES["docker"], container=daemon, DockerSpawner={**daemon.spawner(), **real})
    port = hub.settings["hub_url"].rpartition(":")[2]
    hub.settings["config"]["JupyterHub"] = {
        "hub_bind_url": f"http://0.0.0.0:{port}",
        "hub_connect_url": f"http://{daemon.gateway}:{port}",
    }
    with hub:
        hub.start("alice", QUARTER)
        assert hub.run_in_kernel("alice", DRIVER) == HELD


# --- without a daemon -------------------------------------------------------------------------------------------------


AWAY = requests.ConnectionError()
HANGS = requests.ReadTimeout()
IN_TROUBLE = docker.errors.APIError("", response=SimpleNamespace(status_code=500, reason="", url=""))


class Away(GpuDockerSpawner):
    """Docker doesn't answer, or nothing of use."""

    answer: Exception

    async def docker(self, method: str, *args: object, **kwargs: object) -> None:
        raise self.answer


def away(answer: Exception) -> Away:
    spawner = Away(user=SimpleNamespace(name="alice", groups=[], settings={}), hub=SimpleNamespace())
    spawner.answer, spawner.object_id = answer, "made"
    return spawner


@pytest.fixture
def running() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()


@pytest.mark.parametrize("answer", [AWAY, HANGS, IN_TROUBLE], ids=["away", "hangs", "in trouble"])
async def test_while_docker_is_away_a_server_is_seen_by_its_process(
    running: subprocess.Popen[bytes], answer: Exception
) -> None:
    spawner = away(answer)
    spawner._server_process = processes.mark(running.pid)
    assert await spawner.poll() is None
    running.kill()
    running.wait()
    assert await spawner.poll() == 0


@pytest.mark.parametrize("answer", [AWAY, HANGS, IN_TROUBLE], ids=["away", "hangs", "in trouble"])
async def test_while_docker_is_away_a_server_that_nobody_sees_is_not_taken_for_dead(answer: Exception) -> None:
    spawner = away(answer)
    assert await spawner.poll() is None
    spawner.answer = docker.errors.NotFound("")
    assert await spawner.poll() == 0
    assert spawner.get_state().get("object_id") is None
