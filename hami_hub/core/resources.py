"""What a container asks for, in Kubernetes' words: limits, annotations and variables to a SliceRequest, and back.

What a placed slice looks like on a node or a pod is in `codec`; names are in `names`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .cards import CardUuid
from .names import (
    ENV_CORE_POLICY,
    ENV_OOM_KILLER,
    GPU_POLICY,
    NO_USE_TYPE,
    NO_USE_UUID,
    NODE_POLICY,
    USE_TYPE,
    USE_UUID,
    ResourceNames,
)
from .quantity import whole_quantity
from .slices import CardPolicy, CardWishes, CorePolicy, NodePolicy, Priority, SliceRequest
from .units import MAX_VRAM, AmountError, Mib, Percent

# No node has so many cards; more is a slip of the keyboard.
MAX_CARDS = 1024
_MUTEX = "mutex"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestDefaults:
    """What counts where a pod says nothing.

    Attributes:
        memory: Helm's scheduler.defaultMem; 0: the whole card.
        cores: scheduler.defaultCores.
        count: scheduler.defaultGPUNum, for who names an amount and no card; 0: such a pod asks for nothing of ours.
        card_policy: scheduler.defaultSchedulerPolicy.gpuSchedulerPolicy.
        core_policy: devices.nvidia.gpuCorePolicy.
        oom_killer: whether a process that is found over its VRAM is ended; HAMi's default is yes.
    """

    memory: Mib = Mib(0)
    cores: Percent = Percent(0)
    count: int = 1
    card_policy: CardPolicy = CardPolicy.FGD
    core_policy: CorePolicy = CorePolicy.DEFAULT
    oom_killer: bool = True


def request_from_resources(
    limits: Mapping[str, object],
    annotations: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    *,
    names: ResourceNames | None = None,
    defaults: RequestDefaults | None = None,
) -> SliceRequest | None:
    """What a container's resource limits ask for; None if nothing of ours.

    Raises:
        AmountError: a number out of range, or a word that is none, with the name of the resource or variable.
    """
    names, defaults = names or ResourceNames(), defaults or RequestDefaults()
    given = amounts(limits, names)
    amount_named = any(key in given for key in (names.memory, names.memory_percentage, names.cores))
    count = given.get(names.count, defaults.count if amount_named else 0)
    if count == 0:
        return None
    annotations, environment = annotations or {}, environment or {}
    memory = given.get(names.memory, 0)
    percentage = given.get(names.memory_percentage, 0)
    if not memory and not percentage:
        memory = defaults.memory
    return SliceRequest(
        cards=count,
        vram=Mib(memory) if memory else None,
        vram_percent=Percent(percentage) if percentage and not memory else None,
        # HAMi takes anything above 100 as all of the card.
        cores=Percent(min(100, given.get(names.cores, defaults.cores))),
        priority=Priority.HIGH if given.get(names.priority, Priority.LOW) == Priority.HIGH else Priority.LOW,
        policy=_core_policy(environment, defaults),
        card_policy=_card_policy(annotations, defaults),
        empty_card=_MUTEX in _words(annotations, GPU_POLICY),
        wishes=_wishes(annotations),
        oom_killer=_oom_killer(environment, defaults),
    )


def amounts(limits: Mapping[str, object], names: ResourceNames) -> dict[str, int]:
    """Those of `limits` that are ours, as numbers, each within what makes any sense.

    Raises:
        AmountError: with the resource's name.
    """
    bounds = {
        names.count: MAX_CARDS,
        names.memory: MAX_VRAM,
        names.memory_percentage: 100,
        names.cores: 1_000_000,
        names.priority: 1_000_000,
    }
    return {key: _amount(key, limits[key], most) for key, most in bounds.items() if limits.get(key) is not None}


def resources_from_request(request: SliceRequest, names: ResourceNames | None = None) -> dict[str, str]:
    """The limits with which a container asks for `request`: every amount is said, so that no default of the cluster
    changes it.  Wishes and policies go by `annotations_from_request` and `environment_from_request`.
    """
    names = names or ResourceNames()
    memory = (
        {names.memory_percentage: str(request.vram_percent or 100)}
        if request.vram is None
        else {names.memory: str(request.vram)}
    )
    priority = {names.priority: str(int(request.priority))}
    return {names.count: str(request.cards), **memory, names.cores: str(request.cores), **priority}


def annotations_from_request(request: SliceRequest) -> dict[str, str]:
    """The pod's annotations that say which cards `request` may have.  Counts for all containers of the pod."""
    wishes = request.wishes
    policy = [request.card_policy.value] if request.card_policy is not RequestDefaults().card_policy else []
    lists = {
        USE_TYPE: wishes.models,
        NO_USE_TYPE: wishes.not_models,
        USE_UUID: wishes.uuids,
        NO_USE_UUID: wishes.not_uuids,
        GPU_POLICY: [*policy, *([_MUTEX] if request.empty_card else [])],
    }
    return {key: ",".join(items) for key, items in lists.items() if items}


