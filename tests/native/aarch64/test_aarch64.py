"""The limiter and the simulated card, compiled for aarch64 and run under qemu-user.

Tried are the ways that depend on the processor or its C library: lookups, atomics, addresses, forks. The card judges,
and the usage page, which is read here: it is the same on every machine.
"""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from hami_hub.core.cards import CardUuid
from hami_hub.core.slices import CardShare, Placement
from hami_hub.core.units import Mib, Percent
from hami_hub.slicepage import CardView, create_slice, read_slice, resize_card

from ..conftest import ROOT, NativeBuild, build_native

HERE = Path(__file__).resolve().parent
WAYS = ROOT / "bench" / "limiter" / "ways"
COMPILER, QEMU, LIBRARIES = "aarch64-linux-gnu-gcc", "qemu-aarch64", Path("/usr/aarch64-linux-gnu")
LIMIT, CONTEXT = 4000, 104
SECONDS = 120
ROUNDS = "20"  # of a race: 100 took a minute on a machine with much other work
FLAGS = ("-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE", "-pthread")


def what_is_missing() -> str:
    """In a word; "" where everything is there."""
    if platform.machine() == "aarch64":
        return "this machine is one itself"
    missing = [tool for tool in (COMPILER, QEMU) if not shutil.which(tool)]
    missing += [] if (LIBRARIES / "lib" / "libc.so.6").exists() else ["libc6-arm64-cross"]
    return f"there is no {', no '.join(missing)}" if missing else ""


pytestmark = pytest.mark.skipif(bool(what_is_missing()), reason=f"aarch64 is not tried: {what_is_missing()}")


