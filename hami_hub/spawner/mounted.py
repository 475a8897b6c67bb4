"""A slice that is mounted into a server instead of being named in its environment: what goes where, and who may write.

For the spawners whose servers have a file system of their own.  The limiter comes in by way of the server's own
/etc/ld.so.preload, over which no environment has power.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ..core.language import say
from ..slicepage.layout import CARDS_FOLDER, TURNS_FILE, USAGE_FILE
from ..slicepage.reader import MOUNTED_SLICE
from .errors import GpuSpawnError, Reason

PRELOAD_LIST = Path("/etc/ld.so.preload")
MOUNTED_LIMITER = MOUNTED_SLICE.parent / "libvgpu.so"
_PRELOAD_FILE = "preload"


@dataclass(frozen=True, slots=True)
class SliceMount:
    """A file or folder of the machine, at its place in a server."""

    source: Path
    target: Path
    writable: bool = False


def slice_mounts(directory: Path, limiter: Path, ring: Path) -> tuple[SliceMount, ...]:
    """What mounts the slice in `directory` where the limiter looks first, and the limiter into every process.

    Args:
        directory: of the slice, with what `write_preload_list` wrote.
        limiter: the library.
        ring: where the slices on a card find each other.
    """
    cards = sorted(path.name for path in (directory / CARDS_FOLDER).glob("*"))
    return (
        SliceMount(directory, MOUNTED_SLICE),
        SliceMount(limiter.resolve(), MOUNTED_LIMITER),
        SliceMount(directory / _PRELOAD_FILE, PRELOAD_LIST),
        *(SliceMount(ring / uuid, MOUNTED_SLICE / CARDS_FOLDER / uuid) for uuid in cards),
        *(SliceMount(directory / page, MOUNTED_SLICE / page, writable=True) for page in _pages(directory)),
    )


def write_preload_list(directory: Path, others: Iterable[str] = ()) -> None:
    """Write the server's /etc/ld.so.preload: the limiter, then `others`."""
    path = directory / _PRELOAD_FILE
    path.write_text("".join(f"{line}\n" for line in (str(MOUNTED_LIMITER), *others)))
    path.chmod(0o644)


def open_pages(directory: Path) -> None:
    """Let any user write the slice's pages, where only the server knows which users it has.

    The folder above is closed to everybody: only this server has them mounted.
    """
    for page in _pages(directory):
        (directory / page).chmod(0o666)


def check_limiter(limiter: Path) -> None:
    """See to it that every user of a server can load the limiter.

    Raises:
        GpuSpawnError: not everybody may read it.
    """
    if not limiter.stat().st_mode & stat.S_IROTH:
        raise GpuSpawnError(
            say(
                "No server can be started now. The limiter {limiter} can't be read by everybody. "
                "Ask an admin to put it right.",
                limiter=limiter,
            ),
            reason=Reason.SETUP,
        )


def _pages(directory: Path) -> list[str]:
    """The pages that the slice's own processes write: only a slice with a share of the cards' time has the second."""
    return [page for page in (USAGE_FILE, TURNS_FILE) if page == USAGE_FILE or (directory / page).exists()]
