"""The slices of this node's containers: their directories on tmpfs, and the CDI specification of each slot they hold.

What a slice directory holds is `hami_hub.slicepage`'s.  Nothing is kept here that doesn't stand in these files: a
plugin that starts anew reads them and knows all that its predecessor knew.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hami_hub.core.cards import CardUuid
from hami_hub.core.codec import environment
from hami_hub.core.names import ENV_NVIDIA_VISIBLE_DEVICES
from hami_hub.core.slices import CorePolicy, Placement
from hami_hub.slicepage import create_slice, in_ring, remove_slice
from hami_hub.slicepage.layout import CARDS_FOLDER, TURNS_FILE, USAGE_FILE
from hami_hub.slicepage.reader import MOUNTED_SLICE

from . import cdi
from .base import Base
from .cdi import Hold, Owner
from .files import is_aside, write_whole
from .library import Library

_log = logging.getLogger(__name__)
_PRELOAD = "/etc/ld.so.preload"
# Anybody may write it: which user a container runs as isn't known here.  Only the container has it mounted.
_TENANTS = 0o666
_SLOT = "HAMI_SLOT"


@dataclass(frozen=True, slots=True)
class Folders:
    """Where things are on the node.

    Attributes:
        run: on tmpfs: slices, and the rings of pages of each card.
        cdi: where the container runtime looks for specifications.
    """

    run: Path
    cdi: Path

    @property
    def slices(self) -> Path:
        """One directory a container."""
        return self.run / "slices"

    @property
    def cards(self) -> Path:
        """One directory a card: the pages of those who share it."""
        return self.run / "cards"

    @property
    def simulated(self) -> Path:
        """Where the processes on simulated cards meet."""
        return self.run / "sim"


class NodeSlices:
    """All slices of this node.

    Args:
        folders: made when they are first needed.
        base: brings the cards themselves into a container.
        library: what containers preload.
        core_limit: False: no slice is held to its cores.
    """

    def __init__(self, folders: Folders, base: Base, library: Library, *, core_limit: bool = True) -> None:
        self.folders = folders
        self._base, self._library, self._core_limit = base, library, core_limit
        self._holds: dict[str, Hold] = {}
        self._mounted: dict[str, frozenset[str]] = {}

    @property
    def holds(self) -> Mapping[str, Hold]:
        """Who holds each slot; a slot that isn't there was never given out, or is free again."""
        return self._holds

    def directory(self, owner: Owner) -> Path:
        """The slice directory of a container."""
        return self.folders.slices / owner.key

    def load(self) -> None:
        """Read what an earlier plugin left; a file that can't be read goes, its slot is written anew when needed.

        Raises:
            OSError: the folders can't be made or read.
        """
        self.folders.cdi.mkdir(parents=True, exist_ok=True)
        self.folders.slices.mkdir(parents=True, exist_ok=True)
        # Pages in it are open to every user, this folder to none.
        self.folders.slices.chmod(0o700)
        self._holds.clear()
        for path in self.folders.cdi.iterdir():
            if is_aside(path.name):
                path.unlink(missing_ok=True)
            slot = cdi.slot_of_file(path.name)
            if slot is None:
                continue
            try:
                hold, mounted = cdi.decode_spec(path.read_text())
            except (cdi.SpecError, UnicodeDecodeError) as error:
                _log.warning("%s is removed: %s", path, error)
                path.unlink(missing_ok=True)
            else:
                self._holds[slot], self._mounted[slot] = hold, mounted

    def prepare(
        self, owner: Owner, slots: Collection[str], placement: Placement, numbers: Mapping[CardUuid, str]
    ) -> None:
        """Make the slice of a container that is about to start, and tell the runtime how to bring it in.

        Of several slots the first brings everything.

        Args:
            owner: the container; what an earlier run of it left is replaced.
            slots: as many as `placement` has shares, or one for a placement without any.
            placement: what it gets.
            numbers: see `Base.cards`.

        Raises:
            BaseError: the node doesn't say how a container gets its cards.
            PageError: more cards than a slice can have.
            OSError: something can't be written.
        """
        if not self._core_limit:
            placement = replace(placement, policy=CorePolicy.DISABLE)
        base = self._base.cards([share.uuid for share in placement.shares], numbers)
        directory = self.directory(owner)
        create_slice(directory, name=owner.words, placement=placement, ring=self.folders.cards, mounted=True)
        for name in _written_by_tenants(directory):
            (directory / name).chmod(_TENANTS)
        edits = cdi.join_edits([base.edits, self._slice_edits(directory, placement)])
        ordered = sorted(slots)
        cards = [share.uuid for share in placement.shares]
        for number in reversed(range(len(ordered))):
            hold = Hold(ordered[number], owner, cards[number] if number < len(cards) else None)
            own = edits if number == 0 else cdi.environment_edits({_SLOT: ordered[number]})
            spec = cdi.encode_spec(hold, own, version=base.version)
            write_whole(self.folders.cdi / cdi.file_name(hold.slot), spec.encode())
            self._holds[hold.slot], self._mounted[hold.slot] = hold, cdi.mounted_paths(own)

    def remove(self, owner_key: str) -> None:
        """Forget a container for good: its slice directory, and the specifications of slots that nobody took over."""
        for slot, hold in list(self._holds.items()):
            if hold.owner.key == owner_key:
                (self.folders.cdi / cdi.file_name(slot)).unlink(missing_ok=True)
                del self._holds[slot]
                del self._mounted[slot]
        remove_slice(self.folders.slices / owner_key, ring=self.folders.cards)

    def keys(self) -> frozenset[str]:
        """The keys of all owners of whom there is anything here."""
        held = {hold.owner.key for hold in self._holds.values()}
        folders = self.folders.slices
        there = {path.name for path in folders.iterdir()} if folders.is_dir() else set[str]()
        return frozenset(held | there | in_ring(self.folders.cards))

    def mounted(self) -> frozenset[str]:
        """Paths on the node that containers have mounted."""
        return frozenset().union(*self._mounted.values())

    def owners(self) -> Mapping[Owner, Sequence[str]]:
        """Each container with its slots, in order."""
        found: dict[Owner, list[str]] = {}
        for slot, hold in sorted(self._holds.items(), key=lambda item: item[0]):
            found.setdefault(hold.owner, []).append(slot)
        return found

    def _slice_edits(self, directory: Path, placement: Placement) -> cdi.Edits:
        library = self._library
        mounts = [
            cdi.bind_mount(str(library.limiter), str(library.limiter_inside)),
            cdi.bind_mount(str(library.preload), _PRELOAD),
            cdi.bind_mount(str(directory), str(MOUNTED_SLICE), "noexec"),
        ]
        for name in _written_by_tenants(directory):
            mounts.append(cdi.bind_mount(str(directory / name), str(MOUNTED_SLICE / name), "noexec", "rw"))
        for share in placement.shares:
            # Its neighbours' pages, on the cards whose time it shares.
            place = f"{CARDS_FOLDER}/{share.uuid}"
            if (directory / place).is_dir():
                mounts.append(
                    cdi.bind_mount(str(self.folders.cards / share.uuid), str(MOUNTED_SLICE / place), "noexec")
                )
        # A runtime that goes by this variable would bring all cards in.
        variables = {**environment(placement), ENV_NVIDIA_VISIBLE_DEVICES: "void"}
        return cdi.join_edits([{"mounts": mounts}, cdi.environment_edits(variables)])


def _written_by_tenants(directory: Path) -> list[str]:
    """The pages that the slice's own processes write: only a slice with a share of the cards' time has the second."""
    return [name for name in (USAGE_FILE, TURNS_FILE) if (directory / name).exists()]
