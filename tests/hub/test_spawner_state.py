"""What a spawner makes of the state that the hub kept of it, without a hub."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from jupyterhub import orm
from jupyterhub.spawner import LocalProcessSpawner, SimpleLocalProcessSpawner, Spawner

from hami_hub.core.slices import CardPolicy, SliceRequest
from hami_hub.core.units import Mib
from hami_hub.spawner import GpuSlices, processes
from hami_hub.spawner.gpu_slices import GpuSlicesMixin
from hami_hub.spawner.local import GpuLocalProcessSpawner, GpuSimpleLocalProcessSpawner
from hami_hub.spawner.machine import MachineSlicesMixin

PLACEMENT = {
    "node": "",
    "priority": 1,
    "policy": "default",
    "oom_killer": False,
    "shares": [{"uuid": "GPU-1", "vram_mib": 4096, "cores": 25, "exclusive": False, "whole": False}],
}


SERVED = orm.Server(proto="http", ip="127.0.0.1", port=9, base_url="/user/alice/", cookie_name="")


def spawner(*, server: orm.Server | None) -> Any:
    user = SimpleNamespace(name="alice", groups=[], settings={})
    made = GpuSimpleLocalProcessSpawner(user=user, hub=SimpleNamespace())
    made.orm_spawner = SimpleNamespace(name="", server=server, server_id=1, user_options=None)
    return made


def state(slices: GpuSlices, process: processes.ProcessMark) -> dict[str, Any]:
    server = [process.pid, process.started]
    directory = str(Path(slices.slice_root) / "alice-1")
    return {"pid": process.pid, "hami": {"directory": directory, "placement": PLACEMENT, "server": server}}


@pytest.fixture
def running() -> Iterator[processes.ProcessMark]:
    with subprocess.Popen(["sleep", "1000"]) as process:
        found = processes.mark(process.pid)
        assert found is not None
        yield found
        process.kill()


async def test_a_running_server_is_taken_up_with_its_slice(slices: GpuSlices, running: processes.ProcessMark) -> None:
    alice = spawner(server=SERVED)
    saved = state(slices, running)
    alice.load_state(saved)
    assert [str(holder) for holder in slices.allocator._ledger.holders] == ["alice/"]
    assert alice.get_state() == saved
    assert await alice.poll() is None
    alice._stop_watching()


async def test_what_is_saved_of_a_stopped_server_is_nobodys_slice(
    slices: GpuSlices, running: processes.ProcessMark
) -> None:
    alice = spawner(server=None)
    alice.load_state(state(slices, running))
    assert not slices.allocator._ledger.holders


@pytest.mark.parametrize("saved", [{}, {"unit_name": "jupyter-alice-singleuser", "hami": None}])
async def test_a_start_that_the_hub_did_not_live_to_see_the_end_of_is_no_running_server(
    slices: GpuSlices, saved: dict[str, Any]
) -> None:
    alice = spawner(server=SERVED)
    alice.load_state(saved)
    assert await alice.poll() == 1
    assert not slices.allocator._ledger.holders


@pytest.mark.parametrize(
    "saved",
    [
        {"pid": 0},
        {"hami": {}},
        {"hami": 7},
        {"hami": {"directory": "/x", "placement": {"shares": 1}, "server": None}},
    ],
)
async def test_state_that_can_not_be_understood_is_no_slice(slices: GpuSlices, saved: dict[str, Any]) -> None:
    alice = spawner(server=SERVED)
    alice.load_state(saved)
    assert not slices.allocator._ledger.holders
    assert await alice.poll() == 0


async def test_a_pid_that_is_somebody_elses_by_now_is_never_touched(
    slices: GpuSlices, running: processes.ProcessMark
) -> None:
    alice = spawner(server=SERVED)
    alice.load_state(state(slices, processes.ProcessMark(running.pid, running.started - 1)))
    assert await alice.poll() == 0
    await alice.stop()
    assert processes.runs(running)
    assert not slices.allocator._ledger.holders


async def test_wrong_settings_end_no_server(running: processes.ProcessMark) -> None:
    GpuSlices.clear_instance()
    alice = spawner(server=SERVED)
    alice.config.GpuSlices.profiles = [{"name": "x", "vram": "lots"}]
    alice.load_state({"pid": running.pid, "hami": {"directory": "/x", "placement": PLACEMENT, "server": None}})
    assert await alice.poll() is None
    alice.clear_state()
    assert processes.runs(running)


@pytest.mark.parametrize("mixin", [GpuSlicesMixin, MachineSlicesMixin])
def test_nothing_of_ours_hides_what_a_spawner_has_but_what_is_meant_to(mixin: type) -> None:
    meant = {
        *("start", "stop", "poll", "progress", "get_env", "get_state", "load_state", "clear_state"),
        *("options_from_query", "add_poll_callback", "__doc__", "__module__", "__annotations__"),
    }
    ours = {name for name in vars(mixin) if not name.startswith(("_trait", "_all_trait", "_static"))}
    theirs = {name for name in dir(Spawner) if name not in ("_descriptors", "_instance_inits")}
    assert ours & theirs <= meant


def test_the_spawners_are_what_they_say() -> None:
    assert issubclass(GpuLocalProcessSpawner, LocalProcessSpawner)
    assert not issubclass(GpuLocalProcessSpawner, SimpleLocalProcessSpawner)
    assert GpuSimpleLocalProcessSpawner.user_env is SimpleLocalProcessSpawner.user_env


async def test_admins_traits_reach_the_allocator(slices: GpuSlices) -> None:
    assert slices.offered[0].request is None
    assert slices.offered[1].request == SliceRequest(vram=Mib(2048), card_policy=CardPolicy.FGD)
    assert slices.allocator is slices.allocator
    assert os.path.dirname(slices.slice_root) == str(slices.allocator.root.path.parent)
