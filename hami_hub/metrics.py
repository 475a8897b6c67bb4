"""What Prometheus reads of the hub's slices, on the hub's own /hub/metrics.

The journal is watched for what happens, and asked for what is open when somebody reads; nothing here decides anything.
No person's name is shown unless the hub says so.  Units are those of JupyterHub's and the scheduler's metrics: bytes,
seconds, and cores as parts of a card.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from .core.cards import WHOLE_CORES
from .core.history import Start, StartState, UsedBy, group_shown
from .core.quota import Quota, has_quota, parse_quota
from .core.units import BYTES_PER_MIB
from .journal import Journal

_log = logging.getLogger(__name__)

Properties = Mapping[str, Mapping[str, Any]]

_WAIT_BUCKETS = (1, 5, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200)
_STATES = (StartState.WAITING, StartState.STARTING, StartState.RUNNING)
_QUOTAS: tuple[tuple[str, str, Callable[[Quota], float | None]], ...] = (
    (
        "hami_hub_group_memory_quota_bytes",
        "VRAM that a group's servers may hold together; no sample: no limit",
        lambda quota: None if quota.vram is None else quota.vram * BYTES_PER_MIB,
    ),
    (
        "hami_hub_group_core_quota_ratio",
        "Cards, in parts of one card's time, that a group's servers may hold together; no sample: no limit",
        lambda quota: None if quota.cores is None else quota.cores / WHOLE_CORES,
    ),
    (
        "hami_hub_group_servers_quota",
        "Servers with a GPU that a group may have; no sample: no limit",
        lambda quota: quota.servers,
    ),
)


@dataclass(slots=True)
class _Meter:
    """VRAM and cores that were held, times seconds, since this hub began; a counter for each user or group."""

    by: UsedBy
    mib_seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    core_seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    def add(self, start: Start, seconds: float) -> None:
        key = self.by.of(start)
        self.mib_seconds[key] += start.vram * max(0.0, seconds)
        self.core_seconds[key] += start.cores / WHOLE_CORES * max(0.0, seconds)


class HubMetrics(Collector):
    """What is shown.

    Args:
        open_starts: asked at each reading.
        properties: asked at each reading: of each group, "" for the default quota.
        users: whether people's names are shown.
        clock: Unix time.
    """

    def __init__(
        self,
        open_starts: Callable[[], Iterable[Start]],
        properties: Callable[[], Properties],
        *,
        users: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._open_starts, self._properties, self._users, self._clock = open_starts, properties, users, clock
        self._held: dict[str, tuple[float, Start]] = {}
        self._meters = [_Meter(UsedBy.GROUP), *([_Meter(UsedBy.USER)] * users)]
        self._counted = CollectorRegistry()
        self._refusals = Counter(
            "hami_hub_refusals", "Starts of servers that were refused", ["reason"], registry=self._counted
        )
        self._failures = Counter(
            "hami_hub_failures", "Starts of servers that came to nothing", ["reason"], registry=self._counted
        )
        self._waits = Histogram(
            "hami_hub_wait_seconds",
            "From the wish for a server with a GPU until it had its slice, or until the person gave up",
            ["group", "outcome"],
            buckets=_WAIT_BUCKETS,
            registry=self._counted,
        )

    def observe(self, before: Start | None, after: Start) -> None:
        """Take notice of a change: a watcher of the journal."""
        self._meter(after)
        if after.state is StartState.REFUSED and before is None:
            self._refusals.labels(after.reason).inc()
        if after.state is StartState.FAILED:
            self._failures.labels(after.reason).inc()
        if before is None or not after.cards or before.started_at is not None:
            return
        if after.started_at is not None:
            self._waited(after, "served", after.started_at)
        elif not after.state.open and before.state is StartState.WAITING:
            self._waited(after, "given-up", after.ended_at or self._clock())

    def describe(self) -> Iterable[Metric]:
        """Nothing: else the registry would collect all to know the names, with its lock held."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """All of it, as it is now."""
        starts = [start for start in self._open_starts() if start.cards]
        quotas = {group: parse_quota(each) for group, each in self._groups().items() if has_quota(each)}
        groups = sorted({*quotas, *(start.group for start in starts)})
        yield from self._now(starts, groups)
        for name, text, limit in _QUOTAS:
            family = GaugeMetricFamily(name, text, labels=["group"])
            for group, (quota, faults) in quotas.items():
                value = limit(quota)
                if value is not None and not faults:
                    family.add_metric([group_shown(group)], value)
            yield family
        wrong = GaugeMetricFamily(
            "hami_hub_quota_faults",
            "Properties of a group that are written wrongly: it pays for nothing",
            labels=["group"],
        )
        for group, (_, faults) in quotas.items():
            wrong.add_metric([group_shown(group)], len(faults))
        yield wrong
        yield from self._over_time()
        yield from self._counted.collect()

    def _groups(self) -> Properties:
        try:
            return self._properties()
        except Exception:
            # The hub's own metrics are on the same page, and worth seeing most when its database is away.
            _log.exception("The groups' quotas can't be read for the metrics.")
            return {}

    def _now(self, starts: list[Start], groups: list[str]) -> Iterator[Metric]:
        slices = GaugeMetricFamily(
            "hami_hub_slices", "Servers with a GPU, by how far they are", labels=["group", "state"]
        )
        memory = GaugeMetricFamily(
            "hami_hub_group_memory_used_bytes", "VRAM that counts towards a group's quota", labels=["group"]
        )
        cores = GaugeMetricFamily(
            "hami_hub_group_core_used_ratio", "Cards, in parts, that count towards a group's quota", labels=["group"]
        )
        for group in groups:
            theirs = [start for start in starts if start.group == group]
            for state in _STATES:
                count = sum(start.state is state for start in theirs)
                slices.add_metric([group_shown(group), state.value], count)
            memory.add_metric([group_shown(group)], sum(start.vram for start in theirs) * BYTES_PER_MIB)
            cores.add_metric([group_shown(group)], sum(start.cores for start in theirs) / WHOLE_CORES)
        waiting = [start.asked_at for start in starts if start.state is StartState.WAITING]
        yield from (slices, memory, cores)
        yield GaugeMetricFamily(
            "hami_hub_waiting_oldest_seconds",
            "How long the one who has waited longest has waited; 0: nobody waits",
            value=max(0.0, self._clock() - min(waiting)) if waiting else 0,
        )
        if self._users:
            held: defaultdict[str, int] = defaultdict(int)
            for start in starts:
                held[start.user] += start.vram
            of_user = GaugeMetricFamily(
                "hami_hub_user_memory_used_bytes", "VRAM that a person's servers hold", labels=["user"]
            )
            for user, vram in sorted(held.items()):
                of_user.add_metric([user], vram * BYTES_PER_MIB)
            yield of_user

    def _over_time(self) -> Iterator[Metric]:
        for start_id in list(self._held):
            self._settle(start_id)
        for meter in self._meters:
            whose = meter.by.value
            name = "hami_hub" if meter.by is UsedBy.GROUP else "hami_hub_user"
            memory = CounterMetricFamily(
                f"{name}_memory_byte_seconds", f"VRAM that a {whose} held, times seconds", labels=[whose]
            )
            cores = CounterMetricFamily(
                f"{name}_core_seconds", f"Parts of cards that a {whose} held, times seconds", labels=[whose]
            )
            for key in sorted(meter.mib_seconds):
                shown = group_shown(key) if meter.by is UsedBy.GROUP else key
                memory.add_metric([shown], meter.mib_seconds[key] * BYTES_PER_MIB)
                cores.add_metric([shown], meter.core_seconds[key])
            yield from (memory, cores)

    def _meter(self, after: Start) -> None:
        self._settle(after.id)
        if after.state.open and after.started_at is not None and after.cards:
            self._held[after.id] = (self._clock(), after)
        else:
            self._held.pop(after.id, None)

    def _settle(self, start_id: str) -> None:
        """Count what has been held until now."""
        if start_id in self._held:
            since, start = self._held[start_id]
            now = self._clock()
            for meter in self._meters:
                meter.add(start, now - since)
            self._held[start_id] = (now, start)

    def _waited(self, start: Start, outcome: str, until: float) -> None:
        self._waits.labels(group_shown(start.group), outcome).observe(max(0.0, until - start.asked_at))


_installed: HubMetrics | None = None


def install(journal: Journal, default_quota: Mapping[str, Any], *, users: bool = False) -> HubMetrics:
    """Have /hub/metrics show the slices of the hub that `journal` is told of; once more: of that one instead."""
    global _installed
    if _installed is not None:
        with contextlib.suppress(KeyError):
            REGISTRY.unregister(_installed)
    _installed = HubMetrics(journal.open_now, lambda: {"": default_quota, **properties_of_groups()}, users=users)
    journal.watch(_installed.observe)
    REGISTRY.register(_installed)
    return _installed


def properties_of_groups() -> dict[str, Mapping[str, Any]]:
    """The properties of all groups of the hub that runs in this process; {} where none does."""
    app = sys.modules.get("jupyterhub.app")
    if app is None or not app.JupyterHub.initialized():
        return {}
    db = getattr(app.JupyterHub.instance(), "db", None)
    if db is None:
        return {}
    rows = db.query(app.orm.Group.name, app.orm.Group.properties)
    return {name: properties for name, properties in rows if isinstance(properties, dict)}
