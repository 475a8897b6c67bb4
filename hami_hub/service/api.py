"""The REST API below /services/hami/api/: what the page shows, for scripts too."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable
from typing import Any

from tornado.web import HTTPError

from ..core.history import Start, StartState, Use, UsedBy, use_csv
from ..core.times import DAY
from .base import ApiHandler
from .model import DEFAULT_GROUP, asked_for
from .quotas import shown_default, texts_of

USUAL_DAYS = 30
_PAGE = 50
_MOST = 1000


class NowHandler(ApiHandler):
    """`now?since=`: everything live, or what has changed since a revision."""

    async def get(self) -> None:
        """Answer 304 to whoever sends If-None-Match with the newest revision."""
        self.need(self.who.sees_all)
        said = await self.parts.live.since(self.get_argument("since", ""))
        self.set_header("ETag", f'"{said["revision"]}"')
        if self.check_etag_header():
            self.set_status(304)
            return
        self.answer(said)

    def compute_etag(self) -> None:
        """The revision is one already."""


class QuotasHandler(ApiHandler):
    """`quotas`: all groups' quotas, with what is in use."""

    async def get(self) -> None:
        """Those that may be seen."""
        groups = (await self.parts.live.since(""))["sections"]["groups"]
        seen = {name: group for name, group in groups.items() if self.who.may_see(name)}
        if not seen:
            self.need(self.who.sees_all)
        self.answer({"quotas": seen})


class QuotaHandler(ApiHandler):
    """`quotas/GROUP`: one group's quota, to be read and replaced; the default one, which has no name, only read."""

    async def get(self, group: str) -> None:
        """As it is now; its version is the ETag."""
        self.need(self.who.may_see(group))
        if group == DEFAULT_GROUP:
            said = shown_default(self.parts.default_quota)
        else:
            said = await self.parts.quotas.read(group)
        self.set_header("ETag", f'"{said["version"]}"')
        self.answer({**said, "editable": self.who.may_edit(group) and group != DEFAULT_GROUP})

    async def put(self, group: str) -> None:
        """Replace it.  If-Match names the version that was seen, or is *."""
        self.check_xsrf_cookie()
        self.need(self.who.may_edit(group))
        if group == DEFAULT_GROUP:
            raise HTTPError(405, "The default quota is set in the hub's configuration, c.GpuSlices.default_quota.")
        seen = self.request.headers.get("If-Match", "").strip().removeprefix("W/").strip('"')
        if not seen:
            raise HTTPError(428, "Say with the header If-Match which version you have seen: the ETag of a GET, or *.")
        token = self.hub_auth.get_token(self)
        said = await self.parts.quotas.write(group, texts_of(_body(self)), seen=seen, token=token)
        self.set_header("ETag", f'"{said["version"]}"')
        self.answer({**said, "editable": True})

    def compute_etag(self) -> None:
        """The quota's version is one already."""


class DryRunHandler(ApiHandler):
    """`dry-run?group=GROUP&hami.vram=…`: what a quota would do."""

    async def get(self) -> None:
        """Its faults, or whom it would have refused in the last 30 days."""
        group = self.get_argument("group", "")
        self.need(self.who.may_see(group))
        texts = {
            name: values[-1].decode(errors="replace")
            for name, values in self.request.query_arguments.items()
            if name != "group"
        }
        self.answer(await self.parts.quotas.try_out(group, texts_of(texts)))


class UsageHandler(ApiHandler):
    """`usage?by=user|group&from=&to=&q=&offset=`: GiB-hours, who used most first."""

    async def get(self) -> None:
        """A page of the rows, with the sum of all."""
        by, t0, t1 = _by(self), *_window(self)
        rows = await _use(self, t0, t1, by)
        found = _search(rows, self.get_argument("q", ""))
        offset, limit = _paging(self)
        self.answer(
            {
                "from": t0,
                "to": t1,
                "total": len(found),
                "gib_hours": sum(row.gib_hours for row in found),
                "most": max((row.gib_hours for row in found), default=0),
                "rows": [_use_row(row) for row in found[offset : offset + limit]],
            }
        )


class UsageCsvHandler(ApiHandler):
    """`usage.csv`: the same as a table for spreadsheets, all of it."""

    async def get(self) -> None:
        """The whole table."""
        by, t0, t1 = _by(self), *_window(self)
        rows = await _use(self, t0, t1, by)
        self.set_header("Content-Type", "text/csv; charset=utf-8")
        self.set_header("Content-Disposition", f'attachment; filename="gpu-use-by-{by.value}.csv"')
        self.write(use_csv(rows, by))


