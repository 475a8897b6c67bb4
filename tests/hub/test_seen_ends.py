"""A server's end is seen by its process and told to the hub, whatever whoever manages it says; without a hub."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from jupyterhub import orm
from jupyterhub.spawner import Spawner

from hami_hub.spawner import machine, processes
from hami_hub.spawner.local import GpuSimpleLocalProcessSpawner
from hami_hub.spawner.machine import MachineSlicesMixin

SECONDS = 30.0


class Manager(Spawner):  # type: ignore[misc]
    """Servers are managed by somebody else, such as a daemon, who says of them what the test wants."""

    says: Callable[[], Awaitable[Any]]

    async def start(self) -> None:
        raise NotImplementedError

    async def stop(self, now: bool = False) -> None:
        raise NotImplementedError

    async def poll(self) -> Any:
        return await self.says()


class Managed(MachineSlicesMixin, Manager):
    """Ours, on top."""


async def it_runs() -> None:
    return None


async def it_ended() -> str:
    return "ExitCode=137"


async def trouble() -> None:
    raise RuntimeError("500 Server Error")


async def nothing() -> None:
    await asyncio.Event().wait()


pytestmark = pytest.mark.usefixtures("slices")


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_STATUS_SECONDS", 0.01)


class Hub:
    """What JupyterHub does of its own accord with a server that runs."""

    def __init__(self, spawner: Any) -> None:
        self.told = asyncio.Event()
        self.calls, self.failures = 0, 0
        self.spawner = spawner
        served = orm.Server(proto="http", ip="127.0.0.1", port=9, base_url="/user/alice/", cookie_name="")
        spawner.orm_spawner = SimpleNamespace(name="", server=served, server_id=1, user_options=None)
        spawner.add_poll_callback(self._stopped)

    async def _stopped(self) -> None:
        self.calls += 1
        if self.calls <= self.failures:
            raise RuntimeError("the proxy is away")
        self.spawner.orm_spawner.server = None
        self.spawner.clear_state()
        self.told.set()

    async def until_told(self) -> None:
        await asyncio.wait_for(self.told.wait(), SECONDS)


@pytest.fixture
async def running() -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec("sleep", "600")
    yield process
    if process.returncode is None:
        process.kill()
    await process.wait()


def spawner(kind: type, **settings: Any) -> Any:
    return kind(user=SimpleNamespace(name="alice", groups=[], settings={}), hub=SimpleNamespace(), **settings)


def end(pid: int) -> None:
    """Return when the process has ended, before the event loop hears of it."""
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


def managed(process: asyncio.subprocess.Process, says: Callable[[], Awaitable[Any]]) -> Any:
    made = spawner(Managed)
    made.says, made._server_process = says, processes.mark(process.pid)
    return made


@pytest.mark.parametrize("says", [it_runs, it_ended, trouble, nothing])
async def test_a_server_runs_as_long_as_its_process(
    running: asyncio.subprocess.Process, says: Callable[[], Awaitable[Any]]
) -> None:
    alice = managed(running, says)
    assert await alice.poll() is None
    running.kill()
    await running.wait()
    assert await alice.poll() == ("ExitCode=137" if says is it_ended else 0)


@pytest.mark.parametrize("says", [it_runs, it_ended, trouble, nothing])
async def test_the_hub_is_told_of_an_end_at_once(
    running: asyncio.subprocess.Process, says: Callable[[], Awaitable[Any]]
) -> None:
    alice = managed(running, says)
    hub = Hub(alice)
    alice.server_runs()
    running.kill()
    await hub.until_told()
    assert hub.calls == 1


async def test_how_a_server_ended_is_asked_once(running: asyncio.subprocess.Process) -> None:
    answers = iter(["ExitCode=137"])

    async def once() -> str:
        return next(answers)  # what could tell is removed then

    alice = managed(running, once)
    running.kill()
    await running.wait()
    assert [await alice.poll(), await alice.poll()] == ["ExitCode=137"] * 2


async def test_what_the_hub_failed_at_is_done_at_its_next_poll(running: asyncio.subprocess.Process) -> None:
    alice = managed(running, it_ended)
    alice.poll_interval = 1
    hub = Hub(alice)
    hub.failures = 2
    alice.server_runs()
    running.kill()
    await hub.until_told()
    assert hub.calls == 3
    assert not alice._callbacks
    alice.stop_polling()


async def test_who_else_asks_for_a_local_server_keeps_nothing_from_the_hub(tmp_path: Path) -> None:
    alice = spawner(GpuSimpleLocalProcessSpawner, cmd=["sleep", "600"], home_dir=str(tmp_path))
    alice.get_env = lambda: {"PATH": os.environ["PATH"]}
    alice.get_args = list
    await alice.their_start()
    alice._server_process = await alice.find_server()
    hub = Hub(alice)
    alice.server_runs()
    await asyncio.sleep(0)  # now it waits for the end
    end(alice.pid)
    assert await alice.poll() == -signal.SIGKILL  # as a page of the hub's does, before anything else is heard of it
    await hub.until_told()
