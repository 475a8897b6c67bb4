"""The ring of slices on a card: whose turns pages a slice's processes find there.

Makes and removes the entries; the limiter's processes read them and take turns on the card by what they see
(native/libvgpu/include/hami_turns.h).  What a slice was granted is `writer`'s.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

from ..core.cards import WHOLE_CORES
from ..core.slices import CardShare, CorePolicy, Placement
from . import layout

_SHARE_SUFFIX = ".share"


def has_core_share(share: CardShare, policy: CorePolicy) -> bool:
    """Whether a slice's time on this card is shared by rule: neither the whole card nor without a core limit."""
    return 0 < share.cores < WHOLE_CORES and not share.whole and policy is not CorePolicy.DISABLE


def join_ring(directory: Path, placement: Placement, *, ring: Path, mounted: bool) -> None:
    """Let the slice in `directory` and its neighbours on each card see each other.

    Args:
        directory: the slice directory, with its turns page, on the same file system as `ring`.
        placement: what was granted.
        ring: the folder that has one folder a card.
        mounted: the cards' folders will be mounted at `<directory>/cards/<uuid>`; otherwise they are linked there.

    Raises:
        OSError: it can't be written.
    """
    for index, share in enumerate(placement.shares):
        if not has_core_share(share, placement.policy):
            continue
        card, place = ring / share.uuid, directory / layout.CARDS_FOLDER / share.uuid
        for folder in (ring, card, place.parent, *((place,) if mounted else ())):
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o755)
        if not mounted:
            place.symlink_to(card.absolute())
        page = layout.Share(
            magic=layout.SHARE_MAGIC,
            version=layout.TURNS_VERSION,
            size=ctypes.sizeof(layout.Share),
            card=index,
            cores=share.cores,
            policy=layout.PolicyCode[placement.policy.name],
            priority=placement.priority,
        )
        # The link first: who finds a share finds its page.
        (card / directory.name).unlink(missing_ok=True)
        (card / directory.name).hardlink_to(directory / layout.TURNS_FILE)
        description = card / f"{directory.name}{_SHARE_SUFFIX}"
        description.unlink(missing_ok=True)
        description.write_bytes(bytes(page))
        description.chmod(0o444)


def leave_ring(name: str, *, ring: Path) -> None:
    """Take the slice of that name out of every card's ring; not there: no error.  Neighbours notice at once."""
    for card in _folders(ring):
        for entry in (card / f"{name}{_SHARE_SUFFIX}", card / name):
            entry.unlink(missing_ok=True)


def in_ring(ring: Path) -> frozenset[str]:
    """The names of all slices in any card's ring: those whose directory is gone can be taken out."""
    return frozenset(
        entry.name.removesuffix(_SHARE_SUFFIX) for card in _folders(ring) for entry in card.glob(f"*{_SHARE_SUFFIX}")
    )


def _folders(ring: Path) -> list[Path]:
    try:
        return [entry for entry in ring.iterdir() if entry.is_dir()]
    except OSError:
        return []
