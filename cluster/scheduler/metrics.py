"""What Prometheus reads.  HAMi's names where the meaning is the same, with the unit that the name says.

Counters and latencies are prometheus_client's.  Gauges of cards and slices are written straight from the books, a few
nodes at a time: a fleet has a hundred thousand of them, and no pod should wait while they are counted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import generate_latest

from cluster.watch import Watch
from hami_hub.core.cards import WHOLE_CORES, CardState
from hami_hub.core.nodes import Holding
from hami_hub.core.units import BYTES_PER_MIB

from .books import Books

_LATENCY = (0.0005, 0.001, 0.002, 0.003, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)
_Item = TypeVar("_Item")
_NODES_AT_ONCE, _SLICES_AT_ONCE = 20, 100

_CARD_GAUGES = {
    "hami_gpu_memory_limit_bytes": "VRAM of a card, scaled if the device plugin scales it",
    "hami_gpu_memory_allocated_bytes": "VRAM of a card that slices hold",
    "hami_gpu_core_limit_ratio": "A card's whole time, 1",
    "hami_gpu_core_allocated_ratio": "Part of a card's time that slices were promised",
    "hami_gpu_shared_count": "Slices on a card",
    "hami_gpu_healthy": "1: the card takes slices; 0: it is out of order",
}
_SLICE_GAUGES = {
    "hami_vgpu_memory_allocated_bytes": "VRAM of one card that a container's slice holds",
    "hami_vgpu_core_allocated_ratio": "Part of one card's time that a container's slice was promised",
}


class Metrics:
    """What is counted while the scheduler works."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        name = "hami_scheduler_"
        self.filter_seconds = Histogram(
            name + "filter_seconds", "Time of a filter call", ["result"], registry=self.registry, buckets=_LATENCY
        )
        self.bind_seconds = Histogram(
            name + "bind_seconds", "Time of a bind call", ["result"], registry=self.registry, buckets=_LATENCY
        )
        self.webhook_seconds = Histogram(
            name + "webhook_seconds", "Time of an admission", ["result"], registry=self.registry, buckets=_LATENCY
        )
        self.watch_lag = Histogram(
            name + "watch_lag_seconds",
            "From the answer to a binding until the watch shows it",
            registry=self.registry,
            buckets=_LATENCY,
        )
        self.refusals = self._counter(
            name + "refusals", "Filter calls without room, by what was lacking most", "reason"
        )
        self.webhook_refusals = self._counter(name + "webhook_refusals", "Rules that refused a new pod", "rule")
        self.api_writes = self._counter(name + "api_writes", "Writes to the API server", "kind")
        self.expired = Counter(
            name + "reservations_expired", "Reservations without a binding in time", registry=self.registry
        )
        self._reserved = Gauge(name + "reservations", "Slices reserved and not bound yet", registry=self.registry)
        self._waiting = Gauge(name + "waiting_pods", "Pods that wait for a slice", registry=self.registry)
        self._nodes = Gauge(name + "nodes", "Nodes by whether they take slices", ["state"], registry=self.registry)
        self._lost = Gauge(
            name + "watch_lost_seconds", "How long a watch has had no contact", ["watch"], registry=self.registry
        )
        self._relists = Gauge(
            name + "watch_lists", "How often a watch read the whole list", ["watch"], registry=self.registry
        )
        ProcessCollector(registry=self.registry)

    def _counter(self, name: str, text: str, label: str) -> Counter:
        return Counter(name, text, [label], registry=self.registry)

    async def exposition(self, books: Books, watches: Iterable[Watch[Any]]) -> AsyncIterator[bytes]:
        """The whole page, in pieces."""
        holdings = list(books.fleet.holdings())
        self._reserved.set(sum(not holding.bound for holding in holdings))
        self._waiting.set(len(books.waiting))
        problems = sum(record.problem is not None for record in books.nodes.values())
        self._nodes.labels("usable").set(len(books.nodes) - problems)
        self._nodes.labels("problem").set(problems)
        now = time.monotonic()
        for watch in watches:
            self._lost.labels(watch.name).set(0 if watch.lost_since is None else now - watch.lost_since)
            self._relists.labels(watch.name).set(watch.relists)
        yield generate_latest(self.registry)
        for name, text in _CARD_GAUGES.items():
            yield _head(name, text)
            async for piece in _pieces(list(books.nodes), _NODES_AT_ONCE):
                yield "".join(_card_lines(name, books, piece)).encode()
        for name, text in _SLICE_GAUGES.items():
            yield _head(name, text)
            async for some in _pieces(holdings, _SLICES_AT_ONCE):
                yield "".join(_slice_lines(name, some)).encode()


async def _pieces(items: list[_Item], size: int) -> AsyncIterator[list[_Item]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
        await asyncio.sleep(0)


def _head(name: str, text: str) -> bytes:
    return f"# HELP {name} {text}\n# TYPE {name} gauge\n".encode()


def _card_lines(name: str, books: Books, nodes: Iterable[str]) -> Iterator[str]:
    for node in nodes:
        if node in books.nodes:
            for state in books.fleet.states(node):
                card = state.card
                labels = _labels(node=node, device_uuid=card.uuid, device_index=card.index, device_type=card.model)
                yield f"{name}{labels} {_card_value(name, state)}\n"


def _card_value(name: str, state: CardState) -> float:
    return {
        "hami_gpu_memory_limit_bytes": state.card.vram * BYTES_PER_MIB,
        "hami_gpu_memory_allocated_bytes": state.used_vram * BYTES_PER_MIB,
        "hami_gpu_core_limit_ratio": 1,
        "hami_gpu_core_allocated_ratio": state.used_cores / WHOLE_CORES,
        "hami_gpu_shared_count": state.slices,
        "hami_gpu_healthy": int(state.card.healthy),
    }[name]


def _slice_lines(name: str, holdings: Iterable[Holding]) -> Iterator[str]:
    memory = name == "hami_vgpu_memory_allocated_bytes"
    for holding in holdings:
        for container, placement in holding.slices.items():
            for share in placement.shares:
                labels = _labels(
                    namespace=holding.namespace,
                    node=holding.node,
                    pod=holding.name,
                    container=container,
                    device_uuid=share.uuid,
                )
                value = share.vram * BYTES_PER_MIB if memory else share.cores / WHOLE_CORES
                yield f"{name}{labels} {value}\n"


def _labels(**labels: object) -> str:
    return "{" + ",".join(f'{key}="{_escaped(str(value))}"' for key, value in labels.items()) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
