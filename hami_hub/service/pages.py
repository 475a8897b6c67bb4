"""The pages: everybody's own, and the admin's, which its scripts fill from the API."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

from tornado.web import HTTPError, StaticFileHandler

from ..core.budgets import Budget
from ..core.history import Start, UsedBy, use
from ..core.language import speaking
from ..core.times import DAY
from ..journal import JournalError, NoJournalError
from ..languages import translator
from .api import USUAL_DAYS, start_row
from .base import ApiHandler, Handler, PageHandler
from .mine import Mine, budgets_of, mine
from .model import limits


class HomeHandler(PageHandler):
    """The page that somebody comes to: everything for who may see it, else their own."""

    def get(self) -> None:
        """One of the two."""
        if not self.who.sees_all:
            self.redirect(f"{self.hub_auth.base_url}mine")
            return
        self.show("admin.html", xsrf=self.xsrf_token.decode(), edits=self.who.edits_all)


class MineHandler(PageHandler):
    """Somebody's own page, ready to be read without a script; `?part=1` is what a script puts in its place."""

    async def get(self) -> None:
        """In their language."""
        language = self.asked_language
        with speaking(translator(language)):
            shown = await _mine(self)
            template = "mine-part.html" if self.get_argument("part", "") else "mine.html"
            self.show(template, language=language, mine=shown, xsrf=self.xsrf_token.decode())


class MeHandler(ApiHandler):
    """`me`: the same as data."""

    async def get(self) -> None:
        """Budgets, servers, use."""
        now = time.time()
        world = await self.parts.live.world()
        past, problem = await _past(self, now)
        name = self.who.name
        had = use(past, now - USUAL_DAYS * DAY, now, by=UsedBy.USER, now=now)
        self.answer(
            {
                "user": name,
                "groups": list(self.who.groups),
                "problems": [problem] if problem else [],
                "budgets": [_budget(budget, name) for budget in budgets_of(world, self.who.groups)],
                "servers": [start_row(start) for start in world.starts if start.user == name],
                "gib_hours": round(sum(row.gib_hours for row in had), 3),
                "days": USUAL_DAYS,
            }
        )


class LostPageHandler(PageHandler):
    """Any other address."""

    def get(self, *_: str) -> None:
        """There is none."""
        raise HTTPError(404)


class FilesHandler(StaticFileHandler):
    """Scripts and styles, asked for again each time: an update takes effect at once, what is the same isn't sent."""

    def set_extra_headers(self, path: str) -> None:
        """Of each file."""
        self.set_header("Cache-Control", "no-cache")
        self.set_header("X-Content-Type-Options", "nosniff")


async def _mine(handler: Handler) -> Mine:
    now = time.time()
    world = await handler.parts.live.world()
    past, problem = await _past(handler, now)
    had = use(past, now - USUAL_DAYS * DAY, now, by=UsedBy.USER, now=now)
    return mine(
        world,
        user=handler.who.name,
        groups=handler.who.groups,
        past=past,
        had=had[0] if had else None,
        days=USUAL_DAYS,
        now=now,
        away=bool(handler.parts.hub.problem),
        past_unknown=bool(problem),
    )


async def _past(handler: Handler, now: float) -> tuple[tuple[Start, ...], str]:
    """Somebody's starts of the last days, and why they aren't known."""
    until = now - now % 60 + 60
    try:
        return await handler.parts.records.starts_of(handler.who.name, until - USUAL_DAYS * DAY, until), ""
    except NoJournalError:
        return (), ""  # the hub has started nothing yet
    except JournalError as error:
        return (), str(error)


def _budget(budget: Budget, user: str) -> dict[str, Any]:
    """What may be told of it to somebody in the group: sums."""
    return {
        "group": budget.group,
        "used": asdict(budget.used),
        "mine": asdict(budget.of_user(user)),
        "limit": limits(budget.quota),
        "my_limit": asdict(budget.quota.of_user(user)),
        "faults": [fault.text for fault in budget.faults],
    }
