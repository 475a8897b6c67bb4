"""Slice directories and CDI specifications of a node: written, found again after a restart, removed."""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.deviceplugin import cdi, slices
from cluster.deviceplugin.cdi import Hold, Owner
from hami_hub.core.slices import CorePolicy
from hami_hub.slicepage import read_placement, read_slice

from .plugin_parts import INDICES, OWNER, make_slices, placed

BOB = Owner("team", "bob", "uid-bob", "main")


def spec(folder: Path, slot: str) -> Any:
    return json.loads((folder / "cdi" / f"hami-slice-{slot}.json").read_text())


def edits(folder: Path, slot: str) -> Any:
    (device,) = spec(folder, slot)["devices"]
    assert device["name"] == slot
    return device["containerEdits"]


def test_a_slice_is_written_for_the_runtime_and_for_the_limiter(tmp_path: Path) -> None:
    made = make_slices(tmp_path)
    made.prepare(OWNER, ["slot-0003"], placed("GPU-1", vram=4000, cores=30), INDICES)
    directory = tmp_path / "run/slices/uid-alice_main"
    view = read_slice(directory)
    assert (view.name, view.cards[0].uuid, view.cards[0].limit, view.cards[0].cores) == (
        "default/alice/main",
        "GPU-1",
        4000,
        30,
    )
    assert stat.S_IMODE((directory / "usage").stat().st_mode) == 0o666
    assert stat.S_IMODE((directory / "limits").stat().st_mode) == 0o444
    assert stat.S_IMODE(directory.parent.stat().st_mode) == 0o700
    found = spec(tmp_path, "slot-0003")
    assert (found["kind"], found["cdiVersion"]) == ("hami.io/slice", "0.6.0")
    mounts = {mount["containerPath"]: mount for mount in edits(tmp_path, "slot-0003")["mounts"]}
    assert mounts["/run/hami/slice"]["hostPath"] == str(directory)
    assert "ro" in mounts["/run/hami/slice"]["options"]
    assert "ro" not in mounts["/run/hami/slice/usage"]["options"]
    preload = Path(mounts["/etc/ld.so.preload"]["hostPath"]).read_text()
    assert preload.strip() == str(tmp_path / "vgpu/libvgpu.so") in mounts
    assert edits(tmp_path, "slot-0003")["deviceNodes"] == [{"path": "/dev/nvidia1"}]
    assert "NVIDIA_VISIBLE_DEVICES=void" in edits(tmp_path, "slot-0003")["env"]


def test_of_two_slots_the_first_brings_everything_and_both_are_whose_card_they_are(tmp_path: Path) -> None:
    made = make_slices(tmp_path)
    made.prepare(OWNER, {"slot-0009", "slot-0002"}, placed("GPU-0", "GPU-1"), INDICES)
    assert len(edits(tmp_path, "slot-0002")["deviceNodes"]) == 2
    assert list(edits(tmp_path, "slot-0009")) == ["env"]  # the runtime refuses a device without edits
    assert {slot: hold.card for slot, hold in made.holds.items()} == {"slot-0002": "GPU-0", "slot-0009": "GPU-1"}


def test_a_container_that_starts_again_gets_a_new_page(tmp_path: Path) -> None:
    made = make_slices(tmp_path)
    made.prepare(OWNER, ["slot-0001"], placed("GPU-0", vram=1000), INDICES)
    usage = tmp_path / "run/slices/uid-alice_main/usage"
    before = usage.stat().st_ino
    kept = os.open(usage, os.O_RDONLY)
    made.prepare(OWNER, ["slot-0001"], placed("GPU-0", vram=1000), INDICES)
    assert usage.stat().st_ino != before
    os.close(kept)


def test_a_slot_that_somebody_else_had_is_all_the_new_ones(tmp_path: Path) -> None:
    made = make_slices(tmp_path)
    made.prepare(OWNER, ["slot-0001", "slot-0002"], placed("GPU-0", "GPU-1"), INDICES)
    made.prepare(BOB, ["slot-0002"], placed("GPU-1", vram=10), INDICES)
    assert made.holds["slot-0002"].owner == BOB
    made.remove(OWNER.key)
    assert set(made.holds) == {"slot-0002"}
    assert sorted(path.name for path in (tmp_path / "cdi").iterdir()) == ["hami-slice-slot-0002.json"]
    assert read_placement(tmp_path / "run/slices/uid-bob_main").shares[0].vram == 10


