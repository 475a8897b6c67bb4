"""What stands on nodes and pods: HAMi's annotations in both directions, our own, and the variables of a container.

HAMi's formats are as written and read by HAMi 2.10.  Decoding is strict about what matters and forgiving about what
HAMi itself gets wrong (one more `;` for each time an annotation was rewritten).  What a container asks for is in
`resources`, names are in `names`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from .cards import Card, CardUuid
from .names import (
    DEVICE_CORDON,
    DEVICES_ALLOCATED,
    ENV_CORE_POLICY,
    ENV_MEMORY_LIMIT,
    ENV_SM_LIMIT,
    ENV_TASK_PRIORITY,
    NODE_REGISTER,
    SLICES,
    VGPU_NODE,
    VGPU_TIME,
)
from .slices import CardShare, CorePolicy, Placement, Priority
from .units import MAX_VRAM, Mib, Percent

_VENDOR = "NVIDIA"
_HAMI_CORE = "hami-core"
_MAX_SLOTS = 1000
# It becomes a file's name on the node.
_UUID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}")


class WireError(ValueError):
    """Text on a Kubernetes object that is not in the format.  Says which part and what was expected."""


def cards_of_node(annotations: Mapping[str, str]) -> tuple[Card, ...]:
    """The cards that a node offers, with those closed that its annotation `hami.io/device-cordon` names.

    Raises:
        WireError: the list of cards can't be read.
    """
    text = annotations.get(NODE_REGISTER)
    if not text:
        return ()
    closed = {uuid.strip() for uuid in annotations.get(DEVICE_CORDON, "").split(",")}
    cards = decode_node_register(text)
    return tuple(replace(card, cordoned=True) if card.uuid in closed else card for card in cards)


def encode_node_register(cards: Sequence[Card]) -> str:
    """`cards` as the node annotation `hami.io/node-nvidia-register`, in the order of their index."""
    ordered = sorted(cards, key=lambda card: (card.index, card.uuid))
    return json.dumps([_card_to_json(card) for card in ordered], separators=(",", ":"))


def decode_node_register(text: str) -> tuple[Card, ...]:
    """The cards that a node annotation lists, without those in MIG mode: they are not cut into slices.

    HAMi leaves out zero and false, so a card without `health` is ill.  Its old format of colons is read too.

    Raises:
        WireError: not a list of cards.
    """
    try:
        if text.lstrip().startswith("["):
            cards = [_card_from_json(entry) for entry in json.loads(text) if entry.get("mode", _HAMI_CORE) != "mig"]
        else:
            cards = _cards_from_colons(text)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise WireError(f"The node's list of cards can't be read ({error}). Expected a JSON list of objects.") from None
    if len({card.uuid for card in cards}) < len(cards):
        raise WireError("The node's list names a card twice. Each UUID may be there once.")
    return tuple(cards)


def encode_devices(containers: Iterable[Sequence[CardShare]]) -> str:
    """Each container's shares as `hami.io/vgpu-devices-allocated`: "UUID,NVIDIA,MiB,cores:…;" for each container."""
    return "".join(
        "".join(f"{share.uuid},{_VENDOR},{share.vram},{share.cores}:" for share in shares) + ";"
        for shares in containers
    )


def decode_devices(text: str) -> tuple[tuple[CardShare, ...], ...]:
    """The shares of each container.  Empty containers at the end, which HAMi breeds, are dropped.

    Raises:
        WireError: a part that is not "UUID,NVIDIA,MiB,cores".
    """
    containers = [tuple(_share(part) for part in chunk.split(":") if part) for chunk in text.split(";")]
    while containers and not containers[-1]:
        containers.pop()
    return tuple(containers)


def encode_slices(slices: Mapping[str, Placement]) -> str:
    """What each container holds, by its name, as `hami.io/slices`.  The node is said by another annotation."""
    return json.dumps({name: _placement_to_json(held) for name, held in slices.items()}, separators=(",", ":"))


