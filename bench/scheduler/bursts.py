"""Pods created at once, or one a second, from creation to bound."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import Counter
from dataclasses import dataclass

from cluster.apiserver import ApiServer, connect

from . import load
from .contestants import Contestant, Running
from .objects import CARDS, node, pod
from .plane import Plane


@dataclass(frozen=True, slots=True)
class Shape:
    """One burst.

    Attributes:
        pace: seconds between two creations; 0: all at once.
        cards: of each node.
        spread: pods ask for the node policy "spread".
        patience: seconds after which it is given up.
    """

    name: str
    nodes: int
    pods: int
    pace: float = 0.0
    cards: int = CARDS
    spread: bool = False
    patience: float = 300.0


SHAPES = (
    Shape("100 pods, 1 node", 1, 100, cards=32),
    Shape("100 pods, 10 nodes", 10, 100),
    Shape("100 pods, 100 nodes", 100, 100),
    Shape("100 pods, 100 nodes, spread", 100, 100, spread=True),
    Shape("1,000 pods, 100 nodes", 100, 1000),
    Shape("20 pods, one a second, 10 nodes", 10, 20, pace=1.0),
)


@dataclass(frozen=True, slots=True)
class Burst:
    """What came of it.  Times in seconds; `writes` are API writes a pod by user, if they were counted."""

    bound: int
    pods: int
    p50: float | None
    p99: float | None
    last: float | None
    rate: float
    nodes_used: int
    over_committed: int
    events: dict[str, int]
    cpu: dict[str, float]
    writes: dict[str, float]


async def burst(plane: Plane, contestant: Contestant, shape: Shape) -> Burst:
    """One burst on a fresh control plane."""
    async with connect(plane.kubeconfig("bench"), user_agent="bench") as api:
        await load.create_nodes(api, (node(number, shape.cards, handshakes=True) for number in range(shape.nodes)))
        with contestant(plane, True) as running:
            await asyncio.sleep(2)
            if plane.audit_log.exists():
                plane.audit_log.write_text("")
            return await _timed(plane, api, running, shape)


async def _timed(plane: Plane, api: ApiServer, running: Running, shape: Shape) -> Burst:
    bound, task = await load.watch_bound(api, shape.pods)
    before = {name: process.seconds() for name, process in running.processes.items()}
    sent: dict[str, float] = {}
    annotations = {"hami.io/node-scheduler-policy": "spread"} if shape.spread else {}

    async def one(number: int) -> None:
        name = f"e2e-{number:04d}"
        made = pod(name, running.scheduler_name, plain=running.plain, annotations=annotations)
        body = json.dumps(made).encode()
        sent[name] = time.time()
        await api.request("POST", load.PODS, body, timeout=120)

    began = time.time()
    if shape.pace:
        for number in range(shape.pods):
            await one(number)
            await asyncio.sleep(shape.pace)
    else:
        await load.each(range(shape.pods), one)
    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(bound.all.wait(), shape.patience - (time.time() - began))
    task.cancel()
    cpu = {name: round(process.seconds() - before[name], 2) for name, process in running.processes.items()}
    await asyncio.sleep(2)  # what is written after the last binding counts too
    waits = sorted(at - sent[name] for name, at in bound.at.items())
    end = max(bound.at.values(), default=began)
    return Burst(
        bound=len(waits),
        pods=shape.pods,
        p50=percentile(waits, 50),
        p99=percentile(waits, 99),
        last=end - began if waits else None,
        rate=len(waits) / (end - began) if waits else 0.0,
        nodes_used=len(set(bound.node.values())),
        over_committed=load.over_committed(await load.all_items(api, load.PODS)),
        events=dict(await load.events(api)),
        cpu=cpu,
        writes=_writes(plane, shape.pods),
    )


def _writes(plane: Plane, pods: int) -> dict[str, float]:
    """API writes a pod, by user and what was written; leases left out."""
    found: Counter[str] = Counter()
    if not plane.audit_log.exists():
        return {}
    for line in plane.audit_log.read_text().splitlines():
        event = json.loads(line)
        about = event.get("objectRef") or {}
        written = event["verb"] in ("create", "update", "patch", "delete") and about.get("resource") != "leases"
        if event["stage"] == "ResponseComplete" and written and event["user"]["username"] != "bench":
            what = "/".join(filter(None, (about.get("resource"), about.get("subresource"))))
            found[f"{event['user']['username']} {event['verb']} {what}"] += 1
    return {key: round(count / pods, 2) for key, count in sorted(found.items())}


def percentile(ordered: list[float], percent: float) -> float | None:
    """Of values in order; None of none."""
    return ordered[min(len(ordered) - 1, round(percent / 100 * (len(ordered) - 1)))] if ordered else None
