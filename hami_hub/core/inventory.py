"""The cluster as its scheduler tells it: the JSON of `/v1/inventory` as cards, of which forms are made, and as slices
and queue, which the service shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from .cards import Card, CardState, CardUuid
from .codec import WireError
from .slices import CardShare
from .units import Mib, Percent


def node_states(inventory: Mapping[str, Any]) -> dict[str, tuple[CardState, ...]]:
    """The cards of each node with what is taken of them.  Those of a node that isn't ready are out of order.

    Raises:
        WireError: the scheduler answered with something else.
    """
    try:
        return {
            str(node["name"]): tuple(_state(card, ready=node["ready"] is True) for card in node["cards"])
            for node in inventory["nodes"]
        }
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise WireError(_unreadable("cards", error)) from None


def _state(entry: Mapping[str, Any], *, ready: bool) -> CardState:
    card = Card(
        uuid=CardUuid(str(entry["uuid"])),
        index=int(entry["index"]),
        model=str(entry["model"]),
        vram=Mib(int(entry["vram"])),
        split_count=int(entry["splitCount"]),
        healthy=ready and entry["healthy"] is True,
        cordoned=entry.get("cordoned", False) is True,
    )
    return CardState(
        card=card,
        used_vram=Mib(int(entry["usedVram"])),
        used_cores=Percent(int(entry["usedCores"])),
        slices=int(entry["slices"]),
        exclusive=entry["exclusive"] is True,
    )


@dataclass(frozen=True, slots=True)
class HeldShare:
    """One card's part of a pod's slice; `since` is Unix time, None: not known."""

    namespace: str
    pod: str
    share: CardShare
    since: float | None

    @property
    def holder(self) -> str:
        """The slice's name: "namespace/pod"."""
        return f"{self.namespace}/{self.pod}"


@dataclass(frozen=True, slots=True)
class QueuedPod:
    """A pod that waits: its place from 1, what it asks for, and why it waits."""

    namespace: str
    pod: str
    place: int
    asks: str
    reason: str
    since: float | None = None

    @property
    def holder(self) -> str:
        """What its slice will be called."""
        return f"{self.namespace}/{self.pod}"


def held_shares(inventory: Mapping[str, Any]) -> tuple[HeldShare, ...]:
    """Who holds what of which card.

    Raises:
        WireError: see `node_states`.
    """
    try:
        return tuple(
            HeldShare(str(entry["namespace"]), str(entry["pod"]), _share(share), _unix(entry.get("since")))
            for entry in inventory["slices"]
            for share in entry["shares"]
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise WireError(_unreadable("slices", error)) from None


def queued_pods(inventory: Mapping[str, Any]) -> tuple[QueuedPod, ...]:
    """Who waits, in order.

    Raises:
        WireError: see `node_states`.
    """
    try:
        return tuple(
            QueuedPod(
                namespace=str(entry["namespace"]),
                pod=str(entry["pod"]),
                place=int(entry["place"]),
                asks=str(entry["asks"]),
                reason=str(entry.get("reason") or ""),
                since=_unix(entry.get("since")),
            )
            for entry in inventory["queue"]
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise WireError(_unreadable("queue", error)) from None


def _share(entry: Mapping[str, Any]) -> CardShare:
    return CardShare(
        uuid=CardUuid(str(entry["uuid"])),
        vram=Mib(int(entry["vram"])),
        cores=Percent(int(entry["cores"])),
        exclusive=entry.get("exclusive") is True,
        whole=entry.get("whole") is True,
    )


def _unix(text: object) -> float | None:
    """RFC 3339 as Unix time."""
    try:
        return datetime.fromisoformat(str(text).replace("Z", "+00:00")).timestamp()
    except ValueError:
        return None


def _unreadable(what: str, error: Exception) -> str:
    return f"The scheduler's list of {what} can't be read ({error!r}). Are hub and scheduler of the same version?"
