"""`hami-hub smi` on a simulated card: outside, inside a slice, and beside what other slices do."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hami_hub.core.cards import CardUuid
from hami_hub.core.slices import CardShare, Placement
from hami_hub.core.units import Mib, Percent
from hami_hub.native import NativeMissingError, limiter_path, sim_environment
from hami_hub.slicepage import create_slice, resize_card

_HOLD = """
from cuda.bindings import driver
def good(answer):
    assert answer[0] == 0, answer
    return answer[1] if len(answer) > 1 else None
good(driver.cuInit(0))
good(driver.cuCtxSetCurrent(good(driver.cuDevicePrimaryCtxRetain(0))))
good(driver.cuMemAlloc({mib} << 20))
refused = driver.cuMemAlloc(8000 << 20)[0]
print(int(refused), flush=True)
input()
"""
_OUT_OF_MEMORY = "2"


@pytest.fixture
def memory() -> Iterator[Path]:
    """A folder on tmpfs."""
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="hami-test-") as folder:
        yield Path(folder)


@pytest.fixture
def card(memory: Path) -> dict[str, str]:
    """The environment in which there is one simulated T4."""
    try:
        simulation = sim_environment(memory / "cards")
    except NativeMissingError as error:
        pytest.skip(str(error))
    (memory / "cards").mkdir()
    foreign = ("HAMI_SLICE_DIR", "LD_PRELOAD", "CUDA_VISIBLE_DEVICES")
    return {name: value for name, value in os.environ.items() if name not in foreign} | simulation


@pytest.fixture
def in_slice(card: dict[str, str], memory: Path) -> dict[str, str]:
    """The same, in a slice of 4000 MiB and a quarter of the card's time."""
    share = CardShare(uuid=CardUuid(uuid_of(card)), vram=Mib(4000), cores=Percent(25))
    create_slice(memory / "slice", name="alice/", placement=Placement((share,)))
    return {**card, "LD_PRELOAD": str(limiter_path()), "HAMI_SLICE_DIR": str(memory / "slice")}


def smi(environment: dict[str, str], *options: str) -> str:
    command = [sys.executable, "-m", "hami_hub.cli", "smi", *options]
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert answer.returncode == 0, answer.stderr
    assert answer.stderr == ""
    return answer.stdout


def smi_fails(environment: dict[str, str], *options: str) -> str:
    command = [sys.executable, "-m", "hami_hub.cli", "smi", *options]
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert answer.returncode == 1
    assert answer.stdout == ""
    return answer.stderr


def uuid_of(environment: dict[str, str]) -> str:
    return smi(environment, "--query-gpu=uuid", "--format=csv,noheader").strip()


def holding(environment: dict[str, str], mib: int) -> subprocess.Popen[str]:
    """A process that holds memory, and was refused some, until its stdin is closed."""
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLD.format(mib=mib)],
        env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    assert line == (_OUT_OF_MEMORY if "LD_PRELOAD" in environment else "0")
    return process


def test_outside_a_slice_it_is_the_card(card: dict[str, str]) -> None:
    uuid = uuid_of(card)
    assert smi(card, "-L") == f"GPU 0: Tesla T4 (UUID: {uuid})\n"
    assert smi(card, "--query-gpu=name,memory.total,memory.used", "--format=csv") == (
        "name, memory.total [MiB], memory.used [MiB]\nTesla T4, 15360 MiB, 0 MiB\n"
    )
    table = smi(card)
    assert "/  15360MiB |" in table
    assert "No running processes found" in table


def test_inside_a_slice_it_is_the_slice(card: dict[str, str], in_slice: dict[str, str]) -> None:
    assert uuid_of(in_slice) == uuid_of(card)
    assert smi(in_slice, "--query-gpu=memory.total", "--format=csv") == "memory.total [MiB]\n4000 MiB\n"
    lines = smi(in_slice).splitlines()
    assert lines[1].startswith("+---")
    assert lines[-1].startswith("+---")
    assert any("/   4000MiB |" in line for line in lines)


