"""The core share, in a world of simulated time: the code as it is, a card's engine, and nobody's clock but the world's.

`turns/world.c` says how.  What is asserted is what the card did, in simulated seconds: a slow machine changes nothing.
"""

from __future__ import annotations

import ctypes
import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hami_hub.core.cards import CardUuid
from hami_hub.core.slices import CardShare, CorePolicy, Placement, Priority
from hami_hub.core.units import Mib, Percent
from hami_hub.slicepage import create_slice, layout, read_slice

HERE = Path(__file__).resolve().parent / "turns"
ROOT = HERE.parents[3]
SOURCES = ROOT / "native" / "libvgpu" / "src"
UNDER_TEST = ("costs", "lanes", "meter", "permit", "ring", "share", "spending", "stamps", "turns", "turns_page")
CARD = CardUuid("GPU-00000000-0000-0000-0000-000000000001")
SECONDS = 6
SWITCH = 135  # us, as between two processes on an H200


@dataclass(frozen=True)
class Got:
    """What the card did for a process.

    Attributes:
        first, later: percent of the card in the first second, and after it.
        bursts: ms that each burst of work took.
        gap: the longest time, in ms, in which nothing was done for it.
    """

    first: float
    later: float
    bursts: tuple[float, ...]
    gap: float

    @property
    def median(self) -> float:
        return sorted(self.bursts[3:])[len(self.bursts[3:]) // 2]

    @property
    def worst(self) -> float:
        return max(self.bursts[3:])


@dataclass
class World:
    """Makes slices and lets processes run in them."""

    program: Path
    library: Path
    folder: Path

    def slice(self, number: int, cores: int, policy: str = "default", priority: Priority = Priority.LOW) -> Path:
        directory = self.folder / "slices" / f"s{number}"
        share = CardShare(CARD, Mib(1000), Percent(cores))
        placement = Placement((share,), priority=priority, policy=CorePolicy(policy))
        create_slice(directory, name=f"s{number}", placement=placement, ring=self.folder / "cards")
        return directory

    def run(self, *tenants: dict[str, Any], seconds: float = SECONDS, switch: float = 0) -> list[Got]:
        """Each tenant: cores, policy, priority, processes of its slice; the rest is told to the processes.

        `switch`: us that the card takes to go from one process to another.
        """
        processes = []
        for number, tenant in enumerate(tenants):
            does = dict(tenant)
            wanted = {key: does.pop(key) for key in ("cores", "policy", "priority") if key in does}
            count = does.pop("processes", 1)
            words = [f"slice={self.slice(number, **wanted)}", *(f"{key}={value}" for key, value in does.items())]
            processes += [" ".join(words)] * count
        command = [self.program, self.library, str(seconds), str(switch), *processes]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stderr
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        return [Got(100 * a["first"], 100 * a["later"], tuple(a["bursts"]), a["gap_ms"]) for a in answers]


@pytest.fixture(scope="module")
def programs(native) -> tuple[Path, Path]:
    """The world, and the library that stands in each of its processes."""
    flags = (f"-I{native.folder / 'libvgpu' / 'generated'}", f"-I{ROOT / 'native/simgpu/core'}", "-O2")
    flags += ("-D__CUDA_API_VERSION_INTERNAL", "-DNVML_NO_UNVERSIONED_FUNC_DEFS")
    engine = ROOT / "native" / "simgpu" / "core" / "engine.c"
    sources = [SOURCES / f"{name}.c" for name in UNDER_TEST]
    library = native.compile(HERE / "tenant.c", *sources, flags=(*flags, "-shared", "-fPIC", "-fvisibility=hidden"))
    return native.compile(HERE / "world.c", engine, flags=flags), library


@pytest.fixture
def world(programs) -> Iterator[World]:
    folder = Path(tempfile.mkdtemp(prefix="hami-turns-", dir="/dev/shm"))
    yield World(*programs, folder)
    shutil.rmtree(folder)


def hard(cores: int, **does: Any) -> dict[str, Any]:
    return {"cores": cores, "policy": "force", **does}


# 2.5 ms of work every 50 ms or so
def bursts(cores: int, **does: Any) -> dict[str, Any]:
    return {"cores": cores, "kernel": 100, "period": 50_000, "burst": 2500, **does}


@pytest.mark.parametrize("kernel", [5, 20, 100, 1000, 20_000, 100_000], ids="{} us".format)
@pytest.mark.parametrize("cores", [5, 10, 25, 30, 50, 75, 90])
def test_a_hard_cap_holds(world: World, cores: int, kernel: int):
    # in 5 s there is no half kernel
    (got,) = world.run(hard(cores, kernel=kernel))
    assert got.later == pytest.approx(cores, abs=max(1, kernel / 50_000))
    assert got.first <= cores + max(2, kernel / 10_000)


@pytest.mark.parametrize(
    ("does", "within"),
    [
        ({"kernel": 5, "sync": 1}, 1),
        ({"kernel": 100, "sync": 1}, 1),
        ({"kernel": 1000, "sync": 1}, 1),
        ({"kernel": 20, "sync": 50}, 1),
        ({"kernel": 100, "streams": 4, "kinds": 3}, 2),
        ({"kernel": 100, "streams": 40}, 2),
        ({"kernel": 100, "pause": 100}, 1),
        ({"kernel": 5, "mix": 1, "kinds": 50, "sync": 50}, 1),
        ({"kernel": 5, "mix": 1, "kinds": 50, "sync": 50, "pause": 150}, 1),
    ],
    ids=[
        "5 us waited for",
        "100 us waited for",
        "1 ms waited for",
        "waited for sometimes",
        "streams",
        "many streams",
        "slow",
        "a training",
        "a training slower than the card",
    ],
)
def test_a_hard_cap_holds_however_work_is_started(world: World, does: dict[str, int], within: float):
    (got,) = world.run(hard(30, **does))
    assert got.later == pytest.approx(30, abs=within)


def test_the_slice_owns_the_cap_and_not_its_processes(world: World):
    got = world.run(hard(30, kernel=500, processes=3))
    assert sum(g.later for g in got) == pytest.approx(30, abs=1)
    assert min(g.later for g in got) > 5


@pytest.mark.parametrize("processes", [2, 3, 5])
def test_nobody_pays_for_the_cards_way_between_processes(world: World, processes: int):
    got = world.run(hard(30, kernel=500, processes=processes), switch=SWITCH)
    assert sum(g.later for g in got) == pytest.approx(30, abs=1)


def test_no_cap_holds_whoever_is_alone(world: World):
    (got,) = world.run({"cores": 25, "kernel": 100})
    assert got.later > 99


@pytest.mark.parametrize(("switch", "all_of_it"), [(0, 98), (SWITCH, 96)], ids=["at once", "as on a card"])
@pytest.mark.parametrize("kernels", [(20, 20), (1000, 1000), (20, 1000), (1000, 20)], ids="{0[0]} and {0[1]} us".format)
def test_two_share_the_card_by_their_quotas(world: World, kernels: tuple[int, int], switch: int, all_of_it: int):
    a, b = world.run({"cores": 25, "kernel": kernels[0]}, {"cores": 75, "kernel": kernels[1]}, switch=switch)
    assert a.later + b.later > all_of_it
    assert b.later / a.later == pytest.approx(3, rel=0.05)


def test_kernels_longer_than_a_turn_are_shared_too(world: World):
    a, b = world.run({"cores": 25, "kernel": 20_000}, {"cores": 75, "kernel": 20_000})
    assert a.later + b.later > 98
    assert b.later / a.later == pytest.approx(3, rel=0.15)


@pytest.mark.parametrize("quotas", [(10, 20, 30, 40), (12,) * 8], ids=["four", "eight"])
def test_many_share_the_card_by_their_quotas(world: World, quotas: tuple[int, ...]):
    got = world.run(*({"cores": q, "kernel": 250} for q in quotas))
    total = sum(g.later for g in got)
    assert total > 98
    for quota, tenant in zip(quotas, got, strict=True):
        assert tenant.later / total == pytest.approx(quota / sum(quotas), rel=0.05)


def test_two_hard_caps_hold_side_by_side(world: World):
    a, b = world.run(hard(30), hard(60))
    assert (a.later, b.later) == (pytest.approx(30, abs=1), pytest.approx(60, abs=1))


def test_what_one_leaves_is_lent_and_comes_back(world: World):
    a, b = world.run({"cores": 50, "kernel": 300, "stop": 3_000_000}, {"cores": 50, "kernel": 300, "start": 0})
    assert a.later * 5 == pytest.approx(2 * 50, rel=0.05)
    assert b.later * 5 == pytest.approx(2 * 50 + 3 * 100, rel=0.05)
    view = read_slice(world.folder / "slices" / "s1").cards[0]
    assert view.borrowed_seconds == pytest.approx(1.5, abs=0.2)
    assert view.used_seconds == pytest.approx(4.5, abs=0.1)


@pytest.mark.parametrize(
    ("kernel", "median", "worst"),
    [(20, 2.9, 3.3), (1000, 3.2, 4.0), (20_000, 6.6, 6.7)],
    ids=["20 us", "1 ms", "20 ms"],
)
def test_short_work_goes_first(world: World, kernel: int, median: float, worst: float):
    # alone it takes 2.5 ms; beside a neighbour's 20 ms kernel two of the card's own slices of 2 ms go before its two
    short, long = world.run(bursts(25), {"cores": 50, "kernel": kernel})
    assert short.median < median
    assert short.worst < worst
    assert long.later > 0.96 * (100 - short.later)


def test_short_work_goes_first_on_a_card_that_takes_its_time(world: World):
    short, long = world.run(bursts(25), {"cores": 50, "kernel": 1000}, switch=SWITCH)
    assert short.median < 3.3
    assert short.worst < 4.1
    assert long.later > 0.96 * (100 - short.later)


def test_short_work_goes_first_among_three(world: World):
    short, *others = world.run(bursts(25), *({"cores": 25, "kernel": 1000},) * 3)
    assert short.median < 3.3
    assert sum(g.later for g in others) > 0.96 * (100 - short.later)


def test_high_priority_goes_before_low(world: World):
    high, low = world.run(
        {"cores": 30, "kernel": 300, "priority": Priority.HIGH}, {"cores": 30, "kernel": 300, "priority": Priority.LOW}
    )
    assert high.later > 98
    assert 0 < low.later < 2
    assert low.gap < 210


def test_low_priority_gets_what_high_leaves(world: World):
    high, low = world.run(bursts(25, priority=Priority.HIGH), {"cores": 25, "kernel": 300, "priority": Priority.LOW})
    assert high.median < 3
    assert low.later > 0.96 * (100 - high.later)


def test_two_of_high_priority_are_not_held_to_their_cores(world: World):
    got = world.run(*({"cores": 10, "kernel": 300, "priority": Priority.HIGH},) * 2)
    assert sum(g.later for g in got) > 98


@pytest.mark.parametrize("lie", [1, 2, 3], ids=["claims to work", "claims to want", "rubbish"])
def test_a_lying_page_costs_the_others_little_and_once(world: World, lie: int):
    _, honest = world.run({"cores": 50, "lie": lie}, {"cores": 50, "kernel": 300})
    assert honest.first > 90
    assert honest.later > 99
    assert honest.gap < 100


@pytest.mark.parametrize("kernel", [300, 20_000], ids=["300 us", "20 ms"])
def test_a_death_with_work_on_the_card_costs_the_others_little_and_once(world: World, kernel: int):
    _, other = world.run({"cores": 50, "kernel": kernel, "dies": 1_010_000}, {"cores": 50, "kernel": 300})
    assert other.later > 97
    assert other.gap < 100


def test_a_page_cut_short_is_as_good_as_none(world: World):
    hostile = world.slice(7, 50)
    (hostile / "turns").chmod(0o600)
    with (hostile / "turns").open("r+b") as file:
        file.truncate(100)
    (got,) = world.run({"cores": 25, "kernel": 100})
    assert got.later > 99


MIRRORED = {
    "hami_share": layout.Share,
    "hami_turns_card": layout.TurnsCard,
    "hami_turns_member_card": layout.TurnsMemberCard,
    "hami_lane": layout.Lane,
    "hami_turns_member": layout.TurnsMember,
    "hami_turns": layout.Turns,
    "hami_card_usage": layout.CardUsage,
}


def test_the_mirror_of_the_pages_is_exact(native, tmp_path: Path):
    lines = ['#include "hami_turns.h"', "#include <stddef.h>", "#include <stdio.h>", "int main(void)", "{"]
    expected = []
    for name, mirror in MIRRORED.items():
        lines.append(f'    printf("%zu\\n", sizeof(struct {name}));')
        expected.append(ctypes.sizeof(mirror))
        for field, *_ in mirror._fields_:
            lines.append(f'    printf("%zu\\n", offsetof(struct {name}, {field}));')
            expected.append(getattr(mirror, field).offset)
    source = tmp_path / "sizes.c"
    source.write_text("\n".join([*lines, "    return 0;", "}", ""]))
    done = subprocess.run([native.compile(source)], capture_output=True, text=True, check=True)
    assert [int(line) for line in done.stdout.split()] == expected
