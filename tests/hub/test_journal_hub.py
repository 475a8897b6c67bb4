"""A real hub keeps its journal, through all that can befall it, and shows its slices to Prometheus and the CLI."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hub_process import Hub
from left import left_empty
from prometheus_client.parser import text_string_to_metric_families
from quota_hub import QuotaHub

from hami_hub.cli import main
from hami_hub.core.history import Start, StartState
from tests.hub_client import PATIENCE, Failed

GIB = 1024**3


@pytest.fixture(scope="module")
def own_hub() -> Iterator[QuotaHub]:
    with QuotaHub(spawner="hami-simple") as hub:
        yield hub


@pytest.fixture
def hub(own_hub: QuotaHub) -> Iterator[QuotaHub]:
    with left_empty(own_hub):
        yield own_hub


def until(hub: QuotaHub, user: str, condition: Callable[[Start], Any]) -> Start:
    """The newest start of a person, as soon as it is as it should be."""

    def newest(starts: list[Start]) -> list[Start]:
        return [each for each in starts if each.user == user][-1:]

    return newest(hub.journal(lambda starts: any(map(condition, newest(starts)))))[0]


def cli(hub: Hub, *arguments: str) -> Result:
    environment = {
        "JUPYTERHUB_API_URL": f"{hub.settings['hub_url']}/hub/api",
        "JUPYTERHUB_API_TOKEN": hub.settings["token"],
        "HAMI_JOURNAL_URL": f"sqlite:///{hub.folder}/hami-hub.sqlite",
    }
    return CliRunner().invoke(main, arguments, env=environment, catch_exceptions=False)


def metric(hub: Hub, name: str, **labels: str) -> float | None:
    for family in text_string_to_metric_families(hub.metrics()):
        for sample in family.samples:
            if sample.name == name and sample.labels == labels:
                return sample.value
    return None


def test_a_servers_life_stands_in_the_journal(hub: QuotaHub) -> None:
    before = time.time()
    hub.start("alice", {"profile": "small"})
    runs = until(hub, "alice", lambda start: start.state is StartState.RUNNING)
    assert (runs.profile, runs.cards, runs.vram, runs.cores, runs.group) == ("small", 1, 4096, 25, "")
    assert len(runs.placed) == 1
    assert runs.started_at is not None
    assert before <= runs.asked_at <= runs.started_at <= time.time()
    assert metric(hub, "hami_hub_slices", group="(default quota)", state="running") == 1
    assert metric(hub, "hami_hub_group_memory_used_bytes", group="(default quota)") == 4 * GIB
    hub.stop("alice")
    ended = until(hub, "alice", lambda start: not start.state.open)
    assert (ended.id, ended.state) == (runs.id, StartState.ENDED)
    assert ended.ended_at is not None
    used = json.loads(cli(hub, "usage", "--json", "--days", "1").output)
    assert [each["gib_hours"] > 0 for each in used if each["key"] == "alice"] == [True]


def test_a_server_without_a_gpu_stands_there_too(hub: QuotaHub) -> None:
    hub.start("bob", {"profile": "cpu"})
    runs = until(hub, "bob", lambda start: start.state is StartState.RUNNING)
    assert (runs.profile, runs.cards, runs.vram) == ("cpu", 0, 0)


def test_who_was_refused_and_what_was_said(hub: QuotaHub) -> None:
    with pytest.raises(Failed) as refused:
        hub.start("carol", {"profile": "no-such"})
    found = until(hub, "carol", lambda start: not start.state.open)
    assert (found.state, found.reason) == (StartState.REFUSED, "hami-unknown-profile")
    assert found.words in str(refused.value)
    assert metric(hub, "hami_hub_refusals_total", reason="hami-unknown-profile") == 1


def test_who_waits_stands_in_line_and_who_gives_up_has_cancelled(hub: QuotaHub) -> None:
    hub.start("alice", {"profile": "whole"})
    hub.ask("bob", {"profile": "small"})
    hub.until_waiting("bob")
    waits = until(hub, "bob", lambda start: start.state is StartState.WAITING)
    assert (waits.position, waits.started_at) == (1, None)
    assert waits.words.startswith("4 GiB · 25 % is not free now: one server has all of the Tesla T4.")
    assert metric(hub, "hami_hub_slices", group="(default quota)", state="waiting") == 1
    hub.stop("bob")
    found = until(hub, "bob", lambda start: not start.state.open)
    assert (found.state, found.words) == (StartState.CANCELLED, "")
    assert metric(hub, "hami_hub_wait_seconds_count", group="(default quota)", outcome="given-up") == 1


def test_a_hub_that_was_killed_goes_on_with_the_same_lines(hub: QuotaHub) -> None:
    hub.start("alice", {"profile": "small"})
    before = until(hub, "alice", lambda start: start.state is StartState.RUNNING)
    hub.ask("slow", {"profile": "small"})
    until(hub, "slow", lambda start: start.state.open)
    hub.kill()
    hub.begin()
    lost = until(hub, "slow", lambda start: not start.state.open)
    assert lost.state is StartState.FAILED
    assert until(hub, "alice", lambda start: True) == before
    assert metric(hub, "hami_hub_slices", group="(default quota)", state="running") == 1
    hub.stop("alice")
    assert until(hub, "alice", lambda start: not start.state.open).id == before.id


def test_a_hub_that_was_killed_has_lost_what_only_started_also_where_nothing_runs_on(hub: QuotaHub) -> None:
    hub.ask("slow", {"profile": "small"})
    until(hub, "slow", lambda start: start.state.open)
    hub.kill()
    hub.begin()
    assert until(hub, "slow", lambda start: not start.state.open).state is StartState.FAILED


def test_a_journal_that_is_destroyed_under_the_hub_stops_nobody(hub: QuotaHub) -> None:
    hub.start("alice", {"profile": "small"})
    until(hub, "alice", lambda start: start.state is StartState.RUNNING)
    path = hub.folder / "hami-hub.sqlite"
    with contextlib.closing(sqlite3.connect(path, timeout=PATIENCE)) as journal:
        # Whoever closes the file last still writes to it, which is over now.
        assert journal.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone() == (0, 0, 0)
    for ending in ("-wal", "-shm"):
        path.with_name(path.name + ending).unlink(missing_ok=True)
    path.write_bytes(b"rubbish" * 1000)
    hub.start("bob", {"profile": "small"})
    until(hub, "bob", lambda start: start.state is StartState.RUNNING)
    assert [each.state for each in hub.journal() if each.user == "alice"] == [StartState.RUNNING]
    assert list(hub.folder.glob("hami-hub.sqlite.damaged-*"))


def test_somebody_who_locks_the_journal_stops_nobody(hub: QuotaHub) -> None:
    hub.start("alice", {"profile": "cpu"})
    until(hub, "alice", lambda start: start.state is StartState.RUNNING)
    lock = sqlite3.connect(hub.folder / "hami-hub.sqlite", isolation_level=None, timeout=PATIENCE)
    lock.execute("BEGIN EXCLUSIVE")
    begun = time.time()
    hub.start("bob", {"profile": "small"})
    hub.stop("bob")
    lock.execute("COMMIT")
    lock.close()
    ended = until(hub, "bob", lambda start: start.asked_at >= begun and not start.state.open)
    assert ended.state is StartState.ENDED


def test_quotas_by_command_on_a_real_hub(hub: QuotaHub) -> None:
    hub.api.put("/groups/research/properties", json={"colour": "green"})
    result = cli(hub, "quota", "set", "research", "vram=24GiB", "servers-per-user=2")
    assert result.exit_code == 0, result.output
    properties = hub.api.get("/groups/research").json()["properties"]
    assert properties == {"colour": "green", "hami.vram": "24GiB", "hami.servers-per-user": "2"}
    assert metric(hub, "hami_hub_group_memory_quota_bytes", group="research") == 24 * GIB
    assert "24 GiB" in cli(hub, "quota", "list").output
    assert cli(hub, "quota", "set", "research", "vram=24 apples").exit_code == 1
    assert hub.api.get("/groups/research").json()["properties"] == properties
    hub.api.put("/groups/research/properties", json={**properties, "hami.vram": ["a", "list"]})
    assert cli(hub, "quota", "check").exit_code == 1
    assert metric(hub, "hami_hub_quota_faults", group="research") == 1
    assert cli(hub, "quota", "unset", "research", "vram", "servers-per-user").exit_code == 0
    assert cli(hub, "quota", "check").exit_code == 0
    assert hub.api.get("/groups/research").json()["properties"] == {"colour": "green"}
    assert 'Did you mean "research"?' in cli(hub, "quota", "show", "reserch").output


def test_what_a_group_has_had_is_tried_against_a_quota(hub: QuotaHub) -> None:
    assert cli(hub, "quota", "set", "research", "vram=24GiB").exit_code == 0
    hub.start("rita", {"profile": "small"})
    paid = until(hub, "rita", lambda start: start.state is StartState.RUNNING)
    assert paid.group == "research"
    assert "4 GiB of 24 GiB" in cli(hub, "quota", "list").output
    assert "refused none of 1 start." in cli(hub, "quota", "dry-run", "research").output
    assert "refused 1 of 1 start, of 1 person." in cli(hub, "quota", "dry-run", "research", "vram=2GiB").output
    output = cli(hub, "quota", "set", "research", "vram=2GiB").output
    assert "More runs than that: 4 GiB of 2 GiB" in output
    cli(hub, "quota", "unset", "research", "vram")


def test_where_no_journal_can_be_written_servers_start_as_well() -> None:
    with Hub(spawner="hami-simple", GpuSlices={"journal_url": "sqlite:////dev/null/no/hami-hub.sqlite"}) as hub:
        hub.start("alice", {"profile": "small"})
        hub.start("bob", {"profile": "small"})
        assert metric(hub, "hami_hub_slices", group="(default quota)", state="running") == 2
        end = time.monotonic() + PATIENCE
        while "can't be written" not in hub.log.read_text():
            assert time.monotonic() < end
            time.sleep(0.05)
        hub.stop("alice")
        assert hub.log.read_text().count("can't be written") == 1
        assert "Traceback" not in hub.log.read_text()


def test_where_none_is_kept_none_is_written() -> None:
    with Hub(spawner="hami-simple", GpuSlices={"journal_url": ""}) as hub:
        hub.start("alice", {"profile": "small"})
        assert metric(hub, "hami_hub_slices", group="(default quota)", state="running") == 1
        hub.stop("alice")
        assert not list(hub.folder.glob("hami-hub.sqlite*"))
