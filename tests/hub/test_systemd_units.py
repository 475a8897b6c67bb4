"""Units in more than the plain shape: dynamic users, a /dev of their own, a preload of the machine's."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from hub_process import Hub
from shapes import SHAPES
from systemd_container import SystemdContainer
from test_starting import DRIVER, OUT_OF_MEMORY

import hami_hub

systemd = pytest.importorskip("hami_hub.spawner.systemd", reason="jupyterhub-systemdspawner is not installed")


def test_a_unit_of_a_user_who_has_no_account_is_held_to_its_slice(machine: SystemdContainer) -> None:
    machine.run("tee", "/etc/ld.so.preload", input="# the machine's own\nlibm.so.6\n", check=True)
    # Such a unit has a /tmp of its own, which hides what the tests may have there.
    needed = {sys.prefix, sys.base_prefix, *hami_hub.__path__}
    binds = " ".join(["/usr:/run/hami-test/{USERNAME}", *sorted(needed)])
    config = {
        "dynamic_users": True,
        "isolate_devices": True,
        "unit_extra_properties": {"TimeoutStopSec": "1s", "BindReadOnlyPaths": binds},
    }
    try:
        with Hub(spawner=SHAPES["systemd"], container=machine, SystemdSpawner=config) as hub:
            hub.start("alice", {"profile": "small"})
            assert hub.run("alice", DRIVER) == f"1 4096 0 0 {OUT_OF_MEMORY}"
            code = """
import json, os
def reads(path):
    return open(path).read()
preload = reads("/etc/ld.so.preload")
mapped = [name for name in ("libvgpu.so", "libm.so.6") if name in reads("/proc/self/maps")]
print(json.dumps([os.getuid(), preload, mapped, os.path.isdir("/run/hami-test/alice/bin"), os.path.exists("/dev/kvm")]))
"""
            uid, preload, mapped, bound, devices = json.loads(hub.run("alice", code))
            assert uid > 60_000  # systemd's range for them
            assert preload == "/run/hami/libvgpu.so\n# the machine's own\nlibm.so.6\n"
            assert mapped == ["libvgpu.so", "libm.so.6"]
            assert bound
            assert not devices
            hub.stop("alice")
            hub.until_held()
            hub.start("alice", {"profile": "cpu"})
            assert hub.run("alice", DRIVER).split()[-1] != "0"
            assert "Traceback" not in hub.log.read_text()
    finally:
        machine.run("rm", "/etc/ld.so.preload", check=True)


@pytest.mark.parametrize(
    ("first", "second", "joined"),
    [
        pytest.param({}, {"A": "1"}, {"A": "1"}, id="new"),
        pytest.param({"A": "1"}, {"A": "2"}, {"A": "1 2"}, id="two texts"),
        pytest.param({"A": ["1"]}, {"A": "2"}, {"A": ["1", "2"]}, id="list and text"),
        pytest.param({"A": "1"}, {"A": ["2", "3"]}, {"A": ["1", "2", "3"]}, id="text and list"),
    ],
)
def test_the_admins_own_properties_are_kept(
    first: dict[str, str | list[str]], second: dict[str, str | list[str]], joined: dict[str, str | list[str]]
) -> None:
    before = dict(first)
    assert systemd.join_properties(first, second) == joined
    assert first == before


def test_a_path_stays_one_path() -> None:
    assert systemd.escaped(Path("/a b:c{d}\\e")) == r"/a\ b\:c{{d}}\\e"


def test_the_cards_devices_are_brought_back_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "nvidia-caps").mkdir()
    for name in ("nvidia0", "nvidiactl", "nvidia-uvm", "nvidia-caps/nvidia-cap1", "sda"):
        (tmp_path / name).symlink_to("/dev/null")
    (tmp_path / "nvidia-notes.txt").touch()
    found = [tmp_path / name for name in ("nvidia-uvm", "nvidia0", "nvidiactl", "nvidia-caps/nvidia-cap1")]
    assert systemd.device_properties(tmp_path) == {
        "BindPaths": " ".join(map(str, found)),
        "DeviceAllow": [f"{path} rw" for path in found],
    }


def test_a_machine_without_cards_has_no_devices_to_bring_back(tmp_path: Path) -> None:
    assert systemd.device_properties(tmp_path) == {}
