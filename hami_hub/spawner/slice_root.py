"""The folder in which a hub keeps its slice directories: where it is, whose it is, what is in it.

What stands in a slice directory is `slicepage`'s; which slices there are is `allocator`'s.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
from pathlib import Path

from ..core.slices import SliceId
from ..mounts import IN_MEMORY, file_system
from ..slicepage import in_ring, leave_ring

_LOCK = ".lock"
_PREFERRED = Path("/run/hami/slices")
_LONGEST_NAME = 40


class SliceRootError(RuntimeError):
    """The folder of the slices can't be used.  One plain sentence with what to do."""


def default_slice_root() -> Path:
    """Where slices are kept if an admin says nothing: the machine's own place as root, else one's own in /dev/shm."""
    if os.geteuid() != 0:
        return Path(f"/dev/shm/hami-{os.geteuid()}/slices")  # noqa: S108
    return _PREFERRED if file_system(_PREFERRED) in IN_MEMORY else Path("/dev/shm/hami/slices")  # noqa: S108


class SliceRoot:
    """One hub's folder of slices.

    Args:
        path: made when it is first needed.
        mode: 0o711: tenants reach their own slice by its path; 0o700: it is mounted for them.
    """

    def __init__(self, path: Path, *, mode: int = 0o711) -> None:
        self.path = path
        self._mode = mode
        self._lock: int | None = None

    @property
    def ring(self) -> Path:
        """Where the slices on a card find each other."""
        return self.path / ".cards"

    @property
    def mounted(self) -> bool:
        """Whether tenants reach their slices by mounts only."""
        return self._mode == 0o700

    def open(self) -> None:
        """Make the folder and take it for this hub; called again it does nothing.

        Raises:
            SliceRootError: it can't be made, is no tmpfs, belongs to somebody else, or another hub has it.
        """
        if self._lock is not None:
            return
        if file_system(self.path) not in IN_MEMORY:
            raise SliceRootError(
                f"The slices' folder {self.path} is not on a tmpfs, which the limiter needs. "
                "Set c.GpuSlices.slice_root to a folder under /dev/shm or /run."
            )
        try:
            self._make()
            self.path.chmod(self._mode)
            self._lock = self._take()
            for name in in_ring(self.ring) - {directory.name for directory in self.directories()}:
                leave_ring(name, ring=self.ring)
        except OSError as error:
            raise SliceRootError(unwritable(self.path, error)) from None

    def new_directory(self, holder: SliceId) -> Path:
        """A path that no slice has had: what is left of an older slice of `holder` never meets the new one."""
        readable = re.sub(r"[^a-z0-9]+", "-", holder.lower()).strip("-")[:_LONGEST_NAME] or "slice"
        return self.path / f"{readable}-{secrets.token_hex(4)}"

    def directories(self) -> tuple[Path, ...]:
        """All slice directories that are there."""
        try:
            return tuple(sorted(entry for entry in self.path.iterdir() if not entry.name.startswith(".")))
        except OSError:
            return ()

    def link(self, target: Path, name: str) -> Path:
        """A link to `target` from inside the folder, for where its own path can't be written.

        Raises:
            SliceRootError: it can't be made.
        """
        self.open()
        link = self.path / ".links" / name
        try:
            if not link.exists() or link.readlink() != target:
                link.parent.mkdir(exist_ok=True)
                link.parent.chmod(0o755)
                link.unlink(missing_ok=True)
                link.symlink_to(target)
        except OSError as error:
            raise SliceRootError(unwritable(self.path, error)) from None
        return link

    def close(self) -> None:
        """Let another hub have the folder."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _make(self) -> None:
        for folder in (*reversed(self.path.parents), self.path):
            if not folder.exists():
                folder.mkdir()
                folder.chmod(0o755)  # whatever the umask
            elif not folder.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
            # Who owns a folder above can put another in its place: /dev/shm is open to everybody.
            if folder.stat().st_uid not in (0, os.geteuid()):
                raise SliceRootError(
                    f"{folder} belongs to another user, who could change the slices in it. "
                    "Remove it, or set c.GpuSlices.slice_root to another folder."
                )

    def _take(self) -> int:
        descriptor = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise SliceRootError(
                f"Another hub uses the slices' folder {self.path}. Stop it, or set c.GpuSlices.slice_root to another."
            ) from None
        return descriptor


def unwritable(path: Path, error: OSError) -> str:
    """Why a slice could not be written, for people."""
    return (
        f"The slices' folder {path} can't be written: {error.strerror or error}. "
        "Correct that, or set c.GpuSlices.slice_root to another."
    )
