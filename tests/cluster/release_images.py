"""The release's images for the tests: built once by the real Dockerfile on a Debian base, and kept in a cache.

Nothing is built when nothing changed, and only the last layers when only Python files did.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from images import build, debian_base

TARGETS = ("scheduler", "device-plugin")
SOURCES = ("images/Dockerfile", "requirements/build.txt", "requirements/cluster.txt", "native", "hami_hub", "cluster")
GIVEN = "HAMI_RELEASE_IMAGES"  # names a folder of other archives, which is only read
KEPT = 3  # builds whose archives stay
LAYERS_LIMIT = 8 << 20  # KiB of layers of older builds, after which all are made anew


@functools.cache
def why_not() -> str | None:
    """Why the images can't be built here, with what to do about it, or None if they can."""
    path = f"{os.environ['PATH']}:/usr/sbin"
    missing = [each for each in ("buildah", "debootstrap") if not shutil.which(each, path=path)]
    if missing and _archives() is None:
        return f"The release's images are built with {' and '.join(missing)}: install the packages of these names."
    return None


def ensure(say: Callable[[str], object] = print) -> list[Path]:
    """The archives of the scheduler and the device plugin, built now if they aren't yet."""
    with _lock():
        if found := _archives():
            return found
        if given := os.environ.get(GIVEN):
            raise FileNotFoundError(f"{GIVEN} is {given}, where not all of these are: {', '.join(TARGETS)}.")
        say("Building the release's images")
        folder = _folder()
        builder = build.find_builder("buildah", {"CONTAINERS_STORAGE_CONF": str(_storage())}, quiet=True)
        if _size(_layers()) > LAYERS_LIMIT:
            builder.forget_all()
        base = builder.take_base(debian_base.rootfs())
        part = folder.with_name("part")
        shutil.rmtree(part, ignore_errors=True)
        build.build(builder, TARGETS, tag=build.chart_version(), arguments={"BASE": base}, archives=part)
        part.rename(folder)
        for old in sorted(folder.parent.iterdir(), key=lambda path: path.stat().st_mtime)[:-KEPT]:
            shutil.rmtree(old)
        return _archives_in(folder)


def _archives() -> list[Path] | None:
    archives = _archives_in(_folder())
    return archives if all(path.exists() for path in archives) else None


def _archives_in(folder: Path) -> list[Path]:
    return [folder / f"{target}.tar" for target in TARGETS]


def _folder() -> Path:
    """Of the archives of just these sources, or of others that are to be tested."""
    given = os.environ.get(GIVEN)
    return Path(given) if given else debian_base.cache_folder() / "archives" / _key()


def _key() -> str:
    digest = hashlib.sha256(build.chart_version().encode())
    for path in _files():
        digest.update(f"{path.relative_to(build.ROOT)}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _files() -> Iterator[Path]:
    for source in SOURCES:
        path = build.ROOT / source
        inside = sorted(path.rglob("*")) if path.is_dir() else [path]
        yield from (each for each in inside if each.is_file() and "__pycache__" not in each.parts)


def _layers() -> Path:
    return debian_base.cache_folder() / "storage"


def _storage() -> Path:
    """Settings by which buildah keeps its layers apart from the machine's own images."""
    folder = _layers()
    folder.mkdir(parents=True, exist_ok=True)
    kind = subprocess.run(["stat", "-f", "-c", "%T", str(folder)], capture_output=True, text=True, check=True).stdout
    driver = "vfs" if "overlay" in kind else "overlay"  # one overlay can't lie on another
    path = folder.with_suffix(".conf")
    path.write_text(f'[storage]\ndriver = "{driver}"\ngraphroot = "{folder}"\nrunroot = "{folder}/run"\n')
    return path


def _size(folder: Path) -> int:
    """KiB that a folder takes on the disk."""
    return int(subprocess.run(["du", "-sk", str(folder)], capture_output=True, text=True).stdout.split()[0])


@contextmanager
def _lock() -> Iterator[None]:
    folder = debian_base.cache_folder() / "archives"
    folder.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
