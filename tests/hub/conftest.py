"""One hub for each shape, shared by all the tests that don't need one of their own; each test finds it empty."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import docker_daemon
import pytest
from docker_daemon import DockerDaemon
from hub_process import Hub
from left import left_empty, left_without_traceback
from quota_hub import QuotaHub
from shapes import MARKS, SHAPES
from systemd_container import SystemdContainer, why_not

from hami_hub import native

PEOPLE = [
    *("alice", "bob", "carol", "rita", "dies", "mute", "slow", "noprogram", "homeless"),
    *(f"user{number}" for number in range(20)),
]
FIRST_UID = 20000


@pytest.fixture(scope="session", autouse=True)
def _natives() -> None:
    try:
        native.sim_folder()
    except native.NativeMissingError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def machine() -> Iterator[SystemdContainer]:
    """A machine with accounts of its own, on which units can be started."""
    if reason := why_not():
        pytest.skip(reason)
    with tempfile.TemporaryDirectory(prefix="hami-homes-") as homes, SystemdContainer() as container:
        Path(homes).chmod(0o755)
        accounts = groups = ""
        for uid, name in enumerate(PEOPLE, FIRST_UID):
            home = Path(homes) / name
            home.mkdir()
            if name != "homeless":
                container.run("chown", str(uid), str(home), check=True)
            accounts += f"{name}:x:{uid}:{uid}::{home}:/bin/sh\n"
            groups += f"{name}:x:{uid}:\n"
        container.run("sh", "-c", "cat >> /etc/passwd", input=accounts, check=True)
        container.run("sh", "-c", "cat >> /etc/group", input=groups, check=True)
        yield container


@pytest.fixture(scope="session")
def daemon() -> Iterator[DockerDaemon]:
    """A Docker daemon of the tests' own."""
    if reason := docker_daemon.why_not():
        pytest.skip(reason)
    with DockerDaemon() as started:
        yield started


@pytest.fixture(scope="session", params=[pytest.param(shape, marks=MARKS.get(shape, ())) for shape in SHAPES])
def shape(request: pytest.FixtureRequest) -> str:
    if request.param == "systemd":
        pytest.importorskip("systemdspawner")
    return str(request.param)


@pytest.fixture(scope="session")
def shared_hub(shape: str, request: pytest.FixtureRequest) -> Iterator[Hub]:
    config: dict[str, dict[str, Any]] = {}
    container: Any = None
    if shape == "docker":
        container = request.getfixturevalue("daemon")
        config["DockerSpawner"] = container.spawner()
    elif shape != "simple":
        container = request.getfixturevalue("machine")
    with Hub(spawner=SHAPES[shape], container=container, **config) as hub:
        yield hub


@pytest.fixture
def hub(shared_hub: Hub) -> Iterator[Hub]:
    """A running hub on which nobody has a server."""
    with left_without_traceback(shared_hub), left_empty(shared_hub):
        yield shared_hub


@pytest.fixture(scope="session")
def shared_patient_hub() -> Iterator[QuotaHub]:
    with QuotaHub(spawner=SHAPES["simple"], patient=True) as hub:
        yield hub


@pytest.fixture
def patient_hub(shared_patient_hub: QuotaHub) -> Iterator[QuotaHub]:
    """A running hub on which nobody has a server, whose forms wait for what comes of a start."""
    with left_without_traceback(shared_patient_hub), left_empty(shared_patient_hub):
        yield shared_patient_hub


@pytest.fixture
async def fake_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Any]:
    """An API server and a scheduler that do what the test says; spawners made meanwhile find it."""
    kubespawner = pytest.importorskip("kubespawner", reason="jupyterhub-kubespawner is not installed")
    from fake_cluster import FakeCluster
    from kubespawner import clients

    from hami_hub.spawner import GpuSlices
    from hami_hub.spawner.kube import GpuCluster

    with FakeCluster(tmp_path) as cluster:
        # read from the environment at its first import only
        monkeypatch.setattr(
            "kubernetes_asyncio.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(cluster.kubeconfig)
        )
        clients.load_config.cache_clear()
        yield cluster
        await kubespawner.KubeSpawner._stop_all_reflectors()
        for singleton in (GpuSlices, GpuCluster):
            singleton.clear_instance()
        clients.load_config.cache_clear()
        # As the hub does when it ends: clients close themselves then.
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)


@pytest.fixture
async def slices() -> AsyncIterator[Any]:
    """`GpuSlices` with a slice root of its own, for spawners without a hub."""
    from hami_hub.spawner import GpuSlices

    shm = Path(tempfile.mkdtemp(prefix="hami-test-", dir="/dev/shm"))
    GpuSlices.clear_instance()
    made = GpuSlices.instance(slice_root=str(shm / "slices"), journal_url="")
    yield made
    GpuSlices.clear_instance()
    made.allocator.root.close()
    shutil.rmtree(shm)


@pytest.fixture
async def start(fake_cluster: Any) -> AsyncIterator[Callable[..., Any]]:
    """`start(kind, KubeSpawner={…})`: a spawner on the fake cluster."""
    from kube_start import Start

    made: list[Start] = []

    def make(*args: Any, **config: Any) -> Start:
        made.append(Start(fake_cluster, *args, **config))
        return made[-1]

    yield make
    fake_cluster.away = False
    for each in made:
        await each.end()
