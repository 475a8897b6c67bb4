"""The cgroups under which a cluster's pods live, in version 1 and 2: made before, removed after."""

from __future__ import annotations

import time
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")


def make(name: str) -> None:
    """Make the cgroup `name` (a relative path) in every hierarchy, with all controllers for its children."""
    for hierarchy in _hierarchies():
        path = hierarchy
        for part in Path(name).parts:
            _delegate(path)
            path = path / part
            path.mkdir(exist_ok=True)
            _fill_cpuset(path)
        _delegate(path)


def remove(name: str, seconds: float = 60) -> None:
    """Remove it with all below; its processes must be ending, and are waited for."""
    end = time.monotonic() + seconds
    for hierarchy in _hierarchies():
        while (hierarchy / name).is_dir():
            try:
                for path in sorted((hierarchy / name).rglob("*"), reverse=True):
                    if path.is_dir():
                        path.rmdir()
                (hierarchy / name).rmdir()
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)


def _hierarchies() -> list[Path]:
    if (ROOT / "cgroup.controllers").exists():
        return [ROOT]
    return [path for path in ROOT.iterdir() if path.is_dir() and not path.is_symlink()]


def _delegate(path: Path) -> None:
    """Version 2: let children have what this one has; a group with processes of its own can't, and then must do."""
    file = path / "cgroup.controllers"
    for controller in file.read_text().split() if file.exists() else ():
        try:
            (path / "cgroup.subtree_control").write_text(f"+{controller}")
        except OSError:
            continue


def _fill_cpuset(path: Path) -> None:
    """Version 1: a new cpuset is empty, and nothing can run in it."""
    for file in ("cpuset.cpus", "cpuset.mems"):
        if (path / file).exists() and not (path / file).read_text().strip():
            (path / file).write_text((path.parent / file).read_text())
