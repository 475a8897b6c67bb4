"""Library files on the node: a new version never changes a file that containers have mapped."""

from __future__ import annotations

import mmap
from pathlib import Path

from cluster.deviceplugin.library import install, remove_old

from .plugin_parts import make_library


def test_it_is_where_containers_look_for_it(tmp_path: Path) -> None:
    library = make_library(tmp_path, b"one")
    assert library.limiter.read_bytes() == library.limiter_inside.read_bytes() == b"one"
    assert library.preload.read_text() == f"{library.limiter_inside}\n"
    assert library.limiter.stat().st_mode & 0o777 == 0o755


def test_an_upgrade_leaves_what_is_mapped_alone_until_nobody_mounts_it(tmp_path: Path) -> None:
    old = make_library(tmp_path, b"one")
    with old.limiter.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        new = make_library(tmp_path, b"two")
        assert mapped[:] == b"one"
        assert old.limiter != new.limiter
        assert new.limiter_inside.read_bytes() == b"two"
        assert remove_old(new, mounted={str(old.limiter)}) == ()
        assert old.limiter.exists()
        assert remove_old(new, mounted=()) == (old.limiter,)
        assert mapped[:] == b"one"
    assert new.limiter.exists()


def test_the_same_version_again_changes_nothing(tmp_path: Path) -> None:
    before = make_library(tmp_path).limiter.stat()
    after = make_library(tmp_path)
    assert (after.limiter.stat().st_ino, after.limiter.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert not [path for path in after.folder.iterdir() if path.name.startswith(".")]


def test_the_simulated_card_comes_in_versions_too(tmp_path: Path) -> None:
    source, limiter = tmp_path / "sim", tmp_path / "limiter"
    limiter.write_bytes(b"limiter")
    source.mkdir()
    (source / "libcuda.so.1").write_bytes(b"one")
    first = install(tmp_path / "vgpu", limiter=limiter, simulated=source)
    assert first.simulated is not None
    (source / "libcuda.so.1").write_bytes(b"two")
    second = install(tmp_path / "vgpu", limiter=limiter, simulated=source)
    assert second.simulated is not None
    assert second.simulated != first.simulated
    assert (first.simulated / "libcuda.so.1").read_bytes() == b"one"
    assert remove_old(second, mounted=()) == (first.simulated,)
    assert second.simulated_inside.is_dir()


def test_others_files_in_the_folder_stay(tmp_path: Path) -> None:
    library = make_library(tmp_path)
    for name in ("libvgpu.so.v2.10.0", "containers", "libvgpu.so.0123"):
        (library.folder / name).write_text("another's")
    assert remove_old(library, mounted=()) == ()
