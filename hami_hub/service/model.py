"""The page's content as plain data, made from what the journal, the hub and the cards say.

Pure.  Rows by id in sections, so that `revisions` can tell what has changed; the browser draws them.  VRAM is MiB,
cores are percent, times are Unix time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ..core.budgets import Budget, charged_budgets
from ..core.cards import Card, CardUuid
from ..core.history import Start, StartState, charge_of
from ..core.inventory import QueuedPod
from ..core.quota import Quota, has_quota, is_quota_key
from ..core.units import Mib
from .sight import CardSeen, Sight, SliceSeen

Sections = dict[str, dict[str, Any]]

DEFAULT_GROUP = ""


@dataclass(frozen=True, slots=True)
class GroupSeen:
    """A JupyterHub group: its properties and how many are in it."""

    name: str
    properties: Mapping[str, Any] = field(default_factory=dict)
    members: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What the page is made from.

    Attributes:
        starts: those that are open.
        groups: all of the hub's; `default_quota` is for those who have none with a quota.
        names: whose slice is seen under which other name, "namespace/pod" to "alice/".
        problems: sentences about what isn't known.
    """

    sight: Sight = field(default_factory=Sight)
    starts: Sequence[Start] = ()
    groups: Sequence[GroupSeen] = ()
    default_quota: Mapping[str, Any] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


def page(world: World) -> Sections:
    """Everything that the admin's page shows live."""
    known = {start.server_of: start for start in world.starts}
    slices = [*_slices(world, known), *_placed_unseen(world, known)]
    problems = (*world.problems, *world.sight.problems)
    return {
        "notes": {str(number): {"text": text} for number, text in enumerate(problems)},
        "cards": {seen.card.uuid: _card(seen) for seen in world.sight.cards},
        "slices": {row["id"]: row for row, _ in slices},
        "used": {row["id"]: used for row, used in slices if used is not None},
        "waiting": {row["holder"]: row for row in _waiting(world, known)},
        "groups": {budget.group: _group(budget, group) for budget, group in budgets(world)},
    }


def budgets(world: World) -> tuple[tuple[Budget, GroupSeen], ...]:
    """The quotas with what is charged to them: of all groups that have one, and the default one if there is any."""
    paying = [group for group in world.groups if has_quota(group.properties)]
    if world.default_quota:
        paying.append(GroupSeen(DEFAULT_GROUP, world.default_quota))
    charges = (charge_of(start) for start in world.starts if start.cards)
    found = charged_budgets(((group.name, group.properties) for group in paying), charges)
    return tuple(zip(found, paying, strict=True))


def _card(seen: CardSeen) -> dict[str, Any]:
    card = seen.card
    return {
        "node": seen.node,
        "index": card.index,
        "model": card.model,
        "vram": card.vram,
        "state": _state(card),
    }


def _state(card: Card) -> str:
    return "closed" if card.healthy and card.cordoned else "ok" if card.healthy else "broken"


def _slices(world: World, known: Mapping[str, Start]) -> Iterable[tuple[dict[str, Any], Mib | None]]:
    """What is seen on the cards, with what the journal knows of it."""
    for seen in world.sight.slices:
        holder = world.names.get(seen.holder, seen.holder)
        yield _row(holder, seen, known.get(holder)), seen.used


def _placed_unseen(world: World, known: Mapping[str, Start]) -> Iterable[tuple[dict[str, Any], None]]:
    """What the journal has placed and nobody has seen: the cards can't be asked, or it has just begun."""
    seen = {world.names.get(each.holder, each.holder) for each in world.sight.slices}
    for start in known.values():
        if start.server_of in seen or not start.placed or start.state is StartState.WAITING:
            continue
        count = len(start.placed)
        for uuid in start.placed:
            part = SliceSeen(
                holder=start.server_of,
                card=CardUuid(uuid),
                vram=Mib(start.vram // count),
                cores=start.cores // count,
            )
            yield _row(start.server_of, part, start), None


def _row(holder: str, seen: SliceSeen, start: Start | None) -> dict[str, Any]:
    user, _, server = holder.partition("/")
    return {
        "id": f"{holder} {seen.card}",
        "holder": holder,
        "user": start.user if start else user,
        "server": start.server if start else server,
        "group": start.group if start else "",
        "profile": start.profile if start else "",
        "card": seen.card,
        "vram": seen.vram,
        "cores": seen.cores,
        "exclusive": seen.exclusive,
        "since": (start.started_at or start.asked_at) if start else seen.since,
        "until": start.until if start else None,
    }


def _waiting(world: World, known: Mapping[str, Start]) -> Iterable[dict[str, Any]]:
    pods = {world.names.get(each.holder, each.holder): each for each in world.sight.waiting}
    for holder, start in known.items():
        if start.state is StartState.WAITING or holder in pods:
            yield _waits(start, pods.get(holder))
    for holder, pod in pods.items():
        if holder not in known:  # somebody else's pod, or the journal is away
            user, _, server = holder.partition("/")
            nothing = {"group": "", "profile": "", "cards": 0, "vram": 0, "cores": 0}
            told = {"since": pod.since or 0, "place": pod.place, "why": pod.reason, "asks": pod.asks}
            yield {"holder": holder, "user": user, "server": server, **nothing, **told}


def asked_for(start: Start) -> dict[str, Any]:
    """Who asked for what, and who pays."""
    return {
        "user": start.user,
        "server": start.server,
        "group": start.group,
        "profile": start.profile,
        "cards": start.cards,
        "vram": start.vram,
        "cores": start.cores,
    }


def _waits(start: Start, pod: QueuedPod | None) -> dict[str, Any]:
    return {
        "holder": start.server_of,
        **asked_for(start),
        "since": start.asked_at,
        "place": pod.place if pod else start.position,
        "why": (pod.reason if pod else "") or start.words,
        "asks": "",
    }


def _group(budget: Budget, group: GroupSeen) -> dict[str, Any]:
    return {
        "members": group.members,
        "people": len({charge.user for charge in budget.charges}),
        "used": asdict(budget.used),
        "limit": limits(budget.quota),
        "properties": quota_texts(group.properties),
        "faults": len(budget.faults),
    }


def limits(quota: Quota) -> dict[str, int | None]:
    """What a quota gives at most at once; None: as much as there is."""
    return {"vram": quota.vram, "cores": quota.cores, "servers": quota.servers}


def quota_texts(properties: Mapping[str, Any]) -> dict[str, str]:
    """The properties that belong to a quota, as text."""
    return {key: _text(value) for key, value in properties.items() if is_quota_key(key)}


def _text(value: object) -> str:
    return value if isinstance(value, str) else str(value)
