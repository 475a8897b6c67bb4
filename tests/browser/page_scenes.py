"""The situations in which the service's page is looked at: what the journal, the hub and the cards say."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from hami_hub.core.cards import Card, CardUuid
from hami_hub.core.history import Start, StartState
from hami_hub.core.inventory import QueuedPod
from hami_hub.core.units import Mib
from hami_hub.service.sight import CardSeen, Sight, SliceSeen

NOW = time.time()
HOUR = 3600.0
T4, A10, H200 = Mib(15360), Mib(23028), Mib(143771)
SCRIPT = "<img src=x onerror=document.title='hit'>"


@dataclass
class Scene:
    """What there is.

    Attributes:
        starts: what the journal has; None: there is no journal.
        groups: name to properties and members.
        hub: whether it answers.
    """

    sight: Sight = field(default_factory=Sight)
    starts: tuple[Start, ...] | None = ()
    groups: dict[str, tuple[dict[str, Any], list[str]]] = field(default_factory=dict)
    default_quota: dict[str, Any] = field(default_factory=dict)
    hub: bool = True


def card(index: int, model: str = "Tesla T4", vram: Mib = T4, *, node: str = "", healthy: bool = True) -> CardSeen:
    uuid = CardUuid(f"GPU-{node}{index:08d}")
    return CardSeen(card=Card(uuid=uuid, index=index, model=model, vram=vram, healthy=healthy), node=node)


def start(
    number: int,
    user: str,
    *,
    server: str = "",
    group: str = "",
    profile: str = "gpu-4g",
    gib: int = 4,
    cores: int = 25,
    ago: float = 1.0,
    lasted: float | None = None,
    state: StartState = StartState.RUNNING,
    placed: tuple[str, ...] = (),
    lifetime: float | None = None,
    **more: Any,
) -> Start:
    asked = NOW - ago * HOUR
    ran = state in (StartState.RUNNING, StartState.ENDED)
    return Start(
        id=f"{number:032x}",
        user=user,
        server=server,
        group=group,
        profile=profile,
        cards=1 if gib else 0,
        vram=Mib(gib * 1024),
        cores=cores if gib else 0,
        asked_at=asked,
        state=state,
        placed=placed,
        started_at=asked + 2 if ran else None,
        ended_at=None if state.open else asked + (lasted or 0.0) * HOUR,
        until=asked + lifetime * HOUR if lifetime else None,
        **more,
    )


def held(of: Start, used: float, *, exclusive: bool = False) -> SliceSeen:
    """What is seen on its card of a start that runs; `used` is a part of 1."""
    return SliceSeen(
        holder=of.server_of,
        card=CardUuid(of.placed[0]),
        vram=of.vram,
        cores=of.cores,
        exclusive=exclusive,
        used=Mib(int(of.vram * used)),
    )


def _lab() -> Scene:
    """Three cards, a handful of people, two groups with quotas, one of them full."""
    cards = (card(0), card(1), card(2, "NVIDIA A10", A10), card(3, healthy=False))
    t4, other, a10 = (seen.card.uuid for seen in cards[:3])
    running = (
        start(1, "alice", group="ml", ago=3.2, placed=(t4,), lifetime=8),
        start(2, "bob", group="ml", gib=8, cores=50, profile="gpu-8g", ago=1.5, placed=(t4,), lifetime=8),
        start(3, "carol", group="bio", gib=2, cores=0, profile="gpu-2g", ago=26, placed=(t4,)),
        start(4, "alice", server="train", group="ml", gib=12, cores=50, profile="gpu-other", ago=0.4, placed=(a10,)),
        start(5, "dora", group="bio", gib=15, cores=100, profile="gpu-whole", ago=5, placed=(other,), lifetime=12),
        start(6, "emil", group="bio", gib=4, ago=0.1, placed=(a10,)),
    )
    uses = zip(running, (0.62, 0.93, 0.2, 0.35, 0.8, 0.01), strict=True)
    full = "Your start needs 8 GiB, and 0 MiB is left of what the group ml has: 24 GiB of VRAM (hami.vram)."
    waits = "The Tesla T4 has 1 GiB free, 8 GiB are asked for. Pick 6 GiB or less, or wait until a server stops."
    others = (
        start(7, "fritz", group="bio", gib=8, state=StartState.WAITING, ago=0.3, position=1, words=waits),
        start(8, "gina", group="bio", gib=15, state=StartState.WAITING, ago=0.2, position=2, words=waits),
        start(9, "hugo", group="ml", gib=8, ago=0.5, state=StartState.REFUSED, reason="hami-quota", words=full),
        start(10, "hugo", profile="cpu", gib=0, ago=0.6, lasted=0.2, state=StartState.ENDED),
        start(11, "ines", group="ml", ago=0.8, state=StartState.CANCELLED),
        start(12, "ines", ago=2, state=StartState.FAILED, reason="hami-server-ended", words="Your server ended."),
    )
    past = tuple(
        start(100 + i, ("alice", "bob", "carol", "dora", "ines")[i % 5], group=("ml", "bio")[i % 2], gib=2 + i % 7,
              ago=12 + 9 * i, lasted=1 + i % 6, state=StartState.ENDED)
        for i in range(60)
    )  # fmt: skip
    return Scene(
        sight=Sight(
            cards=cards, slices=tuple(held(each, used, exclusive=each.user == "dora") for each, used in uses)
        ),
        starts=(*running, *others, *past),
        groups={
            "ml": ({"hami.vram": "24GiB", "hami.cores": "200", "hami.vram-per-user": "16GiB", "owner": "mona"},
                   ["alice", "bob", "hugo", "ines"]),
            "bio": ({"hami.vram": "32GiB", "hami.servers": "4", "hami.user.dora.vram": "16GiB", "hami.weight": "2"},
                    ["carol", "dora", "emil", "fritz", "gina"]),
            "physics": ({"hami.vram": "24GB", "hami.vrma": "1GiB"}, ["jan"]),
            "staff": ({}, ["ada"]),
        },
        default_quota={"hami.vram-per-user": "4GiB", "hami.servers-per-user": "1"},
    )  # fmt: skip


def _campus() -> Scene:
    """1,000 servers on 200 cards, 10,000 users with a month behind them."""
    cards = tuple(card(i % 8, "NVIDIA H200", H200, node=f"gpu-node-{i // 8:02d}") for i in range(200))
    running = tuple(
        start(i, f"user{i:05d}", group=f"group{i % 40:02d}", gib=8 + i % 4 * 4, ago=(i % 50) / 5 + 0.1,
              placed=(cards[i % 200].card.uuid,))
        for i in range(1000)
    )  # fmt: skip
    waiting = tuple(
        start(2000 + i, f"user{2000 + i:05d}", group=f"group{i % 40:02d}", gib=64, ago=0.1, state=StartState.WAITING,
              position=i + 1, words="No node has that much free.")
        for i in range(120)
    )  # fmt: skip
    past = tuple(
        start(10_000 + i, f"user{i % 10_000:05d}", group=f"group{i % 40:02d}", gib=4 + i % 5, ago=20 + i / 30,
              lasted=2, state=StartState.ENDED)
        for i in range(20_000)
    )  # fmt: skip
    members = {f"group{g:02d}": [f"user{i:05d}" for i in range(g, 10_000, 40)] for g in range(40)}
    return Scene(
        sight=Sight(cards=cards, slices=tuple(held(each, (i % 10) / 10) for i, each in enumerate(running))),
        starts=(*running, *waiting, *past),
        groups={name: ({"hami.vram": f"{400 + len(users)}GiB"}, users) for name, users in members.items()},
    )


def _hostile() -> Scene:
    """Every name and text that somebody can choose tries to be a script."""
    bad = start(1, SCRIPT, server=SCRIPT, group=SCRIPT, profile=SCRIPT, placed=("GPU-00000000",), words=SCRIPT)
    strange = start(2, "__proto__", group="__proto__", placed=("GPU-00000000",))
    refused = start(3, SCRIPT, group=SCRIPT, state=StartState.REFUSED, reason=SCRIPT, words=SCRIPT, ago=0.2)
    waits = start(4, SCRIPT, server="w", group=SCRIPT, state=StartState.WAITING, position=1, words=SCRIPT, ago=0.1)
    return Scene(
        sight=Sight(
            cards=(card(0, SCRIPT),),
            slices=(held(bad, 0.5), held(strange, 0.1)),
            waiting=(QueuedPod(SCRIPT, "pod", place=2, asks=SCRIPT, reason=SCRIPT),),
            problems=(SCRIPT,),
        ),
        starts=(bad, strange, refused, waits),
        groups={
            SCRIPT: ({"hami.vram": SCRIPT, f"hami.{SCRIPT}": SCRIPT, SCRIPT: SCRIPT, "hami.vrma": [SCRIPT]}, [SCRIPT]),
            "__proto__": ({"hami.vram": "8GiB"}, ["__proto__"]),
            "a/b c?d#e%f": ({"hami.vram": "8GiB"}, []),
        },
    )


SCENES = {
    "lab": _lab,
    "campus": _campus,
    "hostile": _hostile,
    "empty": lambda: Scene(sight=Sight(cards=(card(0),))),
    "blind": lambda: Scene(sight=Sight(problems=("NVML refuses this user.",)), starts=None, hub=False),
}