def test_the_environment_alone_does_not_hide_the_slice(in_slice: dict[str, str]) -> None:
    del in_slice["LD_PRELOAD"]
    assert smi(in_slice, "--query-gpu=memory.total", "--format=csv,noheader,nounits") == "4000\n"


def test_processes_and_refusals_of_the_slice(card: dict[str, str], in_slice: dict[str, str]) -> None:
    assert smi(in_slice, "--refusals") == "Nothing was refused in this slice.\n"
    with holding(card, 1000) as neighbour, holding(in_slice, 512) as own:
        apps = smi(in_slice, "--query-compute-apps=pid,process_name,used_memory", "--format=csv,noheader,nounits")
        (row,) = [line.split(", ") for line in apps.splitlines()]
        assert row[0] == str(own.pid)
        assert row[1] == sys.executable
        used = int(row[2])
        assert 512 < used < 1024  # with its context
        assert f"{used}MiB |" in smi(in_slice)
        assert smi(in_slice, "--query-gpu=memory.used", "--format=csv,noheader,nounits") == f"{used}\n"
        outside = smi(card, "--query-compute-apps=pid", "--format=csv,noheader").split()
        assert {str(own.pid), str(neighbour.pid)} <= set(outside)
        refusal = smi(in_slice, "--refusals")
        assert f"process {own.pid} (" in refusal
        assert f"asked for 8000 MiB by cuMemAlloc_v2: {used} MiB of the slice's 4000 MiB were in use" in refusal
        assert own.stdin is not None
        own.stdin.close()
        own.wait(30)
        assert smi(in_slice, "--query-gpu=memory.used", "--format=csv,noheader,nounits") == "0\n"
        neighbour.kill()


def test_a_slice_that_was_made_smaller_shows_what_it_holds(card: dict[str, str], in_slice: dict[str, str]) -> None:
    with holding(in_slice, 512) as own:
        used = int(smi(in_slice, "--query-gpu=memory.used", "--format=csv,noheader,nounits"))
        for limit in (6000, 300):
            resize_card(Path(in_slice["HAMI_SLICE_DIR"]), uuid=uuid_of(card), vram=Mib(limit))
            fields = smi(in_slice, "--query-gpu=memory.used,memory.total,memory.free", "--format=csv,noheader,nounits")
            assert fields == f"{used}, {limit}, {max(0, limit - used)}\n"
        assert f"{used}MiB /    300MiB |" in smi(in_slice)
        own.kill()


def test_a_slice_without_cards(card: dict[str, str], memory: Path) -> None:
    create_slice(memory / "none", name="bob/", placement=Placement(()))
    environment = {**card, "LD_PRELOAD": str(limiter_path()), "HAMI_SLICE_DIR": str(memory / "none")}
    assert smi(environment) == "No devices were found\n"
    assert smi(environment, "--query-gpu=uuid", "--format=csv,noheader") == ""


@pytest.mark.parametrize(
    ("options", "words"),
    [
        pytest.param(["--query-gpu=colour"], '"colour" is not a field', id="field"),
        pytest.param(["--query-gpu=uuid", "--format=json"], '"json" is not a format', id="format"),
        pytest.param(["-i", "7"], 'There is no card "7" here', id="card"),
        pytest.param(["--refusals"], "This is no slice", id="refusals-outside"),
    ],
)
def test_what_cannot_be_answered_is_told_in_one_sentence(card: dict[str, str], options: list[str], words: str) -> None:
    answer = smi_fails(card, *options)
    assert words in answer
    assert answer.count("\n") == 1


def test_a_damaged_page_is_told(in_slice: dict[str, str], memory: Path) -> None:
    (memory / "slice" / "limits").unlink()
    (memory / "slice" / "limits").write_bytes(b"rubbish")
    assert "is damaged" in smi_fails(in_slice)
    assert "is damaged" in smi_fails(in_slice, "--refusals")


def test_no_driver(card: dict[str, str]) -> None:
    if Path("/dev/nvidiactl").exists():
        pytest.skip("This machine has a driver.")
    del card["LD_LIBRARY_PATH"]
    assert "Install the NVIDIA driver, or use simulated cards." in smi_fails(card)
