"""HAMi's wire formats, in both directions: resources, annotations, environment.

Formats as written and read by HAMi 2.10.  Decoding is strict about what matters and forgiving about what HAMi itself
gets wrong (one more `;` for each time an annotation was rewritten).  Names are in `names`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .cards import Card, CardUuid
from .names import (
    ENV_CORE_POLICY,
    ENV_MEMORY_LIMIT,
    ENV_SM_LIMIT,
    ENV_TASK_PRIORITY,
    GPU_POLICY,
    NO_USE_TYPE,
    NO_USE_UUID,
    USE_TYPE,
    USE_UUID,
    ResourceNames,
)
from .slices import CardPolicy, CardShare, CardWishes, CorePolicy, Placement, Priority, SliceRequest
from .units import AmountError, Mib, Percent

_VENDOR = "NVIDIA"


class WireError(ValueError):
    """Text on a Kubernetes object that is not in HAMi's format.  Says which part and what was expected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestDefaults:
    """Helm's scheduler.defaultMem, defaultCores and defaultGPUNum.  `memory` 0: the whole card."""

    memory: Mib = Mib(0)
    cores: Percent = Percent(0)
    count: int = 1


def encode_node_register(cards: Sequence[Card]) -> str:
    """`cards` as the node annotation `hami.io/node-nvidia-register`."""
    return json.dumps([_card_to_json(card) for card in cards], separators=(",", ":"))


def decode_node_register(text: str) -> tuple[Card, ...]:
    """The cards that a node annotation lists.  HAMi leaves out zero and false: a card without `health` is ill.

    Raises:
        WireError: not a JSON list of cards.
    """
    try:
        entries = json.loads(text)
        return tuple(_card_from_json(entry) for entry in entries)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise WireError(f"The node's list of cards can't be read ({error}). Expected a JSON list of objects.") from None


def encode_devices(containers: Sequence[Sequence[CardShare]]) -> str:
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


def request_from_resources(
    limits: Mapping[str, str | int],
    annotations: Mapping[str, str] | None = None,
    *,
    names: ResourceNames | None = None,
    defaults: RequestDefaults | None = None,
) -> SliceRequest | None:
    """What a container's resource limits ask for; None if nothing of ours.

    Raises:
        AmountError: a number out of range, with the resource's name.
    """
    names, defaults = names or ResourceNames(), defaults or RequestDefaults()
    keys = (names.count, names.memory, names.memory_percentage, names.cores)
    given = {key: _whole_number(key, limits[key]) for key in (*keys, names.priority) if key in limits}
    count = given.get(names.count, defaults.count if any(key in given for key in keys) else 0)
    if count == 0:
        return None
    memory = given.get(names.memory, 0)
    percentage = given.get(names.memory_percentage, 0)
    if percentage > 100:
        raise AmountError(f"{names.memory_percentage} is {percentage}. Ask for 1 to 100.")
    if not memory and not percentage:
        memory = defaults.memory
    return SliceRequest(
        cards=count,
        vram=Mib(memory) if memory else None,
        vram_percent=Percent(percentage) if percentage and not memory else None,
        # HAMi takes anything above 100 as all of the card.
        cores=Percent(min(100, given.get(names.cores, defaults.cores))),
        priority=Priority.HIGH if given.get(names.priority, Priority.LOW) == Priority.HIGH else Priority.LOW,
        card_policy=_card_policy(annotations or {}),
        wishes=_wishes(annotations or {}),
    )


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
        "mode": "hami-core",
        "health": card.healthy,
    }
    return {key: value for key, value in entry.items() if value}  # as Go's omitempty does


def _card_from_json(entry: Mapping[str, object]) -> Card:
    model = str(entry["type"])
    return Card(
        uuid=CardUuid(str(entry["id"])),
        index=_int(entry.get("index", 0)),
        model=model.removeprefix(f"{_VENDOR}-"),
        vram=Mib(_int(entry["devmem"])),
        split_count=_int(entry.get("count", 0)),
        healthy=entry.get("health", False) is True,
    )


def _share(part: str) -> CardShare:
    fields = part.split(",")
    if len(fields) != 4 or not (
        fields[2].isascii() and fields[2].isdigit() and fields[3].isascii() and fields[3].isdigit()
    ):
        raise WireError(f'"{part}" is not a device of a slice. Expected UUID,{_VENDOR},MiB,cores.')
    cores = Percent(int(fields[3]))
    return CardShare(uuid=CardUuid(fields[0]), vram=Mib(int(fields[2])), cores=cores, exclusive=cores == 100)


def _whole_number(key: str, value: str | int) -> int:
    text = str(value)
    if not (text.isascii() and text.isdigit() and len(text) <= 12):
        raise AmountError(f'{key} is "{text}". Write a whole number.')
    return int(text)


def _int(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise WireError(f"{value!r} is not a count")
    return value


def _card_policy(annotations: Mapping[str, str]) -> CardPolicy:
    first = annotations.get(GPU_POLICY, "").split(",")[0].strip().lower()
    return CardPolicy.SPREAD if first == CardPolicy.SPREAD.value else CardPolicy.BINPACK


def _wishes(annotations: Mapping[str, str]) -> CardWishes:
    def items(key: str) -> tuple[str, ...]:
        return tuple(item.strip() for item in annotations.get(key, "").split(",") if item.strip())

    return CardWishes(
        models=items(USE_TYPE),
        not_models=items(NO_USE_TYPE),
        uuids=tuple(map(CardUuid, items(USE_UUID))),
        not_uuids=tuple(map(CardUuid, items(NO_USE_UUID))),
    )
