"""Where the limits come from, and what happens when a page is not what it should be: never silently unlimited."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from guest_calls import NOT_PERMITTED, OUT_OF_MEMORY

from hami_hub.slicepage import layout

from .conftest import PROGRAMS, T4_MIB, Machine, Slice

NVML_NO_PERMISSION = 4


def patch(name: str, offset: int, content: bytes) -> Callable[[Path], None]:
    def apply(directory: Path) -> None:
        path = directory / name
        path.chmod(0o644)
        with path.open("r+b") as file:
            file.seek(offset)
            file.write(content)

    return apply


def cut(name: str, size: int) -> Callable[[Path], None]:
    def apply(directory: Path) -> None:
        (directory / name).chmod(0o644)
        os.truncate(directory / name, size)

    return apply


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "no directory": (shutil.rmtree, "can't be opened"),
    "no limits": (lambda d: (d / "limits").unlink(), "can't be opened"),
    "no usage": (lambda d: (d / "usage").unlink(), "can't be opened for writing"),
    "empty limits": (cut("limits", 0), "has the wrong size"),
    "short limits": (cut("limits", 100), "has the wrong size"),
    "short usage": (cut("usage", 4096), "has the wrong size"),
    "limits magic": (patch("limits", 0, b"\0"), "is no slice page"),
    "usage magic": (patch("usage", 0, b"\0"), "is no slice page"),
    "newer limits": (patch("limits", 8, struct.pack("I", 2)), "has version 2 and this library reads version 1"),
    "newer usage": (patch("usage", 8, struct.pack("I", 9)), "has version 9"),
    "size in limits": (patch("limits", 12, struct.pack("I", 4)), "says its size is 4"),
    "too many cards": (patch("limits", layout.Limits.card_count.offset, struct.pack("I", 17)), "more cards"),
    "card without UUID": (patch("limits", layout.Limits.cards.offset, b"\0" * 64), "without a UUID"),
    "endless UUID": (patch("limits", layout.Limits.cards.offset, b"G" * 64), "without a UUID"),
    "limits is a folder": (lambda d: ((d / "limits").unlink(), (d / "limits").mkdir()), "limits"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_page_that_can_not_be_read_refuses_cuda(machine: Machine, damage: str):
    place = machine.slice(1000)
    apply, complaint = DAMAGES[damage]
    apply(place.directory)
    guest = place.guest()
    assert guest.refused("init()") == NOT_PERMITTED
    assert guest.refused("alloc(1)") == NOT_PERMITTED
    assert guest.refused("c = c_void_p(); cu('cuDevicePrimaryCtxRetain', byref(c), c_int(0))") == NOT_PERMITTED
    assert guest.refused("take('cuMemCreate', 1)") == NOT_PERMITTED
    assert guest("ctypes.CDLL('libnvidia-ml.so.1').nvmlInit_v2()") == NVML_NO_PERMISSION
    lines = guest.stderr().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith(f"hami: CUDA is refused, because {place.directory}")
    assert complaint in lines[0]
    assert lines[0].endswith("tell whoever runs the machine.")


def test_nothing_is_said_by_programs_that_use_no_card(machine: Machine):
    place = machine.slice(1000)
    shutil.rmtree(place.directory)
    assert machine.run("/bin/ls", "/", **place.environment).stderr == ""
    assert machine.run(sys.executable, "-c", "import ctypes, ssl", **place.environment).stderr == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
def test_a_usage_page_of_somebody_else_refuses_cuda(machine: Machine, native):
    place = machine.slice(1000)
    program = native.compile(PROGRAMS / "linked.c", flags=(f"-L{native.sim}", "-l:libcuda.so.1"))
    for folder in (machine.folder, place.directory):
        folder.chmod(0o755)
    shutil.copytree(native.sim, machine.folder / "lib", dirs_exist_ok=True)
    for path in (program, machine.limiter):
        shutil.copy(path, machine.folder / "lib")
    environment = {
        "LD_LIBRARY_PATH": str(machine.folder / "lib"),
        "LD_PRELOAD": str(machine.folder / "lib/libvgpu.so"),
        **place.environment,
    }
    done = subprocess.run(
        [machine.folder / "lib" / program.name, "100"],
        env=environment,
        user=65534,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == f"0 {NOT_PERMITTED}\n"
    assert "can't be opened for writing (Permission denied)" in done.stderr


# ---- limits from the environment ---------------------------------------------------------------

AMOUNTS = {
    "3000m": 3000,
    "3000M": 3000,
    "3g": 3072,
    "2Gi": 2048,
    "2GiB": 2048,
    "1048576k": 1024,
    "4194304000": 4000,
}


@pytest.mark.parametrize("text", AMOUNTS)
def test_memory_limit_from_the_environment(machine: Machine, text: str):
    cache = str(machine.folder / "cache")
    guest = machine.guest(CUDA_DEVICE_MEMORY_LIMIT=text, CUDA_DEVICE_MEMORY_SHARED_CACHE=cache)
    guest("start()")
    assert guest("info()") == [AMOUNTS[text] - 104, AMOUNTS[text]]
    assert guest("nvml_memory()")[0] == AMOUNTS[text]
    assert guest.refused(f"alloc({AMOUNTS[text]})") == OUT_OF_MEMORY


@pytest.mark.parametrize("text", ["1.5g", "-1", "many", "3000q", "99999999999999999999g", "m"])
def test_an_amount_that_is_none_refuses_cuda(machine: Machine, text: str):
    guest = machine.guest(CUDA_DEVICE_MEMORY_LIMIT_0=text)
    assert guest.refused("init()") == NOT_PERMITTED
    assert guest.stderr() == (
        f"hami: CUDA is refused, because CUDA_DEVICE_MEMORY_LIMIT_0={text} is no amount of memory. "
        "Write it like 3000m or 4g.\n"
    )


@pytest.mark.parametrize(
    ("name", "text"), [("CUDA_DEVICE_SM_LIMIT", "101"), ("CUDA_DEVICE_SM_LIMIT", "half"), ("CUDA_TASK_PRIORITY", "low")]
)
def test_a_number_that_is_none_refuses_cuda(machine: Machine, name: str, text: str):
    guest = machine.guest(CUDA_DEVICE_MEMORY_LIMIT="1g", **{name: text})
    assert guest.refused("init()") == NOT_PERMITTED
    assert f"{name}={text} is no number" in guest.stderr()


def test_limits_by_index_outrank_the_plain_one(make_machine):
    machine = make_machine(cards=3)
    guest = machine.guest(
        CUDA_DEVICE_MEMORY_LIMIT="1g",
        CUDA_DEVICE_MEMORY_LIMIT_1="2g",
        CUDA_DEVICE_MEMORY_LIMIT_2="0",
        CUDA_DEVICE_MEMORY_SHARED_CACHE=str(machine.folder / "cache"),
        CUDA_VISIBLE_DEVICES="2,1,0",
    )
    guest("init()")
    assert guest("[total_mem(i) for i in range(3)]") == [T4_MIB, 2048, 1024]


def test_processes_of_one_environment_share_its_page(machine: Machine):
    environment = {
        "CUDA_DEVICE_MEMORY_LIMIT": "1000m",
        "CUDA_DEVICE_MEMORY_SHARED_CACHE": str(machine.folder / "cache"),
    }
    first, second = machine.guest(**environment), machine.guest(**environment)
    first("start(); alloc(600)")
    second("start()")
    assert second.refused("alloc(600)") == OUT_OF_MEMORY
    assert [p.name for p in machine.folder.glob("cache*")] == ["cache"]


@pytest.mark.parametrize("variables", [{}, {"CUDA_DEVICE_MEMORY_LIMIT": "0"}, {"CUDA_TASK_PRIORITY": "0"}])
def test_no_limit_in_the_environment_is_no_slice(machine: Machine, variables: dict[str, str]):
    guest = machine.guest(**variables)
    guest("start()")
    assert guest("info()") == [T4_MIB - 104, T4_MIB]


def test_a_slice_directory_outranks_the_variables(machine: Machine):
    place: Slice = machine.slice(1000)
    guest = place.guest(CUDA_DEVICE_MEMORY_LIMIT="0", CUDA_DEVICE_MEMORY_LIMIT_0="9g")
    guest("start()")
    assert guest("info()") == [1000 - 104, 1000]


# ---- the mounted slice ---------------------------------------------------------------------------------------------

MOUNTED = """
mkdir -p /run/hami/slice && mount --bind "$1" /run/hami/slice && shift && exec "$@"
"""


def can_mount() -> bool:
    probe = ["unshare", "-m", "sh", "-c", "mount -t tmpfs none /run && mkdir -p /run/hami/slice"]
    return (
        shutil.which("unshare") is not None and subprocess.run(probe, capture_output=True, check=False).returncode == 0
    )


@pytest.mark.skipif(not can_mount(), reason="needs root and mount namespaces")
@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"HAMI_SLICE_DIR": "/nowhere"},
        {"HAMI_SLICE_DIR": "", "CUDA_DEVICE_MEMORY_LIMIT": "0", "CUDA_DISABLE_CONTROL": "true"},
        {"CUDA_DEVICE_MEMORY_LIMIT_0": "15g", "CUDA_DEVICE_MEMORY_SHARED_CACHE": "/tmp/x"},
    ],
    ids=["none", "another directory", "no limit", "a higher limit"],
)
def test_no_variable_has_power_over_a_mounted_slice(machine: Machine, native, environment: dict[str, str]):
    place = machine.slice(1000)
    program = native.compile(
        PROGRAMS / "linked.c", flags=(f"-L{native.sim}", "-l:libcuda.so.1", f"-Wl,-rpath-link,{native.sim}")
    )
    script = f"mount -t tmpfs none /run && {MOUNTED}"
    done = machine.run("unshare", "-m", "sh", "-ec", script, "sh", place.directory, program, "256", **environment)
    assert done.stdout == f"3 {OUT_OF_MEMORY}\n"


@pytest.mark.skipif(not can_mount(), reason="needs root and mount namespaces")
def test_a_damaged_mounted_slice_refuses_whatever_the_variables_say(machine: Machine, native):
    place, other = machine.slice(1000), machine.slice(2000, name="other")
    (place.directory / "limits").unlink()
    program = native.compile(
        PROGRAMS / "linked.c", flags=(f"-L{native.sim}", "-l:libcuda.so.1", f"-Wl,-rpath-link,{native.sim}")
    )
    script = f"mount -t tmpfs none /run && {MOUNTED}"
    done = machine.run("unshare", "-m", "sh", "-ec", script, "sh", place.directory, program, "256", **other.environment)
    assert done.stdout == f"0 {NOT_PERMITTED}\n"


def in_mounts(commands: str) -> tuple[str, ...]:
    """What a program is started by that has mounts of its own, made by a shell's `commands`."""
    return ("unshare", "--user", "--map-root-user", "--mount", "sh", "-ec", f'{commands}\nexec "$@"', "sh")


