"""What is tried: tenants with a share of the card and something to do.

Data only: `ground` runs it, `report` shows it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from signal import SIGKILL, SIGSTOP, Signals

RAW, OURS, OTHER = "none", "ours", "other"
QUOTAS = (5, 10, 25, 30, 50, 75, 90)


@dataclass(frozen=True)
class Tenant:
    """One slice and what its processes do.

    Attributes:
        cores: percent of the card; 0: no core limit.
        us: what one kernel takes alone on the card.
        does: further options of worker.c; for `train`, of train.py.
        processes: that do the same in this slice.
        high: priority 0.
        struck: a signal that it gets two seconds in; nothing is asked of it afterwards.
    """

    cores: int
    us: float = 1000
    does: Mapping[str, str | int | float] = field(default_factory=dict)
    policy: str = "default"
    processes: int = 1
    high: bool = False
    struck: Signals | None = None

    @property
    def route(self) -> str:
        """How it starts work."""
        return str(self.does.get("route", "launch"))


@dataclass(frozen=True)
class Scenario:
    """Tenants that start at one moment.

    Attributes:
        group: the table it stands in.
        name: a word, for --only; unique.
        columns: under which limiters.
    """

    group: str
    name: str
    title: str
    tenants: Sequence[Tenant]
    seconds: float = 4
    columns: Sequence[str] = (OURS,)


def _hard(
    name: str, title: str, cores: int, us: float, *, other: bool = False, seconds: float = 4, **does: str | int | float
) -> Scenario:
    processes = int(does.pop("processes", 1))
    tenant = Tenant(cores, us, does, policy="force", processes=processes)
    return Scenario("hard", name, title, (tenant,), seconds, (OURS, OTHER) if other else (OURS,))


_QUOTAS = [_hard(f"quota-{q}", f"{q} %, kernels of 1 ms", q, 1000, other=q in (10, 30, 75)) for q in QUOTAS]
_KERNELS = [
    _hard(f"kernel-{us}", f"30 %, kernels of {us} us", 30, us, other=us == 100, seconds=5 if us > 1000 else 4)
    for us in (5, 20, 100, 20_000, 100_000)
]
BIG, SMALL = 16384, 4096  # batches of a training: with the small one the processor is slower than the card
_ROUTES = [
    _hard("sync-5", "30 %, launch and synchronise, 5 us", 30, 5, route="sync"),
    _hard("sync-100", "30 %, launch and synchronise, 100 us", 30, 100, route="sync"),
    _hard("sync-1000", "30 %, launch and synchronise, 1 ms", 30, 1000, route="sync"),
    _hard("graph-1", "30 %, graph of one 1 ms kernel", 30, 1000, route="graph", nodes=1),
    _hard("graph-100", "30 %, graph of 100 x 20 us", 30, 20, route="graph", nodes=100, other=True),
    _hard("graph-10000", "30 %, graph of 10,000 x 5 us", 30, 5, route="graph", nodes=10_000),
    _hard("cooperative", "30 %, cooperative launches, 1 ms", 30, 1000, route="cooperative"),
    _hard("ptsz", "30 %, per-thread default stream, 100 us", 30, 100, route="ptsz"),
    _hard("ex", "30 %, cuLaunchKernelEx, 100 us", 30, 100, route="ex"),
    _hard("small-grid", "30 %, one block, 100 us", 30, 100, grid="small"),
    _hard("streams", "30 %, four streams of small kernels, 50 us", 30, 50, grid="small", streams=4),
    _hard("threads", "30 %, four threads, 100 us", 30, 100, threads=4),
    _hard("processes", "30 %, three processes in the slice, 500 us", 30, 500, processes=3),
    _hard("memset", "30 %, memset of 64 MiB", 30, 0, route="memset"),
    _hard("copy", "30 %, copies of 64 MiB on the card", 30, 0, route="copy"),
    _hard("train", "30 %, PyTorch training that keeps the card busy", 30, 0, route="train", batch=BIG),
    _hard("train-small", "30 %, PyTorch training that is slower than the card", 30, 0, route="train", batch=SMALL),
]


def _watching() -> Tenant:
    return Tenant(50, 300, {"gaps": 1})


def _training(batch: int) -> Tenant:
    return Tenant(25, 0, {"route": "train", "batch": batch})


_ELASTIC = [
    Scenario("elastic", "alone", "25 % alone", (Tenant(25, 100),), 4, (RAW, OURS)),
    Scenario("elastic", "alone-train", "25 % alone, PyTorch training", (_training(BIG),), 6, (RAW, OURS)),
    Scenario("elastic", "alone-train-small", "25 % alone, a smaller one", (_training(SMALL),), 6, (RAW, OURS)),
    Scenario("elastic", "pair-20", "25 : 75, 20 us", (Tenant(25, 20), Tenant(75, 20))),
    Scenario("elastic", "pair-1000", "25 : 75, 1 ms", (Tenant(25), Tenant(75)), columns=(OURS, OTHER)),
    Scenario("elastic", "pair-20000", "25 : 75, 20 ms", (Tenant(25, 20_000), Tenant(75, 20_000))),
    Scenario("elastic", "pair-mixed", "50 : 50, 20 us beside 1 ms", (Tenant(50, 20), Tenant(50))),
    Scenario("elastic", "four", "10 : 20 : 30 : 40, 300 us", tuple(Tenant(10 * i, 300) for i in (1, 2, 3, 4))),
    Scenario("elastic", "eight", "eight of 12 %, 200 us", (Tenant(12, 200),) * 8),
    Scenario("elastic", "hard-pair", "hard 30 + 60, 1 ms", (Tenant(30, policy="force"), Tenant(60, policy="force"))),
    Scenario(
        "elastic", "stopped", "one stopped (SIGSTOP), 300 us", (_watching(), replace(_watching(), struck=SIGSTOP))
    ),
    Scenario("elastic", "killed", "one killed, 300 us", (_watching(), replace(_watching(), struck=SIGKILL))),
    Scenario(
        "elastic",
        "priority",
        "high 30 beside low 30, 300 us",
        (Tenant(30, 300, high=True), replace(_watching(), cores=30)),
    ),
]
# 2.5 ms of work every 50 ms, as three kernels
BURST = Tenant(25, 2500 / 3, {"route": "burst", "burst": 3, "period": 50_000})
_INTERACTIVE = [
    Scenario("interactive", "burst-alone", "alone", (BURST,), columns=(RAW, OURS)),
    Scenario("interactive", "burst-20", "beside kernels of 20 us", (BURST, Tenant(50, 20)), 5, (OURS,)),
    Scenario("interactive", "burst-1000", "beside kernels of 1 ms", (BURST, Tenant(50)), 5, (RAW, OURS, OTHER)),
    Scenario("interactive", "burst-20000", "beside kernels of 20 ms", (BURST, Tenant(50, 20_000)), 5, (RAW, OURS)),
    Scenario(
        "interactive", "burst-three", "beside three with kernels of 1 ms", (BURST, *(Tenant(25),) * 3), 5, (RAW, OURS)
    ),
]
SCENARIOS: Sequence[Scenario] = (*_QUOTAS, *_KERNELS, *_ROUTES, *_ELASTIC, *_INTERACTIVE)

# What is measured first, so that a time that is too short leaves out what tells the least.
_FIRST = [
    "burst-alone",
    "burst-1000",
    "quota-30",
    "kernel-5",
    "sync-5",
    "processes",
    "train",
    "train-small",
    "pair-mixed",
    "pair-20",
    "quota-10",
    "quota-75",
    "graph-100",
    "burst-20",
    "burst-three",
    "alone-train",
    "alone-train-small",
    "stopped",
    "killed",
    "priority",
    "kernel-20",
    "hard-pair",
    "eight",
]
BY_WORTH: Sequence[Scenario] = sorted(SCENARIOS, key=lambda s: _FIRST.index(s.name) if s.name in _FIRST else 99)

# threads that launch at once, cores (0: no limit)
LAUNCHES = ((1, 0), (4, 0), (16, 0), (1, 25), (4, 25), (16, 25))
