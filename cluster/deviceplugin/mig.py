"""MIG devices under migStrategy mixed: each is one whole device of a resource named after its profile.

They are cut by the card itself, so that no slice and no limiter is needed: the kubelet counts them, kube-scheduler
places them, and a container gets what the node's own CDI specification says of them.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hami_hub.core.cards import CardUuid
from hami_hub.core.units import MIB_PER_GIB, Mib

from . import cdi
from .base import CardBase

FILE = "hami-mig.json"
_KIND = "hami.io/mig"
_PARTS = 8


@dataclass(frozen=True, slots=True)
class MigDevice:
    """One MIG device.

    Attributes:
        uuid: "MIG-…".
        number: the card's index and its own on the card: "0:1".
        memory: its own.
        slices: of the card, that its GPU instance has.
        compute: of those, that its compute instance has.
        media: whether it has the engines for media that only one small instance of a card can have.
    """

    uuid: CardUuid
    number: str
    memory: Mib
    slices: int
    compute: int
    media: bool = False


@dataclass(frozen=True, slots=True)
class MigOffer:
    """A MIG device and whether it takes containers."""

    uuid: str
    healthy: bool


def device_name(uuid: str) -> str:
    """What the kubelet hands to the runtime for a MIG device."""
    return f"{_KIND}={uuid}"


def encode_specs(bases: Mapping[CardUuid, CardBase]) -> str:
    """The CDI specification of all MIG devices of the node."""
    spec = {
        "cdiVersion": cdi.newest_version([base.version for base in bases.values()]),
        "kind": _KIND,
        "devices": [{"name": uuid, "containerEdits": base.edits} for uuid, base in sorted(bases.items())],
    }
    return json.dumps(spec, indent=1)


def profile_name(device: MigDevice, card_memory: Mib) -> str:
    """NVIDIA's name of the device's profile: "1g.5gb", "1c.2g.10gb", "1g.5gb.me"."""
    eighths = (2 * _PARTS * device.memory + card_memory) // (2 * card_memory)
    whole = -(-card_memory // MIB_PER_GIB)
    size = (2 * eighths * whole + _PARTS) // (2 * _PARTS)
    name = f"{device.slices}g.{size}gb"
    if device.compute != device.slices:
        name = f"{device.compute}c.{name}"
    return f"{name}.me" if device.media and device.slices == 1 else name


def offers_by_resource(
    cards: Iterable[tuple[Mib, bool, Sequence[MigDevice]]], *, prefix: str
) -> Mapping[str, tuple[MigOffer, ...]]:
    """The devices of each resource, sorted.

    Args:
        cards: memory, health and devices of each card that is cut by MIG.
        prefix: of the resources' names: "nvidia.com/".
    """
    found: dict[str, list[MigOffer]] = defaultdict(list)
    for memory, healthy, devices in cards:
        for device in devices:
            found[f"{prefix}mig-{profile_name(device, memory)}"].append(MigOffer(device.uuid, healthy))
    return {name: tuple(sorted(offers, key=lambda offer: offer.uuid)) for name, offers in sorted(found.items())}
