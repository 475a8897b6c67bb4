"""One filter call after another, as kube-scheduler makes them: all nodes' names as candidates, a pod each time."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import ssl
import time
from dataclasses import dataclass
from urllib.parse import urlsplit

from cluster.apiserver import connect

from . import load
from .bursts import percentile
from .contestants import Contestant, Running
from .objects import node, node_name, pod, running_pod
from .plane import Plane

TABLE = ((10, 0), (10, 200), (100, 0), (100, 1000), (100, 2000), (1000, 0), (1000, 1000), (1000, 10000))
LARGEST = (5000, 10000)
_READ_AFTER = 3.0


@dataclass(frozen=True, slots=True)
class Filtered:
    """Times in milliseconds of the whole HTTP call, memory in MiB.

    Attributes:
        first: seconds from the process's start to its first answer.
        placed: how many calls were answered with a node.
    """

    nodes: int
    pods: int
    calls: int
    placed: int
    first: float
    p50: float | None
    p99: float | None
    longest: float
    request_bytes: int
    answer_bytes: int
    memory: float
    peak: float
    cpu_per_call: float


async def filtered(plane: Plane, contestant: Contestant, nodes: int, pods: int, calls: int) -> Filtered:
    """`calls` calls on a fresh control plane with `nodes` nodes and `pods` pods that run already."""
    async with connect(plane.kubeconfig("bench"), user_agent="bench") as api:
        await load.create_nodes(api, (node(number, handshakes=True) for number in range(nodes)))
        await load.create(api, load.PODS, (running_pod(number, nodes) for number in range(pods)))
        await load.create(api, load.PODS, (pod(f"q-{number}", "nobody") for number in range(calls + 1)))
        waiting = [each for each in await load.all_items(api, load.PODS) if each["metadata"]["name"].startswith("q-")]
    names = [node_name(number) for number in range(nodes)]
    bodies = [json.dumps({"Pod": each, "Nodes": None, "NodeNames": names}).encode() for each in waiting]
    began = time.monotonic()
    with contestant(plane, False) as running:
        return await asyncio.to_thread(_call, running, bodies, nodes, pods, began)


def _call(running: Running, bodies: list[bytes], nodes: int, pods: int, began: float) -> Filtered:
    connection = _connection(running.extender)
    _post(connection, bodies[0])
    first = time.monotonic() - began
    time.sleep(_READ_AFTER)
    process = running.processes["extender"]
    before, took, placed, size = process.seconds(), [], 0, 0
    for body in bodies[1:]:
        start = time.perf_counter()
        answer = _post(connection, body)
        took.append((time.perf_counter() - start) * 1000)
        size = len(answer)
        said = json.loads(answer)
        placed += len(said.get("NodeNames") or said.get("nodenames") or ()) == 1
    took.sort()
    now, peak = process.memory()
    return Filtered(
        nodes=nodes,
        pods=pods,
        calls=len(took),
        placed=placed,
        first=first,
        p50=percentile(took, 50),
        p99=percentile(took, 99),
        longest=took[-1],
        request_bytes=len(bodies[-1]),
        answer_bytes=size,
        memory=now,
        peak=peak,
        cpu_per_call=(process.seconds() - before) / len(took),
    )


def _connection(url: str) -> http.client.HTTPConnection:
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or 0
    if parts.scheme == "http":
        return http.client.HTTPConnection(host, port, timeout=900)
    context = ssl._create_unverified_context()  # noqa: S323  kube-scheduler calls HAMi's extender so
    return http.client.HTTPSConnection(host, port, timeout=900, context=context)


def _post(connection: http.client.HTTPConnection, body: bytes) -> bytes:
    connection.request("POST", "/filter", body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    answer = response.read()
    if response.status != http.client.OK:
        raise RuntimeError(f"/filter answered {response.status}: {answer[:200]!r}")
    return answer


def load_average() -> float:
    """Of the last minute."""
    return os.getloadavg()[0]
