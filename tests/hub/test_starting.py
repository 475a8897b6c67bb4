"""From a choice to a server on its slice: what the server finds, and that it is held to it."""

from __future__ import annotations

import json
import stat

import pytest
from hub_process import Hub
from shapes import MOUNTED

from hami_hub.slicepage import read_slice

QUARTER = {"profile": "small"}
MIB = 1024 * 1024

# What any program finds that uses the driver's API: the visible memory, then which of two allocations are granted.
DRIVER = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
device, context, total, count = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_int()
answers = [cuda.cuInit(0)]
if answers == [0]:
    cuda.cuDeviceGetCount(ctypes.byref(count))
    cuda.cuDeviceGet(ctypes.byref(device), 0)
    cuda.cuDeviceTotalMem_v2(ctypes.byref(total), device)
    cuda.cuCtxCreate_v2(ctypes.byref(context), 0, device)
    pointer = ctypes.c_void_p()
    for mib in (2048, 4096):
        answers.append(cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(mib * 1024 * 1024)))
print(count.value, total.value // (1024 * 1024), *answers)
"""
OUT_OF_MEMORY = 2
CAP_SYS_ADMIN = 1 << 21


def test_a_server_finds_its_slice_and_its_card(hub: Hub, shape: str) -> None:
    hub.start("alice", QUARTER)
    environment, page = hub.call("alice", "env"), read_slice(hub.directory("alice"))
    card = page.cards[0]
    assert (page.name, card.limit, card.cores) == ("alice/", 4096, 25)
    assert environment["CUDA_VISIBLE_DEVICES"] == environment["NVIDIA_VISIBLE_DEVICES"] == card.uuid
    assert environment["CUDA_DEVICE_MEMORY_LIMIT_0"] == "4096m"
    assert environment["CUDA_DEVICE_SM_LIMIT"] == "25"
    if shape in ("docker", "systemd"):
        assert environment["HAMI_SLICE_DIR"] == "/run/hami/slice"
        assert "LD_PRELOAD" not in environment
    else:
        assert environment["HAMI_SLICE_DIR"] == str(hub.directory("alice"))
        assert environment["LD_PRELOAD"].split(":")[0].endswith("libvgpu.so")


def test_a_tenant_can_read_the_limits_and_write_only_the_usage(hub: Hub, shape: str) -> None:
    hub.start("alice", QUARTER)
    code = """
import json, os
folder = os.environ["HAMI_SLICE_DIR"]
def can(what, *path):
    try:
        open(os.path.join(folder, *path), what).close()
    except OSError:
        return False
    return True
print(json.dumps([can("rb", "limits"), can("r+b", "limits"), can("r+b", "usage"), can("xb", "new"), os.getuid()]))
"""
    *allowed, uid = json.loads(hub.run("alice", code))
    usage = (hub.directory("alice") / "usage").stat()
    if shape == "docker":  # only the container has it mounted
        assert stat.S_IMODE(usage.st_mode) == 0o666
    else:
        assert usage.st_uid == uid
        assert stat.S_IMODE(usage.st_mode) == 0o600
    if shape != "simple":  # there all are one user
        assert uid != 0
        assert allowed == [True, False, True, False]


def test_every_process_of_a_server_is_held_to_the_slice(hub: Hub) -> None:
    hub.start("alice", QUARTER)
    assert hub.run("alice", DRIVER) == f"1 4096 0 0 {OUT_OF_MEMORY}"
    child = f"import subprocess, sys; print(subprocess.check_output([sys.executable, '-c', {DRIVER!r}]).decode())"
    assert hub.run("alice", child) == f"1 4096 0 0 {OUT_OF_MEMORY}"


@MOUNTED
def test_no_environment_gets_a_tenant_out_of_a_mounted_slice(hub: Hub) -> None:
    hub.start("alice", QUARTER)
    # as little as a program can do with and still meet the simulated driver
    simulated = ("LD_LIBRARY_PATH", "HAMI_SIM_DIR", "HAMI_SIM_PROFILE", "HAMI_SIM_CARDS")
    bare = {name: value for name, value in hub.call("alice", "env").items() if name in simulated}
    assert hub.run("alice", DRIVER, env=bare) == f"1 4096 0 0 {OUT_OF_MEMORY}"
    elsewhere = {**bare, "HAMI_SLICE_DIR": "/nowhere", "LD_PRELOAD": "", "CUDA_DEVICE_MEMORY_LIMIT_0": "15000m"}
    assert hub.run("alice", DRIVER, env=elsewhere) == f"1 4096 0 0 {OUT_OF_MEMORY}"
    hidden = "import subprocess; print(subprocess.run(['unshare', '-Urm', 'true']).returncode != 0)"
    assert hub.run("alice", hidden) == "True"
    bounds = "print([line.split()[1] for line in open('/proc/self/status') if line.startswith('CapBnd')][0])"
    assert not int(hub.run("alice", bounds), 16) & CAP_SYS_ADMIN


@MOUNTED
def test_who_has_a_slice_mounted_sees_no_slice_but_its_own(hub: Hub) -> None:
    hub.start("alice", QUARTER)
    hub.start("bob", QUARTER)
    listing = "import os; print(sorted(os.listdir('/run/hami')), sorted(os.listdir('/run/hami/slice')))"
    pages = "['cards', 'limits', 'preload', 'server', 'turns', 'usage']"
    assert hub.run("alice", listing) == f"['libvgpu.so', 'slice'] {pages}"
    assert hub.slice_root.stat().st_mode & 0o777 == 0o700


def test_a_server_without_a_gpu_can_not_use_the_card(hub: Hub) -> None:
    hub.start("alice", {"profile": "cpu"})
    environment = hub.call("alice", "env")
    assert environment["CUDA_VISIBLE_DEVICES"] == ""
    assert environment["NVIDIA_VISIBLE_DEVICES"] == "none"
    assert read_slice(hub.directory("alice")).cards == ()
    for visible in ("", "0"):
        answers = hub.run("alice", DRIVER, env={**environment, "CUDA_VISIBLE_DEVICES": visible}).split()
        assert answers[-1] != "0", "an allocation was granted"


@pytest.mark.parametrize("options", [{}, None], ids=["empty", "null"])
def test_who_names_no_profile_gets_the_first(hub: Hub, options: dict[str, str] | None) -> None:
    hub.start("bob", options)
    assert hub.held()["bob"].shares == ()


def test_an_amount_of_ones_own_is_kept_to(hub: Hub) -> None:
    hub.start("alice", {"profile": "other", "vram": "3.5 GiB", "cores": "10"})
    assert [(share.vram, share.cores) for share in hub.held()["alice"].shares] == [(3584, 10)]


def test_named_servers_have_a_slice_each(hub: Hub) -> None:
    hub.start("alice", QUARTER)
    hub.start("alice", {"profile": "half"}, "train")
    assert sorted(hub.held()) == ["alice", "alice-train"]
    assert read_slice(hub.directory("alice-train")).name == "alice/train"
    assert hub.run("alice", DRIVER) == f"1 4096 0 0 {OUT_OF_MEMORY}"
    assert hub.run("alice", DRIVER, server="train") == "1 8192 0 0 0"
    hub.stop("alice", "train")
    hub.until_held("alice")


def test_two_people_on_one_card_can_not_take_each_others_memory(hub: Hub) -> None:
    hub.start("alice", QUARTER)
    hub.start("bob", {"profile": "half"})
    hold = DRIVER + "\nimport signal; print('', flush=True); signal.pause()"
    hub.begin_process("alice", hold)
    assert hub.run("bob", DRIVER) == "1 8192 0 0 0"
    uuids = {hub.call(user, "env")["CUDA_VISIBLE_DEVICES"] for user in ("alice", "bob")}
    assert len(uuids) == 1


def test_a_start_after_a_stop_is_a_new_slice(hub: Hub) -> None:
    hub.start("alice", {"profile": "whole"})
    first = hub.directory("alice")
    hub.stop("alice")
    hub.until_held()
    hub.start("alice", {"profile": "cpu"})
    assert hub.directory("alice") != first
    assert hub.call("alice", "env")["CUDA_VISIBLE_DEVICES"] == ""