def environment_from_request(request: SliceRequest) -> dict[str, str]:
    """The container's variables that say how its share is kept."""
    return {ENV_CORE_POLICY: request.policy.value, ENV_OOM_KILLER: "true" if request.oom_killer else "false"}


def node_policy(annotations: Mapping[str, str], default: NodePolicy) -> NodePolicy:
    """Which node a pod wants of those that fit; a word that is none counts as none."""
    known = {policy.value for policy in NodePolicy}
    return next((NodePolicy(word) for word in _words(annotations, NODE_POLICY) if word in known), default)


def _amount(key: str, quantity: object, most: int) -> int:
    try:
        amount = whole_quantity(quantity)
    except AmountError as error:
        raise AmountError(f"{key}: {error}") from None
    if 0 <= amount <= most:
        return amount
    if amount > most == MAX_VRAM:
        raise AmountError(f"{key} is {amount} MiB, more than any card has. It counts MiB: write 4096 for 4 GiB.")
    raise AmountError(f"{key} is {amount}. Write a number from 0 to {most}.")


def _core_policy(environment: Mapping[str, str], defaults: RequestDefaults) -> CorePolicy:
    word = environment.get(ENV_CORE_POLICY, "").strip().lower()
    if not word:
        return defaults.core_policy
    try:
        return CorePolicy(word)
    except ValueError:
        raise AmountError(f'{ENV_CORE_POLICY} is "{word[:32]}". Write default, force or disable.') from None


def _oom_killer(environment: Mapping[str, str], defaults: RequestDefaults) -> bool:
    word = environment.get(ENV_OOM_KILLER, "").strip().lower()
    if word in ("true", "1"):
        return True
    if word in ("false", "0"):
        return False
    if word:
        raise AmountError(f'{ENV_OOM_KILLER} is "{word[:32]}". Write true or false.')
    return defaults.oom_killer


def _card_policy(annotations: Mapping[str, str], defaults: RequestDefaults) -> CardPolicy:
    known = {policy.value for policy in CardPolicy}
    return next((CardPolicy(word) for word in _words(annotations, GPU_POLICY) if word in known), defaults.card_policy)


def _wishes(annotations: Mapping[str, str]) -> CardWishes:
    return CardWishes(
        models=_items(annotations, USE_TYPE),
        not_models=_items(annotations, NO_USE_TYPE),
        uuids=tuple(map(CardUuid, _items(annotations, USE_UUID))),
        not_uuids=tuple(map(CardUuid, _items(annotations, NO_USE_UUID))),
    )


def _words(annotations: Mapping[str, str], key: str) -> tuple[str, ...]:
    return tuple(item.lower() for item in _items(annotations, key))


def _items(annotations: Mapping[str, str], key: str) -> tuple[str, ...]:
    text = annotations.get(key) or ""
    return tuple(item.strip() for item in text.split(",") if item.strip()) if text else ()
