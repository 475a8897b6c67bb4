"""Making, resizing and removing slice directories.  Called by whoever places slices; `reader` is the other half."""

from __future__ import annotations

import ctypes
import mmap
import os
import shutil
from pathlib import Path

from ..core.slices import CardShare, Placement
from ..core.units import BYTES_PER_MIB, Mib
from . import layout
from .reader import PageError
from .ring import has_core_share, join_ring, leave_ring


def create_slice(
    directory: Path,
    *,
    name: str,
    placement: Placement,
    tenant: tuple[int, int] | None = None,
    ring: Path | None = None,
    mounted: bool = False,
) -> None:
    """Make the slice directory of a placed slice; an older one of the same path is replaced.

    Args:
        directory: made with its parents; must lie on tmpfs when cores are limited.
        name: for people, "alice/"; cut to what the page holds.
        placement: at most `layout.MAX_CARDS` shares; none: no card may be used.
        tenant: uid and gid that shall own `usage` and `turns`; None: the caller's.
        ring: where slices on a card find each other, on the same file system; None: this one takes no turns with
            others, and only a hard cap on cores holds.
        mounted: the ring's cards will be mounted into the slice rather than linked.

    Raises:
        OSError: the directory can't be written.
        PageError: more cards than the page holds.
    """
    limits = _limits(name, placement)
    shared = any(has_core_share(share, placement.policy) for share in placement.shares)
    usage = layout.Usage(magic=layout.USAGE_MAGIC, version=layout.PAGE_VERSION, size=ctypes.sizeof(layout.Usage))
    remove_slice(directory, ring=ring)
    directory.mkdir(parents=True, mode=0o755)
    try:
        # umask must not take the tenant's access away
        directory.chmod(0o755)
        _write(directory / layout.LIMITS_FILE, bytes(limits), 0o444)
        _write(directory / layout.USAGE_FILE, bytes(usage), 0o600)
        if shared:
            _write_turns(directory / layout.TURNS_FILE)
        if tenant is not None:
            os.chown(directory / layout.USAGE_FILE, *tenant)
            if shared:
                os.chown(directory / layout.TURNS_FILE, *tenant)
        if shared and ring is not None:
            join_ring(directory, placement, ring=ring, mounted=mounted)
    except BaseException:
        remove_slice(directory, ring=ring)
        raise


def resize_card(directory: Path, *, uuid: str, vram: Mib) -> None:
    """Change a running slice's VRAM on one card.  Growing works at once; below what is in use, new allocations are
    refused until enough is freed, and nothing is ended.

    Raises:
        PageError: the slice has no such card.
        OSError: no such slice, or not the writer's to change.
    """
    path = directory / layout.LIMITS_FILE
    path.chmod(0o644)
    try:
        with path.open("r+b") as file, mmap.mmap(file.fileno(), ctypes.sizeof(layout.Limits)) as page:
            limits = layout.Limits.from_buffer(page)
            try:
                card = next((c for c in limits.cards[: limits.card_count] if c.uuid == uuid.encode()), None)
                if card is None:
                    raise PageError(f"The slice in {directory} has no card {uuid}.")
                limits.sequence += 1
                card.vram = vram * BYTES_PER_MIB
                limits.sequence += 1
            finally:
                # ctypes keeps the mapping open while these names live
                card = None
                del limits
    finally:
        path.chmod(0o444)


def remove_slice(directory: Path, *, ring: Path | None = None) -> None:
    """Remove a slice directory and its place in the ring; none there is no error.  Processes that still map it keep
    their page.
    """
    if ring is not None:
        leave_ring(directory.name, ring=ring)
    shutil.rmtree(directory, ignore_errors=True)


def _limits(name: str, placement: Placement) -> layout.Limits:
    if len(placement.shares) > layout.MAX_CARDS:
        raise PageError(f"A slice of {len(placement.shares)} cards doesn't fit a page. Use at most {layout.MAX_CARDS}.")
    limits = layout.Limits(
        magic=layout.LIMITS_MAGIC,
        version=layout.PAGE_VERSION,
        size=ctypes.sizeof(layout.Limits),
        card_count=len(placement.shares),
        name=name_on_page(name).encode(),
    )
    for card, share in zip(limits.cards, placement.shares, strict=False):
        _fill_card(card, share, placement)
    return limits


def _fill_card(card: layout.CardLimit, share: CardShare, placement: Placement) -> None:
    card.uuid = share.uuid.encode()
    card.vram = share.vram * BYTES_PER_MIB
    card.cores = share.cores
    card.policy = layout.PolicyCode[placement.policy.name]
    card.priority = placement.priority
    card.flags = (layout.CardFlag.WHOLE if share.whole else 0) | (
        layout.CardFlag.OOM_KILLER if placement.oom_killer else 0
    )


def name_on_page(name: str) -> str:
    """As much of a slice's name as its page holds: with room for the NUL, never ending inside a character."""
    return name.encode()[: layout.NAME_SIZE - 1].decode(errors="ignore")


def _write(path: Path, content: bytes, mode: int) -> None:
    with path.open("xb") as file:
        file.write(content)
    path.chmod(mode)


def _write_turns(path: Path) -> None:
    """An empty page, which neighbours may read.  It is large and nearly all of it is never touched."""
    head = layout.Turns(magic=layout.TURNS_MAGIC, version=layout.TURNS_VERSION, size=ctypes.sizeof(layout.Turns))
    _write(path, bytes(head)[: layout.Turns.members.offset], 0o644)
    os.truncate(path, ctypes.sizeof(layout.Turns))
