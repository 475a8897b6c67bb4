"""How long the choice of a node takes, by the number of nodes: all nodes as candidates, T4 cards, pods of any size."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass

from hami_hub.core.cards import Card, CardUuid
from hami_hub.core.fleet import Fleet
from hami_hub.core.pods import ContainerAsk, PodUid, PodView
from hami_hub.core.slices import CardPolicy, CardShare, Placement, SliceRequest
from hami_hub.core.units import Mib, Percent

SIZES = ((10, 200), (100, 2000), (1000, 10_000), (5000, 10_000))
_CARDS = 8
_ROUNDS = 300


@dataclass(frozen=True, slots=True)
class Timed:
    """Milliseconds of one decision: by the clock, and of the processor's time, which others' work doesn't lengthen."""

    nodes: int
    pods: int
    what: str
    p50: float
    p99: float
    cpu_p50: float
    cpu_p99: float


def time_filter(nodes: int, pods: int) -> list[Timed]:
    """The lines for so many nodes with so many pods on them."""
    wall, cpu = time.perf_counter(), time.process_time()
    fleet, names = _fleet(nodes, pods)
    fleet.try_place(_view("first", SliceRequest(vram=Mib(3000))), names)
    wall, cpu = 1000 * (time.perf_counter() - wall), 1000 * (time.process_time() - cpu)
    lines = [Timed(nodes, pods, "all nodes, all pods and the first answer", wall, wall, cpu, cpu)]
    rng = random.Random(nodes)  # noqa: S311 - a bench that can be repeated
    lines.append(_timed(fleet, names, nodes, pods, "gpumem 3000, gpucores 10", [SliceRequest(
        vram=Mib(3000), cores=Percent(10), card_policy=CardPolicy.FGD)] * _ROUNDS))  # fmt: skip
    lines.append(_timed(fleet, names, nodes, pods, "five profiles", [_common(rng) for _ in range(_ROUNDS)]))
    lines.append(_timed(fleet, names, nodes, pods, "every amount another", [_any(rng) for _ in range(_ROUNDS)]))
    lines.append(_timed(fleet, names, nodes, pods, "2 cards", [SliceRequest(
        cards=2, vram=Mib(rng.randrange(500, 2000)), card_policy=CardPolicy.FGD) for _ in range(_ROUNDS)]))  # fmt: skip
    lines.append(_timed(fleet, names, nodes, pods, "no room", [SliceRequest(
        vram=Mib(15_360 + 1 + number % 5), card_policy=CardPolicy.FGD) for number in range(_ROUNDS)]))  # fmt: skip
    return lines


def _timed(
    fleet: Fleet, names: Sequence[str], nodes: int, pods: int, what: str, requests: Sequence[SliceRequest]
) -> Timed:
    wall, cpu = [], []
    for number, request in enumerate(requests):
        view = _view(f"{what}-{number}", request)
        began, worked = time.perf_counter(), time.process_time()
        fleet.reserve(view, names, until=1)
        cpu.append(1000 * (time.process_time() - worked))
        wall.append(1000 * (time.perf_counter() - began))
    for number in range(len(requests)):
        fleet.release(PodUid(f"{what}-{number}"))
    wall.sort()
    cpu.sort()
    middle, late = len(wall) // 2, len(wall) * 99 // 100
    return Timed(nodes, pods, what, wall[middle], wall[late], cpu[middle], cpu[late])


def _fleet(nodes: int, pods: int) -> tuple[Fleet, list[str]]:
    """Pods are dealt out to the nodes and their cards in turn, no two of a card alike."""
    fleet = Fleet()
    names = [f"node-{number:05d}" for number in range(nodes)]
    for name in names:
        cards = [Card(CardUuid(f"GPU-{name}-{index}"), index, "Tesla T4", Mib(15360)) for index in range(_CARDS)]
        fleet.set_node(name, cards)
    rng = random.Random(nodes)  # noqa: S311
    for number in range(pods):
        name, index = names[number % nodes], number // nodes * 3 % _CARDS
        request = _common(rng)
        share = CardShare(CardUuid(f"GPU-{name}-{index}"), request.vram or Mib(1), request.cores)
        fleet.set_pod(
            PodView(
                namespace="ns",
                name=f"running-{number}",
                uid=PodUid(f"running-{number}"),
                node=name,
                asks=(ContainerAsk("main", request),),
                slices={"main": Placement((share,), node=name)},
                slots=1,
            )
        )
    return fleet, names


def _view(uid: str, request: SliceRequest) -> PodView:
    return PodView(namespace="ns", name=uid, uid=PodUid(uid), asks=(ContainerAsk("main", request),))


def _common(rng: random.Random) -> SliceRequest:
    vram, cores = rng.choice([(1024, 0), (2048, 10), (2048, 0), (3000, 10), (4096, 25)])
    return SliceRequest(vram=Mib(vram), cores=Percent(cores), card_policy=CardPolicy.FGD)


def _any(rng: random.Random) -> SliceRequest:
    return SliceRequest(
        vram=Mib(rng.randrange(500, 9000)), cores=Percent(rng.randrange(0, 60)), card_policy=CardPolicy.FGD
    )
