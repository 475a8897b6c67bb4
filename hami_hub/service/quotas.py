"""Quotas read, tried and written by whoever may.

Strict before anything is written, and never over somebody else's change: who writes says which version they have seen.
The hub itself checks once more whether the person may, since it is asked with their own token.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from ..core.budgets import Measure, same_group, total
from ..core.dry_run import DryRun, would_have_refused
from ..core.quota import EXCEPTION_KEYS, KEYS, Charge, Quota, is_quota_key, parse_quota
from ..core.quota_words import spoken_amount
from ..core.times import DAY
from ..journal import JournalError
from .hubapi import Hub
from .live import Live
from .model import DEFAULT_GROUP, GroupSeen, budgets, quota_texts
from .records import Records

DRY_RUN_DAYS = 30
_EXAMPLES = 5


class QuotaError(RuntimeError):
    """A quota was not written.

    Attributes:
        status: for HTTP.
        said: what else is to be told, as JSON.
    """

    def __init__(self, message: str, status: int, said: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.status, self.said = status, dict(said or {})


def version_of(properties: Mapping[str, Any]) -> str:
    """A name for exactly these properties."""
    text = json.dumps(properties, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def texts_of(said: object) -> dict[str, Any]:
    """The quota's properties from what somebody sent; null takes a key away.

    Raises:
        QuotaError: it is no object, or has keys that are no quota's.
    """
    if not isinstance(said, dict):
        raise QuotaError('A quota is a JSON object of texts, like {"hami.vram": "24GiB"}.', 400)
    foreign = [key for key in said if not is_quota_key(key)]
    if foreign:
        raise QuotaError(
            f'"{foreign[0][:80]}" is no key of a quota: they begin with hami. Other properties are the admin page\'s.',
            400,
        )
    return {key: value for key, value in said.items() if value is not None}


class Quotas:
    """All groups' quotas.

    Args:
        hub: keeps them.
        records: for the dry run.
        live: knows what is in use.
        clock: Unix time.
    """

    def __init__(self, hub: Hub, records: Records, live: Live, clock: Callable[[], float] = time.time) -> None:
        self._hub, self._records, self._live, self._clock = hub, records, live, clock
        self._lock = asyncio.Lock()

    async def read(self, group: str) -> dict[str, Any]:
        """One group's quota as it is now.

        Raises:
            HubError: there is no such group, or the hub is away.
        """
        return _shown(await self._hub.group(group))

    async def write(self, group: str, texts: Mapping[str, Any], *, seen: str, token: str) -> dict[str, Any]:
        """Replace a group's quota; its other properties stay.

        Args:
            group: its name.
            texts: all of the quota's properties.
            seen: `version_of` the properties that the writer has seen; "*": whatever they are.
            token: the writer's own.

        Raises:
            QuotaError: it is written wrongly (422), or has changed meanwhile (409).
            HubError: the hub says no.
        """
        _, faults = parse_quota(texts)
        if faults:
            said = {"faults": [asdict(fault) for fault in faults]}
            raise QuotaError(f"The quota was not saved. {faults[0].text}", 422, said)
        async with self._lock:
            before = await self._hub.group(group)
            if seen not in ("*", version_of(before.properties)):
                raise QuotaError(_changed_meanwhile(before, texts), 409, _shown(before))
            kept = {key: value for key, value in before.properties.items() if not is_quota_key(key)}
            after = await self._hub.set_properties(group, {**kept, **texts}, token)
        self._live.look_again()
        return _shown(after)

    async def try_out(self, group: str, texts: Mapping[str, Any]) -> dict[str, Any]:
        """What a quota would do: its faults; or whom it would have refused lately, and what it means for what runs."""
        quota, faults = parse_quota(texts)
        if faults:
            return {"faults": [asdict(fault) for fault in faults]}
        return {"faults": [], "now": await self._now(group, quota), **await self._lately(group, quota)}

    async def _lately(self, group: str, quota: Quota) -> dict[str, Any]:
        now = self._clock()
        since = now - DRY_RUN_DAYS * DAY
        try:
            # the same window for a while, so that typing doesn't read the journal anew
            found = await self._records.starts(since - since % 60, now - now % 60 + 60)
        except JournalError as error:
            return {"text": f"What it would have refused isn't known. {error}", "refused": [], "judged": None}
        run = await asyncio.to_thread(would_have_refused, quota, found.starts, group, since=since, now=now)
        return {"text": run.text(DRY_RUN_DAYS), "refused": _examples(run), "judged": run.judged}

    async def _now(self, group: str, quota: Quota) -> str:
        """What becomes of what runs: nothing, and that is said where it is more than the quota."""
        world = await self._live.world()
        charges: tuple[Charge, ...] = ()
        for budget, _ in budgets(world):
            if same_group(budget.group, group):
                charges = budget.charges
        used = total(charges)
        over = [
            f"{spoken_amount(measure, measure.of(used))} in use, {spoken_amount(measure, limit)} allowed"
            for measure in Measure
            if (limit := getattr(quota, measure.value)) is not None and measure.of(used) > limit
        ]
        if not over:
            return ""
        return f"More is in use now than that: {'; '.join(over)}. It runs on, and nothing new starts until it is less."


def _shown(group: GroupSeen) -> dict[str, Any]:
    _, faults = parse_quota(group.properties)
    return {
        "group": group.name,
        "properties": quota_texts(group.properties),
        "faults": [asdict(fault) for fault in faults],
        "version": version_of(group.properties),
        "members": group.members,
        "keys": dict(KEYS),
        "exceptions": list(EXCEPTION_KEYS),
    }


def shown_default(properties: Mapping[str, Any]) -> dict[str, Any]:
    """The default quota, which is set in the hub's configuration."""
    return _shown(GroupSeen(DEFAULT_GROUP, properties))


def _changed_meanwhile(group: GroupSeen, texts: Mapping[str, Any]) -> str:
    theirs = quota_texts(group.properties)
    differences = [
        f"{key} is {theirs.get(key) or 'not set'} now"
        for key in sorted({*theirs, *texts})
        if theirs.get(key) != texts.get(key)
    ]
    now = "; ".join(differences[:5]) or "the group's other properties were changed"
    return f"Somebody has changed this group meanwhile, so yours was not saved: {now}."


def _examples(run: DryRun) -> list[dict[str, Any]]:
    return [
        {
            "user": each.start.user,
            "server": each.start.server,
            "at": each.start.asked_at,
            "vram": each.start.vram,
            "key": each.key,
        }
        for each in run.refused[-_EXAMPLES:][::-1]
    ]