class StartsHandler(ApiHandler):
    """`starts?state=&reason=&q=&from=&to=&offset=`: what became of every start, the newest first."""

    states: frozenset[StartState] | None = None

    async def get(self) -> None:
        """A page of them."""
        self.need(self.who.sees_all)
        t0, t1 = _window(self)
        found = await self.parts.records.starts(t0, t1)
        wanted = [start for start in found.starts if self._wanted(start)]
        offset, limit = _paging(self)
        self.answer(
            {
                "total": len(wanted),
                "more": found.more,
                "reasons": sorted({start.reason for start in found.starts if start.reason}),
                "rows": [start_row(start) for start in wanted[offset : offset + limit]],
            }
        )

    def _wanted(self, start: Start) -> bool:
        state, reason = self.get_argument("state", ""), self.get_argument("reason", "")
        looked = self.get_argument("q", "").casefold()
        texts = (start.user, start.server, start.group, start.profile, start.words)
        return (
            (self.states is None or start.state in self.states)
            and (not state or start.state.value in state.split(","))
            and (not reason or start.reason == reason)
            and (not looked or any(looked in text.casefold() for text in texts))
        )


class RefusalsHandler(StartsHandler):
    """`refusals`: those of `starts` that came to nothing."""

    states = frozenset({StartState.REFUSED, StartState.FAILED})


class LostHandler(ApiHandler):
    """Any other address of the API."""

    def get(self, *_: str) -> None:
        """There is none."""
        raise HTTPError(404, "There is no such address in the API. See docs/admin-page.md.")

    put = post = delete = get


def start_row(start: Start) -> dict[str, Any]:
    """A start as JSON."""
    return {
        "id": start.id,
        **asked_for(start),
        "state": start.state.value,
        "reason": start.reason,
        "words": start.words,
        "asked": start.asked_at,
        "started": start.started_at,
        "ended": start.ended_at,
    }


def _use_row(row: Use) -> dict[str, Any]:
    return {
        "key": row.key,
        "gib_hours": round(row.gib_hours, 3),
        "card_hours": round(row.card_hours, 3),
        "server_hours": round(row.server_hours, 3),
        "starts": row.starts,
        "refused": row.refused,
    }


def _search(rows: Iterable[Use], text: str) -> list[Use]:
    looked = text.casefold()
    return [row for row in rows if looked in row.key.casefold()]


async def _use(handler: ApiHandler, t0: float, t1: float, by: UsedBy) -> tuple[Use, ...]:
    handler.need(handler.who.sees_all)
    return await handler.parts.records.use(t0, t1, by)


def _by(handler: ApiHandler) -> UsedBy:
    said = handler.get_argument("by", UsedBy.USER.value)
    try:
        return UsedBy(said)
    except ValueError:
        raise HTTPError(400, "by is user or group.") from None


def _window(handler: ApiHandler) -> tuple[float, float]:
    """From when to when, Unix time; the last 30 days if nothing is said."""
    now = math.ceil(time.time() / 60) * 60.0  # the same question for a minute is answered once
    t1 = _moment(handler, "to", now)
    t0 = _moment(handler, "from", t1 - USUAL_DAYS * DAY)
    if not t0 < t1:
        raise HTTPError(400, "from is not before to. Both are Unix time in seconds.")
    return t0, t1


def _moment(handler: ApiHandler, name: str, usual: float) -> float:
    said = handler.get_argument(name, "")
    try:
        moment = float(said) if said else usual
    except ValueError:
        moment = math.nan
    if not 0 <= moment < 1e11:
        raise HTTPError(400, f"{name} is Unix time in seconds, like {usual:.0f}.")
    return moment


def _paging(handler: ApiHandler) -> tuple[int, int]:
    found = []
    for name, usual, most in (("offset", 0, 10**7), ("limit", _PAGE, _MOST)):
        said = handler.get_argument(name, str(usual))
        if not (said.isascii() and said.isdigit() and len(said) < 9 and int(said) <= most):
            raise HTTPError(400, f"{name} is a whole number, at most {most}.")
        found.append(int(said))
    return found[0], found[1]


def _body(handler: ApiHandler) -> object:
    try:
        return json.loads(handler.request.body)
    except ValueError:
        raise HTTPError(400, "The body is no JSON.") from None
