"""The cluster's cards as its scheduler tells them: the JSON of `/v1/inventory` as states, of which forms are made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .cards import Card, CardState, CardUuid
from .codec import WireError
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
        raise WireError(
            f"The scheduler's list of cards can't be read ({error!r}). Are hub and scheduler of the same version?"
        ) from None


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
