"""A cluster's cards and slices: the GPU scheduler's inventory, and what the device plugins' metrics say of true use."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit, urlunsplit

from prometheus_client.parser import text_string_to_metric_families
from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest

from ..core.codec import WireError
from ..core.inventory import HeldShare, held_shares, queued_pods
from ..core.units import Mib, mib_up
from ..spawner.kube.cluster import GpuCluster, Inventory
from .sight import CardSeen, Sight, SliceSeen

_USE_SECONDS = 5.0
_ANSWER_SECONDS = 3.0
_USED = "hami_vgpu_memory_used_bytes"

_log = logging.getLogger(__name__)

# By "namespace/pod" and the card's UUID.
UsedByPod = Mapping[tuple[str, str], Mib]


class ClusterEyes:
    """Looks at a cluster.

    Args:
        cluster: the scheduler's address and the right to ask.
        namespace: of the hub.
        usage: asks the device plugins; None: true use isn't shown.
    """

    def __init__(self, cluster: GpuCluster, namespace: str, usage: PluginMetrics | None) -> None:
        self._cluster, self._namespace, self._usage = cluster, namespace, usage

    async def look(self) -> Sight:
        """What there is now."""
        inventory = await self._cluster.inventory(self._namespace)
        used: UsedByPod = {}
        problems = []
        if self._usage is not None:
            used = await self._usage.used()
            problems += [self._usage.problem] if self._usage.problem else []
        try:
            return _sight(inventory, used, tuple(problems))
        except WireError as error:
            return Sight(problems=(str(error), *problems))


class PluginMetrics:
    """The metrics of every device plugin behind one name.

    Args:
        url: as `c.GpuPage.usage_url`; its name stands for all plugins' addresses, as a headless Service's does.
    """

    def __init__(self, url: str) -> None:
        self._url = urlsplit(url)
        self._used: UsedByPod = {}
        self._until = 0.0
        self.problem = ""

    async def used(self) -> UsedByPod:
        """What each pod's slice holds of each card, at most a few seconds old; nothing where nobody answers."""
        now = asyncio.get_running_loop().time()
        if now >= self._until:
            self._until = now + _USE_SECONDS
            self._used = await self._ask_all()
        return self._used

    async def _ask_all(self) -> UsedByPod:
        host, port = self._url.hostname or "", self._url.port or 80
        try:
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            self.problem = f"What is really in use isn't known: {host} can't be found ({error.strerror})."
            return {}
        addresses = sorted({str(each[4][0]) for each in found})
        answers = await asyncio.gather(*(self._ask(address, port) for address in addresses))
        silent = sum(answer is None for answer in answers)
        self.problem = (
            f"What is really in use isn't known everywhere: {silent} of {len(addresses)} device plugins don't answer."
            if silent
            else ""
        )
        return {key: used for answer in answers if answer is not None for key, used in answer.items()}

    async def _ask(self, address: str, port: int) -> UsedByPod | None:
        place = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
        url = urlunsplit((self._url.scheme, place, self._url.path or "/metrics", "", ""))
        request = HTTPRequest(url, connect_timeout=_ANSWER_SECONDS, request_timeout=_ANSWER_SECONDS)
        try:
            answer = await AsyncHTTPClient().fetch(request)
            return used_by_pod(answer.body.decode())
        except (HTTPClientError, OSError, ValueError) as error:
            _log.warning("The device plugin at %s doesn't say what is in use: %s", place, error)
            return None


def used_by_pod(text: str) -> UsedByPod:
    """What a device plugin's metrics say of its slices.

    Raises:
        ValueError: they are none.
    """
    used: dict[tuple[str, str], Mib] = {}
    for family in text_string_to_metric_families(text):
        if family.name != _USED:
            continue
        for sample in family.samples:
            labels = sample.labels
            key = (f"{labels.get('namespace', '')}/{labels.get('pod', '')}", labels.get("device_uuid", ""))
            used[key] = Mib(used.get(key, 0) + mib_up(int(sample.value)))
    return used


def _sight(inventory: Inventory, used: UsedByPod, problems: tuple[str, ...]) -> Sight:
    if not inventory.known:
        return Sight(problems=(inventory.problem, *problems))
    return Sight(
        cards=tuple(
            CardSeen(card=state.card, node=node) for node, states in inventory.nodes.items() for state in states
        ),
        slices=tuple(_slices(held_shares(inventory.said), used)),
        waiting=queued_pods(inventory.said),
        problems=problems,
    )


def _slices(shares: Iterable[HeldShare], used: UsedByPod) -> Iterable[SliceSeen]:
    for held in shares:
        yield SliceSeen(
            holder=held.holder,
            card=held.share.uuid,
            vram=held.share.vram,
            cores=held.share.cores,
            exclusive=held.share.exclusive,
            used=used.get((held.holder, held.share.uuid)),
            since=held.since,
        )
