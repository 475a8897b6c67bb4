"""The limiter, and the simulated card's libraries, as files of the node that containers mount.

Each version is a file of its own, named after its content, that never changes: an upgrade adds a file, and the one that
running containers have mapped stays until the last of them is gone.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from hami_hub.native import LIMITER, SIM_FOLDER

from .files import is_aside, link_whole, write_whole

PRELOAD_FILE = "ld.so.preload"
_VERSION = re.compile(rf"(?:{re.escape(LIMITER)}|{SIM_FOLDER})\.[0-9a-f]{{16}}")


@dataclass(frozen=True, slots=True)
class Library:
    """What was installed: paths on the node.

    Attributes:
        folder: where containers have the limiter too.
        limiter: the current version's file.
        simulated: the folder of the current simulated card, or None.
    """

    folder: Path
    limiter: Path
    simulated: Path | None = None

    @property
    def preload(self) -> Path:
        """What containers have as /etc/ld.so.preload."""
        return self.folder / PRELOAD_FILE

    @property
    def limiter_inside(self) -> Path:
        """Where containers have the limiter."""
        return self.folder / LIMITER

    @property
    def simulated_inside(self) -> Path:
        """Where containers have the simulated card."""
        return self.folder / SIM_FOLDER


def install(folder: Path, *, limiter: Path, simulated: Path | None = None) -> Library:
    """Put the libraries into `folder`, without touching a file that is in use.

    Args:
        folder: made if it isn't there.
        limiter: the file to install.
        simulated: the folder of the simulated card's libraries, if containers are to have one.

    Raises:
        OSError: it can't be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    content = limiter.read_bytes()
    library = Library(
        folder,
        folder / f"{LIMITER}.{_mark(content)}",
        None if simulated is None else _install_simulated(folder, simulated),
    )
    if not library.limiter.exists():
        write_whole(library.limiter, content, mode=0o755)
    # Also the mount points of images that have the node's own /usr.
    link_whole(library.limiter, library.limiter_inside)
    if simulated is not None:
        library.simulated_inside.mkdir(exist_ok=True)
    write_whole(library.preload, f"{library.limiter_inside}\n".encode())
    return library


def remove_old(library: Library, *, mounted: Collection[str]) -> tuple[Path, ...]:
    """Remove versions that are neither current nor mounted, and what killed writers left.  Returns what is gone.

    Args:
        library: what `install` returned.
        mounted: paths on the node that containers may have mounted.
    """
    kept = {str(library.limiter), str(library.simulated), *mounted}
    old = [
        path
        for path in library.folder.iterdir()
        if is_aside(path.name) or (_VERSION.fullmatch(path.name) and str(path) not in kept)
    ]
    for path in old:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    return tuple(old)


def _install_simulated(folder: Path, source: Path) -> Path:
    files = {path.name: path.read_bytes() for path in sorted(source.iterdir()) if path.is_file()}
    target = folder / f"{SIM_FOLDER}.{_mark(*files.values())}"
    target.mkdir(exist_ok=True)
    for name, content in files.items():
        if not (target / name).exists():
            write_whole(target / name, content, mode=0o755)
    return target


def _mark(*contents: bytes) -> str:
    digest = hashlib.sha256()
    for content in contents:
        digest.update(content)
    return digest.hexdigest()[:16]