@dataclass(frozen=True)
class Arm:
    """A simulated machine with another processor, with one card and one slice on it."""

    build: NativeBuild
    programs: Path
    folder: Path

    def run(self, program: str, *arguments: str, limited: bool = True) -> list[str]:
        """The lines that a program says, which ends when it is told to go on."""
        told = {
            "LD_LIBRARY_PATH": self.build.sim,
            "HAMI_SIM_DIR": self.folder / "sim",
            "HAMI_SIM_PROFILE": "t4",
            "HAMI_SLICE_DIR": self.folder / "slice",
            "LD_PRELOAD": f"{self.programs / 'true_proc.so'} {self.build.limiter}" if limited else "",
        }
        command = [QEMU, "-L", LIBRARIES, *(word for n, v in told.items() for word in ("-E", f"{n}={v}"))]
        done = subprocess.run(
            list(map(str, [*command, self.programs / program, *arguments])),
            input="go\n",
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{done.stdout}{done.stderr}"
        return done.stdout.splitlines()

    def in_use(self) -> int:
        """MiB that are taken on the card."""
        return int(self.run("card", limited=False)[1])

    def page(self) -> CardView:
        """What the slice says of its card."""
        return read_slice(self.folder / "slice").cards[0]


def compile_for_arm(output: Path, include: Path, sources: Sequence[Path], *flags: Path | str) -> None:
    command = [COMPILER, *FLAGS, "-isystem", include, f"-I{ROOT / 'native' / 'simgpu'}", *sources, *flags, "-o", output]
    subprocess.run(list(map(str, command)), check=True)


@pytest.fixture(scope="session")
def build() -> NativeBuild:
    return build_native("native-aarch64", compiler=COMPILER)


@pytest.fixture(scope="session")
def programs(build: NativeBuild) -> Path:
    folder = build.folder / "programs"
    folder.mkdir(exist_ok=True)
    apart = {"cudart.c", "static.c", "plugin.c"}
    driver = (build.sim / "libcuda.so.1", "-Wl,--allow-shlib-undefined", "-ldl")
    compile_for_arm(
        folder / "ways", build.include, [f for f in sorted(WAYS.glob("*.c")) if f.name not in apart], *driver
    )
    compile_for_arm(folder / "card", build.include, [HERE / "card.c"], *driver)
    compile_for_arm(folder / "plugin.so", build.include, [WAYS / "plugin.c"], "-shared", "-fPIC", "-ldl")
    compile_for_arm(folder / "true_proc.so", build.include, [HERE / "true_proc.c"], "-shared", "-fPIC")
    return folder


@pytest.fixture
def arm(build: NativeBuild, programs: Path) -> Iterator[Arm]:
    with tempfile.TemporaryDirectory(prefix="hami-test-arm-", dir="/dev/shm", ignore_cleanup_errors=True) as name:
        arm = Arm(build, programs, Path(name))
        (arm.folder / "sim").mkdir()
        uuid, _ = arm.run("card", limited=False)
        placement = Placement((CardShare(CardUuid(uuid), Mib(LIMIT), Percent(0)),))
        create_slice(arm.folder / "slice", name="arm", placement=placement)
        yield arm


# where a program is alone, it can have all but its context
ALONE = (
    "blocks_of_64m",
    "small_blocks",
    "pool_default",
    "pool_own",
    "vmm_map_and_release",
    "array_3d",
    "module_data",
    "library_launch",
    "graph_node",
    "racing_threads",
    "contexts",
    "by_dlsym",
    "by_dlvsym",
    "by_dlsym_of_dlsym",
    "by_rtld_next",
    "by_proc_address",
    "by_its_own_address",
    "plugin_deepbind",
    "plugin_namespace",
    "copied_driver",
)
# what these cost is seen only when it is there: taken, and undone
SEEN_AFTERWARDS = ("small_blocks", "module_data", "library_launch", "contexts")
# not kill_one_of_three: qemu-user has no robust locks, by which the simulated card survives a death at work
TOGETHER = ("racing_children", "racing_rounds", "fork_before")


def granted(lines: Sequence[str]) -> int:
    return next(int(line.split()[1]) for line in lines if line.startswith("granted"))


@pytest.mark.parametrize("way", [*ALONE, *TOGETHER])
def test_a_way_is_held(arm: Arm, way: str):
    lines = arm.run("ways", way, str(LIMIT), str(CONTEXT), ROUNDS)
    assert any(line.startswith("refused 2 ") for line in lines), lines
    assert granted(lines) <= LIMIT - CONTEXT
    # nobody is refused a context that fits, whoever makes the first one
    assert way != "racing_rounds" or f"note 8 processes, {ROUNDS} rounds," in "\n".join(lines)
    page = arm.page()
    assert page.refusals >= 1
    assert page.peak <= LIMIT or way in SEEN_AFTERWARDS
    # all of it came back with the processes, on the card and in the ledger
    assert arm.in_use() == 0
    assert page.used == 0


def test_what_a_killed_process_held_can_be_had_again(arm: Arm):
    """Killed at rest, see `TOGETHER`."""
    lines = arm.run("ways", "kill_a_holder", str(LIMIT), str(CONTEXT))
    expected = next(int(line.split()[1]) for line in lines if line.startswith("expect"))
    assert granted(lines) >= expected


def test_racers_without_a_context_keep_nobody_waiting(arm: Arm):
    resize_card(arm.folder / "slice", uuid=CardUuid(arm.page().uuid), vram=Mib(6 * CONTEXT + 50))
    lines = arm.run("ways", "racing_rounds", str(LIMIT), str(CONTEXT), ROUNDS)
    assert "refused 2 cuDevicePrimaryCtxRetain" in lines
    assert any(line.startswith("note 6 processes, ") for line in lines), lines


def test_needs_no_symbol_newer_than_glibc_2_17(build: NativeBuild):
    told = subprocess.run(
        ["aarch64-linux-gnu-objdump", "-T", build.limiter], capture_output=True, text=True, check=True
    ).stdout
    assert set(re.findall(r"GLIBC_([\d.]+)", told)) == {"2.17"}


def test_without_the_limiter_the_same_program_passes(arm: Arm):
    assert granted(arm.run("ways", "blocks_of_64m", str(LIMIT), str(CONTEXT), limited=False)) > LIMIT
