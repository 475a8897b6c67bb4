"""Figures for Prometheus: the node's cards, the slices on them, and how starts went.

Names are HAMi's where they mean the same; units are Prometheus': bytes, seconds, and ratios from 0 to 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from hami_hub.core.units import BYTES_PER_MIB, Mib

from .health import Condition
from .plugin import Outcomes
from .slots import Slot
from .usage import SliceUse

_CARD = ["node", "device_index", "device_uuid", "device_type"]
_SLICE = ["node", "namespace", "pod", "container", "vdevice_index", "device_uuid"]


@dataclass(frozen=True, slots=True)
class Sight:
    """All that is shown at one moment."""

    conditions: tuple[Condition, ...]
    uses: tuple[SliceUse, ...]
    unaccounted: dict[str, Mib]
    slots: tuple[Slot, ...]
    registered: bool


class NodeCollector(Collector):
    """Shows what `look` sees when it is asked.

    Args:
        node: this node's name.
        look: reads everything.
    """

    def __init__(self, node: str, look: Callable[[], Sight]) -> None:
        self._node, self._look = node, look

    def describe(self) -> Iterable[Metric]:
        """Nothing beforehand: what there is depends on the node."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """All families."""
        sight = self._look()
        yield _build_info()
        yield from _of_cards(self._node, sight)
        yield from _of_slices(self._node, sight)
        slots = GaugeMetricFamily("hami_slots", "Slots that the kubelet is told of.", labels=["node", "state"])
        healthy = sum(slot.healthy for slot in sight.slots)
        slots.add_metric([self._node, "healthy"], healthy)
        slots.add_metric([self._node, "unhealthy"], len(sight.slots) - healthy)
        yield slots
        registered = GaugeMetricFamily("hami_registered", "1: the kubelet knows the device plugin.", labels=["node"])
        registered.add_metric([self._node], sight.registered)
        yield registered


class CountedOutcomes(Outcomes):
    """Counts how starts went.

    Args:
        registry: where the figures are shown.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._seconds = Histogram(
            "hami_container_start_seconds",
            "Time from the kubelet's call at a container's start to its slice.",
            registry=registry,
            buckets=(0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
        )
        self._refused = Counter(
            "hami_container_start_refusals", "Containers that got no slice.", ["rule"], registry=registry
        )
        self._escapes = Counter(
            "hami_slice_escapes", "Slices found to hold more than they answer for.", ["device_uuid"], registry=registry
        )
        self._xids = Counter("hami_card_xids", "XIDs that a card told of.", ["device_uuid", "xid"], registry=registry)

    def started(self, seconds: float) -> None:
        """See `Outcomes`."""
        self._seconds.observe(seconds)

    def refused(self, rule: str) -> None:
        """See `Outcomes`."""
        self._refused.labels(rule).inc()

    def escape(self, uuid: str) -> None:
        """A slice's processes got around the limiter."""
        self._escapes.labels(uuid).inc()

    def xid(self, uuid: str, code: int) -> None:
        """A card told of an error."""
        self._xids.labels(uuid, str(code)).inc()


def _build_info() -> Metric:
    try:
        running = version("hami-hub")
    except PackageNotFoundError:
        running = "unknown"
    info = InfoMetricFamily("hami_build", "The version that runs.")
    info.add_metric([], {"version": running})
    return info


def _of_cards(node: str, sight: Sight) -> Iterator[Metric]:
    used = GaugeMetricFamily("hami_host_gpu_memory_used_bytes", "In use on the card, by whomever.", labels=_CARD)
    total = GaugeMetricFamily("hami_host_gpu_memory_total_bytes", "All of the card's memory.", labels=_CARD)
    busy = GaugeMetricFamily("hami_host_gpu_utilization_ratio", "Part of its time that the card worked.", labels=_CARD)
    healthy = GaugeMetricFamily("hami_host_gpu_healthy", "1: the card takes new slices.", labels=_CARD)
    nobodys = GaugeMetricFamily(
        "hami_host_gpu_memory_unaccounted_bytes", "In use on the card, with no slice that answers for it.", labels=_CARD
    )
    for condition in sight.conditions:
        card = condition.card
        labels = [node, str(card.index), card.uuid, card.model]
        total.add_metric(labels, card.vram * BYTES_PER_MIB)
        healthy.add_metric(labels, card.healthy)
        if condition.reading.used is not None:
            used.add_metric(labels, condition.reading.used * BYTES_PER_MIB)
        if condition.reading.busy is not None:
            busy.add_metric(labels, condition.reading.busy / 100)
        if card.uuid in sight.unaccounted:
            nobodys.add_metric(labels, sight.unaccounted[card.uuid] * BYTES_PER_MIB)
    yield from (used, total, busy, healthy, nobodys)


def _of_slices(node: str, sight: Sight) -> Iterator[Metric]:
    used = GaugeMetricFamily("hami_vgpu_memory_used_bytes", "What the slice holds of the card.", labels=_SLICE)
    limit = GaugeMetricFamily("hami_vgpu_memory_limit_bytes", "What the slice may hold.", labels=_SLICE)
    peak = GaugeMetricFamily("hami_vgpu_memory_peak_bytes", "The most that it held since its start.", labels=_SLICE)
    cores = GaugeMetricFamily("hami_vgpu_core_limit_ratio", "Its share of the card's time; 0: none.", labels=_SLICE)
    refusals = CounterMetricFamily("hami_vgpu_refusals", "Allocations that were refused.", labels=_SLICE)
    throttled = CounterMetricFamily("hami_vgpu_throttled_seconds", "Time that launches waited.", labels=_SLICE)
    on_card = {condition.card.uuid: condition.reading.used for condition in sight.conditions}
    for use in sight.uses:
        for number, card in enumerate(use.view.cards):
            owner = use.owner
            labels = [node, owner.namespace, owner.pod, owner.container, str(number), card.uuid]
            # Who has a whole card keeps no account: all that is in use on it is theirs.
            held = (on_card.get(card.uuid) or 0) if card.whole else card.used
            used.add_metric(labels, held * BYTES_PER_MIB)
            limit.add_metric(labels, card.limit * BYTES_PER_MIB)
            peak.add_metric(labels, max(card.peak, held) * BYTES_PER_MIB)
            cores.add_metric(labels, card.cores / 100)
            refusals.add_metric(labels, card.refusals)
            throttled.add_metric(labels, card.throttled_seconds)
    yield from (used, limit, peak, cores, refusals, throttled)
