"""Servers are stopped when their time is over, also by the next hub; and those who wait take turns by groups."""

from __future__ import annotations

import mmap
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace

import pytest
from left import left_empty
from quota_hub import QuotaHub
from shapes import SHAPES

from hami_hub.core.cards import CardUuid
from hami_hub.core.history import Start, StartState
from hami_hub.core.slices import CardShare, Placement, SliceId
from hami_hub.core.units import Mib, Percent
from hami_hub.slicepage import create_slice, layout
from hami_hub.spawner.allocator import PlacedSlice
from hami_hub.spawner.booked import Booked
from hami_hub.spawner.local import GpuSimpleLocalProcessSpawner

SMALL = {"profile": "small"}


@pytest.fixture(scope="module")
def shared() -> Iterator[QuotaHub]:
    with QuotaHub(spawner=SHAPES["simple"]) as hub:
        yield hub


@pytest.fixture
def hub(shared: QuotaHub) -> Iterator[QuotaHub]:
    with left_empty(shared):
        yield shared
    shared.delete_groups()


def ended(hub: QuotaHub, user: str, begun: float) -> Start:
    """The start that somebody asked for since then, when its server is gone."""

    def gone(starts: list[Start]) -> list[Start]:
        return [start for start in starts if start.user == user and not start.state.open]

    [start] = gone(hub.journal(lambda starts: bool(gone(starts)), since=begun))
    return start


def test_a_server_is_stopped_at_the_end_of_its_lifetime_and_gives_its_slice_back(hub: QuotaHub) -> None:
    hub.group("ml", "alice", "bob", max_lifetime="3s", servers="1")
    begun = time.time()
    hub.start("alice", SMALL)
    hub.until_stopped("alice")
    hub.until_held()
    start = ended(hub, "alice", begun)
    assert (start.state, start.reason, start.words) == (
        StartState.ENDED, "hami-lifetime", "The server was stopped: its 3 seconds were over.",
    )  # fmt: skip
    assert start.started_at is not None
    assert start.ended_at is not None
    assert start.until == pytest.approx(start.started_at + 3)
    assert start.ended_at >= start.until
    hub.start("bob", SMALL)


def test_the_next_hub_keeps_to_what_a_server_was_started_under(hub: QuotaHub) -> None:
    hub.group("ml", "alice", max_lifetime="20s")
    begun = time.time()
    hub.start("alice", SMALL)
    hub.properties("ml", {"hami.max-lifetime": "8h"})
    hub.kill()
    hub.begin()
    hub.until_stopped("alice")
    hub.until_held()
    assert ended(hub, "alice", begun).reason == "hami-lifetime"


def test_a_server_that_nobody_uses_is_stopped(hub: QuotaHub) -> None:
    hub.group("ml", "alice", idle_timeout="2s")
    begun = time.time()
    hub.start("alice", SMALL)
    hub.until_stopped("alice")
    start = ended(hub, "alice", begun)
    assert (start.reason, start.words) == (
        "hami-idle", "The server was stopped: nobody had used it for 2 seconds.",
    )  # fmt: skip


def test_who_waits_is_told_when_a_time_limit_frees_what_they_want_and_gets_it_then(hub: QuotaHub) -> None:
    hub.group("ml", "alice", "bob", max_lifetime="25s")
    hub.start("alice", {"profile": "whole"})
    hub.ask("bob", {"profile": "half"})
    assert hub.until_waiting("bob").endswith("15 GiB of it come free within 1 minute, when a server's time is over.")
    hub.until_started("bob")
    assert "alice" not in hub.held()


def test_groups_take_turns_by_what_they_have_had(hub: QuotaHub) -> None:
    hub.group("much", "alice", "bob", weight="1")
    hub.group("little", "carol", weight="1")
    hub.start("alice", {"profile": "whole"})
    hub.ask("bob", {"profile": "whole"})
    assert hub.until_waiting("bob").startswith("You are 1st in line.")
    hub.ask("carol", {"profile": "whole"})
    assert hub.until_waiting("carol").startswith("You are 1st in line.")
    hub.stop("alice")
    hub.until_started("carol")
    assert list(hub.held()) == ["carol"]
    hub.stop("carol")
    hub.until_started("bob")


def test_a_profile_may_have_a_lifetime_without_any_quota() -> None:
    profiles = [{"name": "brief", "vram": "1 GiB", "max_lifetime": "2s"}, {"name": "cpu", "gpu": False}]
    with QuotaHub(spawner=SHAPES["simple"], GpuSlices={"profiles": profiles}) as hub:
        hub.start("alice", {"profile": "brief"})
        hub.until_stopped("alice")
        hub.until_held()


# --- when a server was last used ------------------------------------------------------------------------------------


def test_activity_that_the_hub_knows_of_is_use() -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5)  # as the hub's database has it
    told = SimpleNamespace(orm_spawner=SimpleNamespace(last_activity=moment))
    assert Booked.last_used(told) == moment.replace(tzinfo=timezone.utc).timestamp()  # type: ignore[arg-type]
    assert Booked.last_used(SimpleNamespace(orm_spawner=None)) == 0.0  # type: ignore[arg-type]


def test_work_on_the_card_is_use(tmp_path: Path) -> None:
    holder = SliceId("alice/")
    placement = Placement((CardShare(CardUuid("GPU-0"), Mib(1024), Percent(25)),))
    directory = tmp_path / "slice"
    create_slice(directory, name=holder, placement=placement, tenant=None, ring=tmp_path / "ring", mounted=False)
    user = SimpleNamespace(name="alice", settings={}, url="/user/alice/", escaped_name="alice", id=1)
    server = GpuSimpleLocalProcessSpawner(user=user)
    server._placed = PlacedSlice(holder, directory, placement)
    assert server.last_used() == 0.0
    with (directory / layout.USAGE_FILE).open("r+b") as file, mmap.mmap(file.fileno(), 0) as page:
        usage = layout.Usage.from_buffer(page)
        usage.cards[0].last_launch_ns = time.monotonic_ns() - 10**10
        del usage
    assert server.last_used() == pytest.approx(time.time() - 10, abs=5)
    # A tenant may write anything there; never a time to come.
    with (directory / layout.USAGE_FILE).open("r+b") as file, mmap.mmap(file.fileno(), 0) as page:
        usage = layout.Usage.from_buffer(page)
        usage.cards[0].last_launch_ns = 2**64 - 1
        del usage
    assert server.last_used() <= time.time()
    (directory / layout.USAGE_FILE).write_bytes(b"rubbish")
    assert server.last_used() == 0.0