needs_mounts = pytest.mark.skipif(
    subprocess.run([*in_mounts("mount -t tmpfs none /mnt"), "true"], capture_output=True, check=False).returncode != 0,
    reason="this system allows no mounts in user namespaces",
)


@needs_mounts
def test_a_full_disk_refuses_cuda(machine: Machine):
    """The page is made whole or not at all: a hole in it would end the process at the first write."""
    prefix = in_mounts("mount -t tmpfs -o size=16k none /mnt")
    variables = {"CUDA_DEVICE_MEMORY_LIMIT": "1000m", "CUDA_DEVICE_MEMORY_SHARED_CACHE": "/mnt/cache"}
    guest = machine.guest(prefix=prefix, **variables)
    assert guest.refused("start()") == NOT_PERMITTED
    assert guest("os.listdir('/mnt')") == []
    assert "/mnt/cache can't be made (No space left on device)" in guest.stderr()


@needs_mounts
def test_a_read_only_disk_refuses_cuda(machine: Machine):
    place = machine.slice(1000)
    prefix = in_mounts(f"mount --bind {place.directory} {place.directory}\nmount -o remount,ro,bind {place.directory}")
    guest = machine.guest(prefix=prefix, **place.environment)
    assert guest.refused("start()") == NOT_PERMITTED
    assert "usage can't be opened for writing (Read-only file system)" in guest.stderr()


def test_a_page_that_is_spoiled_while_it_is_in_use(machine: Machine):
    """The tenant's own doing: refused from then on, never a crash, and the neighbour has its own page."""
    place = machine.slice(1000)
    guest = place.guest()
    guest("start(); p = alloc(300)")
    usage = place.directory / "usage"
    content = usage.read_bytes()
    with usage.open("r+b") as file:
        file.seek(layout.Usage.processes.offset)
        file.write(b"\xff" * (len(content) - layout.Usage.processes.offset))
    assert guest.refused("alloc(10)") == OUT_OF_MEMORY
    assert guest("info()") == [0, 1000]
    guest("free(p)")
    neighbour = machine.slice(500, name="bob").guest()
    neighbour("start(); alloc(300)")
