"""What Prometheus reads of the hub: derived from what is open, with no person's name unless the hub says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from prometheus_client import REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from hami_hub.core.history import StartState
from hami_hub.core.units import Mib
from hami_hub.journal import Journal
from hami_hub.metrics import HubMetrics, install

from .starts import a_start

GIB = 1024**3


class Hub:
    """A journal that keeps nothing, with metrics, at a time that the test sets."""

    def __init__(self, *, users: bool = False) -> None:
        self.now = 1000.0
        self.properties: Any = {"": {}}  # None: they can't be read
        self.journal = Journal("")
        metrics = HubMetrics(self.journal.open_now, self._groups, users=users, clock=lambda: self.now)
        self.journal.watch(metrics.observe)
        self._registry = CollectorRegistry()
        self._registry.register(metrics)

    def _groups(self) -> Any:
        if self.properties is None:
            raise RuntimeError("no database")
        return self.properties

    def opened(self, id_: str = "1", **fields: Any) -> None:
        self.journal.opened(a_start(id_, **{"asked_at": self.now, "state": StartState.STARTING, **fields}))

    def runs(self, id_: str = "1") -> None:
        self.journal.changed(id_, state=StartState.RUNNING, started_at=self.now)

    def text(self) -> str:
        return generate_latest(self._registry).decode()

    def value(self, name: str, **labels: str) -> float | None:
        for family in text_string_to_metric_families(self.text()):
            for sample in family.samples:
                if sample.name == name and sample.labels == labels:
                    return sample.value
        return None


@pytest.fixture
def hub() -> Hub:
    return Hub()


def test_slices_by_group_and_state(hub: Hub) -> None:
    hub.opened("1")
    hub.runs("1")
    hub.opened("2", state=StartState.WAITING)
    hub.opened("3", group="")
    hub.opened("cpu", cards=0, vram=Mib(0), cores=0)
    assert hub.value("hami_hub_slices", group="lab", state="running") == 1
    assert hub.value("hami_hub_slices", group="lab", state="waiting") == 1
    assert hub.value("hami_hub_slices", group="lab", state="starting") == 0
    assert hub.value("hami_hub_slices", group="(default quota)", state="starting") == 1
    assert hub.value("hami_hub_group_memory_used_bytes", group="lab") == 8 * GIB
    assert hub.value("hami_hub_group_core_used_ratio", group="lab") == 0.5
    hub.journal.changed("1", state=StartState.ENDED, ended_at=1.0)
    assert hub.value("hami_hub_slices", group="lab", state="running") == 0


def test_quotas_as_they_are_written_now(hub: Hub) -> None:
    hub.properties = {
        "": {"hami.servers": "3"},
        "lab": {"hami.vram": "24GiB", "hami.cores": "200"},
        "others": {"x": "y"},
    }
    assert hub.value("hami_hub_group_memory_quota_bytes", group="lab") == 24 * GIB
    assert hub.value("hami_hub_group_core_quota_ratio", group="lab") == 2
    assert hub.value("hami_hub_group_servers_quota", group="lab") is None
    assert hub.value("hami_hub_group_servers_quota", group="(default quota)") == 3
    assert hub.value("hami_hub_slices", group="lab", state="running") == 0
    assert hub.value("hami_hub_quota_faults", group="lab") == 0
    assert "others" not in hub.text()
    hub.properties["lab"]["hami.cores"] = "pears"
    assert hub.value("hami_hub_quota_faults", group="lab") == 1
    assert hub.value("hami_hub_group_memory_quota_bytes", group="lab") is None


def test_who_waits_longest(hub: Hub) -> None:
    assert hub.value("hami_hub_waiting_oldest_seconds") == 0
    hub.opened("1", state=StartState.WAITING)
    hub.now += 30
    hub.opened("2", state=StartState.WAITING)
    hub.now += 30
    assert hub.value("hami_hub_waiting_oldest_seconds") == 60


def test_waits_are_counted_when_they_end_one_way_or_the_other(hub: Hub) -> None:
    for id_ in "123":
        hub.opened(id_, state=StartState.WAITING)
    hub.now += 20
    hub.runs("1")
    hub.journal.changed("2", state=StartState.CANCELLED, ended_at=hub.now)
    served, given_up = ({"group": "lab", "outcome": outcome} for outcome in ("served", "given-up"))
    assert hub.value("hami_hub_wait_seconds_sum", **served) == 20
    assert hub.value("hami_hub_wait_seconds_bucket", **served, le="15.0") == 0
    assert hub.value("hami_hub_wait_seconds_bucket", **served, le="30.0") == 1
    assert hub.value("hami_hub_wait_seconds_count", **given_up) == 1
    hub.journal.changed("1", state=StartState.ENDED, ended_at=hub.now + 1)
    assert hub.value("hami_hub_wait_seconds_count", **served) == 1


def test_refusals_and_failures_by_reason(hub: Hub) -> None:
    hub.opened("1", state=StartState.REFUSED, reason="hami-quota", ended_at=1.0)
    hub.opened("2")
    hub.journal.changed("2", state=StartState.FAILED, reason="hami-home", ended_at=1.0)
    assert hub.value("hami_hub_refusals_total", reason="hami-quota") == 1
    assert hub.value("hami_hub_failures_total", reason="hami-home") == 1


def test_use_over_time_is_a_counter_that_runs_while_the_server_does(hub: Hub) -> None:
    hub.opened("1")
    hub.now += 100
    assert hub.value("hami_hub_memory_byte_seconds_total", group="lab") is None
    hub.runs("1")
    hub.now += 10
    assert hub.value("hami_hub_memory_byte_seconds_total", group="lab") == 40 * GIB
    hub.journal.changed("1", vram=Mib(1024))
    hub.now += 10
    assert hub.value("hami_hub_memory_byte_seconds_total", group="lab") == 50 * GIB
    assert hub.value("hami_hub_core_seconds_total", group="lab") == 5
    hub.journal.changed("1", state=StartState.ENDED, ended_at=hub.now)
    hub.now += 1000
    assert hub.value("hami_hub_memory_byte_seconds_total", group="lab") == 50 * GIB
    hub.now -= 5000  # a clock that was set back
    hub.opened("2", state=StartState.RUNNING, started_at=hub.now)
    hub.now -= 10
    assert hub.value("hami_hub_memory_byte_seconds_total", group="lab") == 50 * GIB


def test_a_server_that_runs_on_over_a_restart_is_counted_from_then_and_waited_for_nothing(hub: Hub) -> None:
    hub.journal.restored(a_start(asked_at=1.0, started_at=2.0, state=StartState.RUNNING))
    hub.now += 10
    assert hub.value("hami_hub_memory_byte_seconds_total", group="lab") == 40 * GIB
    assert "hami_hub_wait_seconds_count" not in hub.text()


def test_names_of_people_are_shown_only_if_the_hub_says_so() -> None:
    for users in (False, True):
        hub = Hub(users=users)
        hub.opened("1")
        hub.runs("1")
        hub.now += 1
        assert ("alice" in hub.text()) == users
    assert hub.value("hami_hub_user_memory_used_bytes", user="alice") == 4 * GIB
    assert hub.value("hami_hub_user_memory_byte_seconds_total", user="alice") == 4 * GIB


def test_a_database_that_is_away_hides_no_other_metric(hub: Hub, caplog: pytest.LogCaptureFixture) -> None:
    hub.opened("1")
    hub.properties = None
    assert hub.value("hami_hub_slices", group="lab", state="starting") == 1
    assert "can't be read for the metrics" in caplog.text


@pytest.mark.parametrize("name", ['"', "\\", "\n", "<script>", "{}", "日本"])
def test_any_name_of_a_group_can_be_read(hub: Hub, name: str) -> None:
    hub.opened("1", group=name)
    assert hub.value("hami_hub_group_memory_used_bytes", group=name) == 4 * GIB


def test_installed_twice_the_last_one_counts(request: pytest.FixtureRequest) -> None:
    def undo(registered: HubMetrics) -> Callable[[], None]:
        return lambda: REGISTRY.unregister(registered) if registered in REGISTRY._collector_to_names else None

    for _ in range(2):
        request.addfinalizer(undo(install(Journal(""), {"hami.vram": "8GiB"})))
    assert generate_latest(REGISTRY).decode().count('hami_hub_group_memory_quota_bytes{group="(default quota)"}') == 1