def test_slices_that_share_a_cards_time_see_each_others_pages_and_the_others_do_not(tmp_path: Path) -> None:
    made = make_slices(tmp_path)
    made.prepare(OWNER, ["slot-0001"], placed("GPU-0", cores=30), INDICES)
    made.prepare(BOB, ["slot-0002"], placed("GPU-0", cores=20), INDICES)
    made.prepare(Owner("team", "carol", "uid-carol", "main"), ["slot-0003"], placed("GPU-0"), INDICES)
    ring = tmp_path / "run/cards/GPU-0"
    assert {path.name for path in ring.iterdir()} >= {"uid-alice_main", "uid-bob_main"}
    assert (ring / "uid-alice_main").samefile(made.directory(OWNER) / "turns")
    mounts = {mount["containerPath"]: mount for mount in edits(tmp_path, "slot-0001")["mounts"]}
    assert mounts["/run/hami/slice/cards/GPU-0"]["hostPath"] == str(ring)
    assert "ro" in mounts["/run/hami/slice/cards/GPU-0"]["options"]
    assert "ro" not in mounts["/run/hami/slice/turns"]["options"]
    assert stat.S_IMODE((made.directory(OWNER) / "turns").stat().st_mode) == 0o666
    assert not any("turns" in mount["containerPath"] for mount in edits(tmp_path, "slot-0003")["mounts"])
    made.remove(OWNER.key)
    assert not [path for path in ring.iterdir() if path.name.startswith("uid-alice")]
    assert made.keys() == {"uid-bob_main", "uid-carol_main"}


def test_what_is_left_in_a_ring_is_found(tmp_path: Path) -> None:
    made = make_slices(tmp_path)
    made.prepare(OWNER, ["slot-0001"], placed("GPU-0", cores=30), INDICES)
    shutil.rmtree(made.directory(OWNER))
    (tmp_path / "cdi/hami-slice-slot-0001.json").unlink()
    after = make_slices(tmp_path)
    assert after.keys() == {OWNER.key}
    after.remove(OWNER.key)
    assert after.keys() == set()


def test_no_core_limit_is_written_as_such(tmp_path: Path) -> None:
    made = make_slices(tmp_path, core_limit=False)
    made.prepare(OWNER, ["slot-0001"], placed("GPU-0", cores=30), INDICES)
    assert read_placement(made.directory(OWNER)).policy is CorePolicy.DISABLE


def test_a_plugin_that_starts_anew_knows_all_that_was(tmp_path: Path) -> None:
    before = make_slices(tmp_path)
    before.prepare(OWNER, ["slot-0001", "slot-0002"], placed("GPU-0", "GPU-1"), INDICES)
    before.prepare(BOB, ["slot-0005"], placed("GPU-1"), INDICES)
    after = make_slices(tmp_path)
    assert (after.holds, after.owners(), after.mounted(), after.keys()) == (
        before.holds,
        before.owners(),
        before.mounted(),
        before.keys(),
    )


def test_what_a_killed_writer_left_and_what_cannot_be_read_goes_and_others_files_stay(tmp_path: Path) -> None:
    make_slices(tmp_path).prepare(OWNER, ["slot-0001"], placed("GPU-0"), INDICES)
    for name in ("hami-slice-slot-0002.json", ".new-123", "nvidia.yaml"):
        (tmp_path / "cdi" / name).write_text("{")
    assert set(make_slices(tmp_path).holds) == {"slot-0001"}
    assert sorted(path.name for path in (tmp_path / "cdi").iterdir()) == ["hami-slice-slot-0001.json", "nvidia.yaml"]


def test_a_full_disk_leaves_the_old_specification_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = make_slices(tmp_path)
    made.prepare(OWNER, ["slot-0001"], placed("GPU-0"), INDICES)
    before = spec(tmp_path, "slot-0001")

    def full(path: Path, content: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr(slices, "write_whole", full)
    with pytest.raises(OSError, match="No space left"):
        made.prepare(BOB, ["slot-0001"], placed("GPU-1"), INDICES)
    assert spec(tmp_path, "slot-0001") == before
    assert made.holds["slot-0001"].owner == OWNER


names = st.from_regex(r"[a-z0-9]([a-z0-9.-]{0,20}[a-z0-9])?", fullmatch=True)
holds = st.builds(
    Hold, slot=names, owner=st.builds(Owner, names, names, names, names), card=st.none() | st.text(max_size=60)
)


@given(holds)
def test_a_specification_says_whose_it_is(hold: Hold) -> None:
    mounts = {"mounts": [cdi.bind_mount("/a", "/b"), cdi.bind_mount("/c", "/d", "rw")]}
    assert cdi.decode_spec(cdi.encode_spec(hold, mounts)) == (hold, {"/a", "/c"})


@given(
    st.text()
    | st.recursive(
        st.none() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["annotations", "devices", "name"]), inner)
        ),
    ).map(json.dumps)
)
def test_anything_else_is_no_specification_of_ours(text: str) -> None:
    with pytest.raises(cdi.SpecError):
        cdi.decode_spec(text)
