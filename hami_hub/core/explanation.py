"""Why a pod goes to no node, as JSON: the scheduler writes it, and the hub says it in the language of whoever waits.

What is in it is `nodes.FleetNoRoom`; the sentence is `messages.why_no_node`'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from .cards import CardUuid
from .codec import WireError
from .nodes import CardsShort, FleetNoRoom, NearMiss, NodeLack, NodesShort
from .placement import Lack
from .pods import ContainerAsk
from .slices import SliceRequest
from .units import Mib, Percent


def no_room_to_json(no_room: FleetNoRoom) -> dict[str, Any]:
    """`no_room` as plain data."""
    return {**asdict(no_room), "asks": [_ask_to_json(ask) for ask in no_room.asks]}


def no_room_from_json(data: Mapping[str, Any]) -> FleetNoRoom:
    """What `no_room_to_json` wrote, as far as there are words for it.

    Raises:
        WireError: it is something else, or of another version.
    """
    try:
        return FleetNoRoom(
            asks=tuple(_ask(ask) for ask in data["asks"]),
            container=str(data["container"]),
            never=data["never"] is True,
            nodes=int(data["nodes"]),
            cards=tuple(_cards(short) for short in data["cards"]),
            short=tuple(
                NodesShort(
                    NodeLack(each["lack"]),
                    int(each["nodes"]),
                    str(each["nearest"]),
                    int(each["asked"]),
                    int(each["free"]),
                )
                for each in data["short"]
            ),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise WireError(f"Why there is no room can't be read ({error!r}).") from None


def _ask_to_json(ask: ContainerAsk) -> dict[str, Any]:
    request = ask.request
    return {
        "container": ask.container,
        "cards": request.cards,
        "vram": request.vram,
        "vram_percent": request.vram_percent,
        "cores": request.cores,
    }


def _ask(data: Mapping[str, Any]) -> ContainerAsk:
    vram, percent = data["vram"], data["vram_percent"]
    request = SliceRequest(
        cards=int(data["cards"]),
        vram=None if vram is None else Mib(int(vram)),
        vram_percent=None if percent is None else Percent(int(percent)),
        cores=Percent(int(data["cores"])),
    )
    return ContainerAsk(str(data["container"]), request)


def _cards(data: Mapping[str, Any]) -> CardsShort:
    near = data["nearest"]
    return CardsShort(
        Lack(data["lack"]),
        int(data["cards"]),
        int(data["nodes"]),
        NearMiss(
            str(near["node"]), CardUuid(str(near["uuid"])), str(near["model"]), int(near["asked"]), int(near["free"])
        ),
    )
