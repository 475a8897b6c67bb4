"""What a container needs of its cards themselves: device nodes and driver libraries, as edits of a CDI specification.

They are taken from the node's own specification of NVIDIA's cards, or they are those of the simulated card.  The slice
on top of them, which is the same for both, is `slices`'.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import yaml

from hami_hub.core.cards import CardUuid
from hami_hub.core.names import ENV_VISIBLE_DEVICES
from hami_hub.native import ENV_SEARCH, ENV_SIM_CARDS, ENV_SIM_DIR, ENV_SIM_PROFILE

from . import cdi

NVIDIA_KIND = "nvidia.com/gpu"
_GENERATE = "Run `nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml` on the node."
_SUFFIXES = {".yaml", ".yml", ".json"}


class BaseError(RuntimeError):
    """The node doesn't say how a container gets its cards.  One plain sentence with what to do."""


@dataclass(frozen=True, slots=True)
class CardBase:
    """What brings the cards of one container into it, and the version of CDI's format that saying so takes."""

    edits: cdi.Edits
    version: str = cdi.MINIMAL_VERSION


class Base(Protocol):
    """Where cards come from on this node."""

    def cards(self, uuids: Sequence[CardUuid], numbers: Mapping[CardUuid, str]) -> CardBase:
        """What brings the cards `uuids` into a container.

        Args:
            uuids: of cards or MIG devices.
            numbers: NVML's index of each, by which older specifications name them: "0", of a MIG device "0:1".

        Raises:
            BaseError: the node doesn't say.
        """


class SimulatedBase:
    """The simulated card's libraries, and the folder in which its processes meet.

    Args:
        libraries: the folder of the libraries on the node.
        inside: where they are in a container.
        state: the folder where processes meet, the same path on the node and inside.
        profile: the card's model, as HAMI_SIM_PROFILE names it.
        count: how many there are.
    """

    def __init__(self, libraries: Path, inside: Path, state: Path, *, profile: str, count: int) -> None:
        self._edits = cdi.join_edits(
            [
                {
                    "mounts": [
                        cdi.bind_mount(str(libraries), str(inside)),
                        cdi.bind_mount(str(state), str(state), "rw"),
                    ]
                },
                cdi.environment_edits(
                    {
                        ENV_SEARCH: str(inside),
                        ENV_SIM_DIR: str(state),
                        ENV_SIM_PROFILE: profile,
                        ENV_SIM_CARDS: str(count),
                    }
                ),
            ]
        )

    def cards(self, uuids: Sequence[CardUuid], numbers: Mapping[CardUuid, str]) -> CardBase:
        """All simulated cards are in every container: what hides the others is what a program may change, and what
        keeps it off them is the limiter.
        """
        visible = cdi.environment_edits({ENV_VISIBLE_DEVICES: ",".join(uuids)})
        return CardBase(cdi.join_edits([self._edits, visible]))


class NvidiaBase:
    """The node's own specifications of NVIDIA's cards, read again when one of them changes.

    Args:
        folders: where specifications are; of two for one card the later folder's counts, as for the runtime.
    """

    def __init__(self, folders: Iterable[Path]) -> None:
        self._folders = tuple(folders)
        self._read: dict[Path, tuple[tuple[int, int], Mapping[str, Any]]] = {}

    def cards(self, uuids: Sequence[CardUuid], numbers: Mapping[CardUuid, str]) -> CardBase:
        """See `Base.cards`."""
        specs = self._specs()
        if not specs:
            folders = " or ".join(str(folder) for folder in self._folders)
            raise BaseError(f"There is no CDI specification of {NVIDIA_KIND} in {folders}. {_GENERATE}")
        common: dict[int, cdi.Edits] = {}
        own: list[cdi.Edits] = []
        versions: list[str] = []
        for uuid in uuids:
            spec, device = _find(specs, uuid, numbers.get(uuid))
            common[id(spec)] = spec.get("containerEdits") or {}
            versions.append(str(spec.get("cdiVersion", "")))
            own.append(device.get("containerEdits") or {})
        return CardBase(cdi.join_edits([*common.values(), *own]), cdi.newest_version(versions))

    def _specs(self) -> list[Mapping[str, Any]]:
        """Those of NVIDIA's cards, the one that counts most first."""
        found = [spec for folder in self._folders for path in _files(folder) if (spec := self._load(path)) is not None]
        return found[::-1]

    def _load(self, path: Path) -> Mapping[str, Any] | None:
        if cdi.slot_of_file(path.name) is not None:
            return None
        try:
            status = path.stat()
            mark = (status.st_mtime_ns, status.st_size)
            known = self._read.get(path)
            if known is None or known[0] != mark:
                loaded = yaml.load(path.read_text(), Loader=_Loader)  # noqa: S506 - it is a safe one
                self._read[path] = known = (mark, loaded if isinstance(loaded, dict) else {})
        except (OSError, UnicodeDecodeError, yaml.YAMLError):
            return None  # somebody else's: the runtime complains of it
        return known[1] if known[1].get("kind") == NVIDIA_KIND else None


_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _files(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.suffix in _SUFFIXES)
    except OSError:
        return []


def _find(
    specs: Sequence[Mapping[str, Any]], uuid: str, number: str | None
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    for names in ({uuid}, {number, f"gpu{number}", f"mig{number}"} if number else set()):
        for spec in specs:
            for device in spec.get("devices") or ():
                if isinstance(device, dict) and device.get("name") in names:
                    return spec, device
    raise BaseError(f"The node's CDI specification of {NVIDIA_KIND} doesn't name the card {uuid}. {_GENERATE}")