def decode_slices(text: str, node: str = "") -> dict[str, Placement]:
    """What `encode_slices` wrote; `node` goes into each placement.

    Raises:
        WireError: anything missing, of another kind or out of range.
    """
    try:
        containers = json.loads(text)
        return {name: _placement_from_json(held, node) for name, held in containers.items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        what = str(error) if isinstance(error, WireError) else repr(error)[:80]
        raise WireError(f"{SLICES} can't be read ({what}). Only the scheduler may write it.") from None


def decision_annotations(
    node: str, slices: Mapping[str, Placement], containers: Iterable[str], *, at: int
) -> dict[str, str]:
    """All that is written on a pod with its binding: ours, and what HAMi's tools look for.

    Args:
        node: where it goes.
        slices: what each container gets.
        containers: names of all containers, init containers first, as HAMi counts them.
        at: unix seconds.
    """
    return {
        VGPU_NODE: node,
        VGPU_TIME: str(at),
        DEVICES_ALLOCATED: encode_devices(slices[name].shares if name in slices else () for name in containers),
        SLICES: encode_slices(slices),
    }


def environment(placement: Placement) -> dict[str, str]:
    """The variables that HAMi sets in a container.  Here they only inform: the slice page is what is enforced."""
    variables = {f"{ENV_MEMORY_LIMIT}_{i}": f"{share.vram}m" for i, share in enumerate(placement.shares)}
    if placement.shares:
        variables[ENV_SM_LIMIT] = str(placement.shares[0].cores)
    if placement.policy is not CorePolicy.DEFAULT:
        variables[ENV_CORE_POLICY] = placement.policy.value
    variables[ENV_TASK_PRIORITY] = str(int(placement.priority))
    return variables


def _card_to_json(card: Card) -> dict[str, object]:
    entry: dict[str, object] = {
        "id": card.uuid,
        "index": card.index,
        "count": card.split_count,
        "devmem": card.vram,
        "devcore": 100,
        "type": card.model if card.model.startswith(_VENDOR) else f"{_VENDOR}-{card.model}",
        "numa": card.numa,
        "mode": _HAMI_CORE,
        "health": card.healthy,
    }
    return {key: value for key, value in entry.items() if value}  # as Go's omitempty does


def _card_from_json(entry: Mapping[str, object]) -> Card:
    return Card(
        uuid=_uuid(entry["id"]),
        index=_int(entry.get("index", 0)),
        model=str(entry["type"]).removeprefix(f"{_VENDOR}-"),
        vram=Mib(_int(entry["devmem"], most=MAX_VRAM)),
        split_count=_int(entry.get("count", 0), most=_MAX_SLOTS),
        healthy=entry.get("health", False) is True,
        numa=_int(entry["numa"]) if entry.get("numa") else None,
    )


def _cards_from_colons(text: str) -> list[Card]:
    """HAMi's format before JSON: "uuid,count,MiB,cores,type,numa,health[,index,mode]:" for each card."""
    parts = [part for part in text.split(":") if part.strip()]
    if not parts:
        raise WireError("it names no card")
    cards = []
    for position, part in enumerate(parts):
        fields = [field.strip() for field in part.split(",")]
        if len(fields) < 7:
            raise WireError(f'"{part[:64]}" is not a card')
        if fields[8:9] == ["mig"]:
            continue
        cards.append(
            Card(
                uuid=_uuid(fields[0]),
                index=_digits(fields[7]) if len(fields) > 7 else position,
                model=fields[4].removeprefix(f"{_VENDOR}-"),
                vram=Mib(_int(_digits(fields[2]), most=MAX_VRAM)),
                split_count=_int(_digits(fields[1]), most=_MAX_SLOTS),
                healthy=fields[6].lower() == "true",
                numa=_digits(fields[5]) or None,
            )
        )
    return cards


def _share(part: str) -> CardShare:
    fields = part.split(",")
    if len(fields) != 4 or not (_is_number(fields[2]) and _is_number(fields[3])):
        raise WireError(f'"{part[:64]}" is not a device of a slice. Expected UUID,{_VENDOR},MiB,cores.')
    cores = Percent(int(fields[3]))
    return CardShare(uuid=CardUuid(fields[0]), vram=Mib(int(fields[2])), cores=cores, exclusive=cores == 100)


def _placement_to_json(placement: Placement) -> dict[str, object]:
    return {
        "shares": [
            {
                "uuid": share.uuid,
                "vram": share.vram,
                "cores": share.cores,
                "exclusive": share.exclusive,
                "whole": share.whole,
            }
            for share in placement.shares
        ],
        "priority": int(placement.priority),
        "policy": placement.policy.value,
        "oomKiller": placement.oom_killer,
    }


def _placement_from_json(held: Mapping[str, Any], node: str) -> Placement:
    shares = tuple(
        CardShare(
            uuid=_uuid(share["uuid"]),
            vram=Mib(_int(share["vram"], least=1, most=MAX_VRAM)),
            cores=Percent(_int(share["cores"], most=100)),
            exclusive=_bool(share["exclusive"]),
            whole=_bool(share["whole"]),
        )
        for share in held["shares"]
    )
    if not shares or len({share.uuid for share in shares}) < len(shares):
        raise WireError("a container needs shares of different cards")
    return Placement(
        shares=shares,
        priority=Priority(_int(held["priority"])),
        policy=CorePolicy(held["policy"]),
        node=node,
        oom_killer=_bool(held["oomKiller"]),
    )


def _uuid(value: object) -> CardUuid:
    if not isinstance(value, str) or not _UUID.fullmatch(value):
        raise WireError(f"{str(value)[:64]!r} is not a card's UUID")
    return CardUuid(value)


def _bool(value: object) -> bool:
    if not isinstance(value, bool):
        raise WireError(f"{str(value)[:64]!r} is neither true nor false")
    return value


def _int(value: object, *, least: int = 0, most: int = 1_000_000) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise WireError(f"{str(value)[:64]!r} is not a count from {least} to {most}")
    return value


def _digits(text: str) -> int:
    if not _is_number(text):
        raise WireError(f"{text[:64]!r} is not a count")
    return int(text)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 12
