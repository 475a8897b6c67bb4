"""What the tests of the device plugin are made of: pods as the API server sends them, cards, a node's folders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from cluster.deviceplugin.base import CardBase
from cluster.deviceplugin.cdi import Owner
from cluster.deviceplugin.health import NodeCards, Reading
from cluster.deviceplugin.library import Library, install
from cluster.deviceplugin.owner import Pod
from cluster.deviceplugin.slices import Folders, NodeSlices
from hami_hub.core.cards import Card, CardUuid
from hami_hub.core.codec import encode_slices
from hami_hub.core.names import SLICES, VGPU_NODE
from hami_hub.core.slices import CardShare, Placement
from hami_hub.core.units import Mib, Percent

NODE = "node-a"
CARDS = tuple(Card(uuid=CardUuid(f"GPU-{index}"), index=index, model="Tesla T4", vram=Mib(15360)) for index in range(2))
OWNER = Owner("default", "alice", "uid-alice", "main")


class PlainBase:
    """Cards and MIG devices that need one device node each."""

    def cards(self, uuids: Sequence[CardUuid], numbers: Mapping[CardUuid, str]) -> CardBase:
        return CardBase({"deviceNodes": [{"path": f"/dev/nvidia{numbers[uuid]}"} for uuid in uuids]})


def placed(*uuids: str, vram: int = 4000, cores: int = 0) -> Placement:
    return Placement(tuple(CardShare(CardUuid(uuid), Mib(vram), Percent(cores)) for uuid in uuids), node=NODE)


def pod(
    name: str = "alice",
    *,
    slices: Mapping[str, Placement] | str | None = None,
    node: str = NODE,
    placed_on: str = NODE,
    phase: str = "Pending",
    ending: bool = False,
    uid: str = "",
) -> Pod:
    """A pod with what was decided for its containers; `slices` None: nothing was."""
    found: Pod = {
        "metadata": {"name": name, "namespace": "default", "uid": uid or f"uid-{name}", "resourceVersion": "1"},
        "spec": {"nodeName": node},
        "status": {"phase": phase},
    }
    if slices is not None:
        text = slices if isinstance(slices, str) else encode_slices(slices)
        found["metadata"]["annotations"] = {SLICES: text, VGPU_NODE: placed_on}
    if ending:
        found["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return found


def node_cards(*ill: str) -> NodeCards:
    """Two cards, those in `ill` out of order."""
    cards = NodeCards(quarantine=60, ignored=())
    cards.see([Reading(card, used=0) for card in CARDS], now=0)
    for uuid in ill:
        cards.xid(uuid, 79, now=0)
    return cards


def make_library(folder: Path, content: bytes = b"limiter") -> Library:
    source = folder / "source.so"
    source.write_bytes(content)
    return install(folder / "vgpu", limiter=source)


def make_slices(folder: Path, *, core_limit: bool = True) -> NodeSlices:
    slices = NodeSlices(
        Folders(run=folder / "run", cdi=folder / "cdi"), PlainBase(), make_library(folder), core_limit=core_limit
    )
    slices.load()
    return slices


INDICES = {card.uuid: str(card.index) for card in CARDS}
