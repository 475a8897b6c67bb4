"""The demo's folder on tmpfs: slices and simulated cards.  It ends with the demo; those of demos that were killed are
removed by whichever demo starts next.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click

_TMPFS = Path("/dev/shm")  # noqa: S108  the folders in it are made by mkdtemp
_PREFIX = "hami-demo-"
_LOCK = "lock"


@contextlib.contextmanager
def memory_folder() -> Iterator[Path]:
    """A fresh folder on tmpfs, this user's alone, removed at the end.

    Raises:
        click.ClickException: there is no tmpfs to be written.
    """
    remove_abandoned()
    try:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=_TMPFS))
    except OSError as error:
        raise click.ClickException(
            f"{_TMPFS} can't be written ({error.strerror}), slices need a folder in memory. Mount a tmpfs there."
        ) from None
    # locked before it has the name that `remove_abandoned` of another demo looks for
    lock = os.open(folder / "new", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        (folder / "new").rename(folder / _LOCK)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def remove_abandoned() -> None:
    """Remove what this user's demos left that are no more: nobody holds the lock in it."""
    for folder in _TMPFS.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            if folder.is_symlink() or folder.stat().st_uid != os.geteuid():
                continue
            with (folder / _LOCK).open("r+b") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
