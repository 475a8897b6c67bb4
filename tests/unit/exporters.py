"""The pages that Prometheus reads of the hub, the scheduler and the device plugin, with a sample of every metric."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest

from cluster.deviceplugin.metrics import CountedOutcomes
from cluster.scheduler.metrics import Metrics
from hami_hub.core.history import StartState
from hami_hub.journal import Journal
from hami_hub.metrics import HubMetrics

from .scheduler_objects import books, holder, node, pod
from .starts import a_start
from .test_plugin_usage import holding, shown


def hub_page() -> str:
    """/hub/metrics, as far as it is ours."""
    journal = Journal("")
    quota = {"hami.vram": "24GiB", "hami.cores": "200", "hami.servers": "6"}
    metrics = HubMetrics(journal.open_now, lambda: {"": {}, "lab": quota}, users=True)
    journal.watch(metrics.observe)

    def opened(id_: str, **fields: Any) -> None:
        journal.opened(a_start(id_, asked_at=1.0, **fields))

    opened("waits")
    opened("runs")
    journal.changed("runs", state=StartState.RUNNING, started_at=31.0)
    opened("gives up")
    journal.changed("gives up", state=StartState.CANCELLED, ended_at=61.0)
    opened("fails")
    journal.changed("fails", state=StartState.FAILED, reason="hami-no-room", ended_at=61.0)
    opened("refused", state=StartState.REFUSED, reason="hami-over-quota", ended_at=1.0)
    registry = CollectorRegistry()
    registry.register(metrics)
    return generate_latest(registry).decode()


async def scheduler_page() -> str:
    """The scheduler's."""
    made = books([node()], [holder("a"), pod("b", gpumem=99000)])
    metrics = Metrics()
    for histogram in (metrics.filter_seconds, metrics.bind_seconds, metrics.webhook_seconds):
        histogram.labels("ok").observe(0.01)
    metrics.watch_lag.observe(0.01)
    metrics.refusals.labels("vram").inc()
    metrics.webhook_refusals.labels("privileged").inc()
    metrics.api_writes.labels("bind").inc()
    watch: Any = SimpleNamespace(name="pods", lost_since=None, relists=1)
    return b"".join([piece async for piece in metrics.exposition(made, [watch])]).decode()


def plugin_page(folder: Path) -> str:
    """The device plugin's.

    Args:
        folder: an empty one, for slices.
    """
    registry = shown(holding(folder, 1000))
    outcomes = CountedOutcomes(registry)
    outcomes.started(0.004)
    outcomes.refused("not-placed")
    outcomes.escape("GPU-0")
    outcomes.xid("GPU-0", 79)
    return generate_latest(registry).decode()
