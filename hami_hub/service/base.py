"""What every handler does: find out who asks, guard the page against foreign scripts, say what went wrong."""

from __future__ import annotations

import hashlib
import json
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from jinja2 import Environment, FileSystemLoader
from jupyterhub.services.auth import HubOAuthenticated, UserNotAllowed
from tornado.web import HTTPError, RequestHandler

from ..core.language import count, say
from ..journal import JournalError
from ..languages import best_language, html_lang
from .access import Person, person, reading_only
from .hubapi import Hub, HubError
from .live import Live
from .quotas import QuotaError, Quotas
from .records import Records

# Nothing from elsewhere and nothing inline: a name that a person chose can't become a script.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: {hub}; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
REMEMBERED_SECONDS = 3600.0
_REMEMBERED = 10_000


class Identities:
    """Who was who when the hub answered last: it may be away for a while, and people want to look all the more."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, tuple[float, Mapping[str, Any]]] = OrderedDict()

    def remember(self, token: str, model: Mapping[str, Any]) -> None:
        """`token` is `model`'s."""
        key = _hashed(token)
        self._known[key] = (time.monotonic(), model)
        self._known.move_to_end(key)
        while len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)

    def recall(self, token: str) -> Mapping[str, Any] | None:
        """Whose `token` was, within the last hour."""
        at, model = self._known.get(_hashed(token), (0.0, None))
        return model if model is not None and time.monotonic() - at < REMEMBERED_SECONDS else None


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What the handlers work with.

    Attributes:
        language: everybody's; "": each browser's own.
        templates: the pages.
    """

    live: Live
    records: Records
    quotas: Quotas
    hub: Hub
    default_quota: Mapping[str, Any]
    language: str = ""
    identities: Identities = field(default_factory=Identities)
    templates: Environment


def templates_in(folder: str) -> Environment:
    """The pages' templates, which escape all that they are given."""
    environment = Environment(loader=FileSystemLoader(folder), autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.globals.update(say=say, count=count)
    return environment


class Handler(HubOAuthenticated, RequestHandler):  # type: ignore[misc]  # JupyterHub has no types
    """A handler that knows who asks; pages and API are its two kinds."""

    parts: Parts
    who: Person

    def initialize(self, parts: Parts) -> None:
        """Tornado's: what the application was made with."""
        self.parts = parts

    def set_default_headers(self) -> None:
        """Of every answer, errors too."""
        self.set_header("Content-Security-Policy", _POLICY.format(hub=self.hub_auth.hub_host).replace(" ;", ";"))
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Referrer-Policy", "same-origin")
        self.set_header("Cache-Control", "no-store")
        self.clear_header("Server")

    async def prepare(self) -> None:
        """Find out who asks."""
        model, away = await self._identify()
        if model is None:
            self.not_logged_in()
            return
        try:
            self.current_user = self.check_hub_user(dict(model))
        except UserNotAllowed:
            raise HTTPError(403, "Your account may not use this page. Ask an admin.") from None
        known = person(model)
        self.who = reading_only(known) if away else known

    async def _identify(self) -> tuple[Mapping[str, Any] | None, bool]:
        """Who asks, and whether that is only remembered."""
        try:
            model = await self.hub_auth.get_user(self, sync=False)
        except HTTPError as error:
            if error.status_code < 500:
                raise
            remembered = self.parts.identities.recall(self.hub_auth.get_token(self) or "")
            if remembered is None:
                raise HTTPError(503, "The hub doesn't answer, so nobody can be known. Try again in a minute.") from None
            return remembered, True
        if model is not None:
            self.parts.identities.remember(self.hub_auth.get_token(self) or "", model)
        return model, False

    def not_logged_in(self) -> None:
        """Nobody is known: how that is told."""
        raise NotImplementedError

    @property
    def asked_language(self) -> str:
        """The language of who asks."""
        return self.parts.language or best_language(self.request.headers.get("Accept-Language"))

    def log_exception(self, typ: Any, value: Any, tb: Any) -> None:
        """A refusal in words is no event for the log."""
        if not isinstance(value, (HubError, JournalError, QuotaError)):
            super().log_exception(typ, value, tb)

    @staticmethod
    def explain(status: int, error: BaseException | None) -> tuple[int, str, Mapping[str, Any]]:
        """What to answer: the status, a sentence, and what else there is to tell."""
        if isinstance(error, QuotaError):
            return error.status, str(error), error.said
        if isinstance(error, HubError):
            return error.status or 503, str(error), {}
        if isinstance(error, JournalError):
            return 503, str(error), {}
        if isinstance(error, HTTPError):
            usual = {404: "There is no such page.", 405: "That can't be done here."}.get(error.status_code, "")
            said = error.log_message % error.args if error.log_message else ""
            return error.status_code, said or usual or error.reason or "", {}
        return status, "Something went wrong. The hub's log says what.", {}


class ApiHandler(Handler):
    """Answers with JSON."""

    def not_logged_in(self) -> None:
        """Whoever uses the API brings a token, or the page's cookie."""
        raise HTTPError(401, "Log in first, or send a token of JupyterHub's in the header Authorization.")

    def need(self, allowed: bool) -> None:
        """Go on only if that is so.

        Raises:
            HTTPError: 403.
        """
        if not allowed:
            raise HTTPError(
                403, "Your account may not do that. Ask an admin for the scope groups, or custom:hami:view."
            )

    def answer(self, said: Any) -> None:
        """`said` as JSON."""
        self.set_header("Content-Type", "application/json; charset=utf-8")
        self.write(json.dumps(said, separators=(",", ":")))

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """What went wrong, as JSON."""
        status, message, more = self.explain(status_code, (kwargs.get("exc_info") or (None, None))[1])
        self.set_status(status)
        self.answer({"message": message, **more})


class PageHandler(Handler):
    """Answers with a page."""

    def not_logged_in(self) -> None:
        """By way of the hub's login."""
        self.redirect(self.get_login_url())

    def show(self, template: str, **values: Any) -> None:
        """Write a page."""
        self.set_header("Content-Type", "text/html; charset=utf-8")
        hub = self.hub_auth
        self.write(
            self.parts.templates.get_template(template).render(
                base=hub.base_url,
                hub=hub.hub_host + hub.hub_prefix,
                lang=html_lang(values.pop("language", "en")),
                who=getattr(self, "who", None),
                **values,
            )
        )

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """What went wrong, as a page."""
        status, message, _ = self.explain(status_code, (kwargs.get("exc_info") or (None, None))[1])
        self.set_status(status)
        self.show("problem.html", message=message)


def _hashed(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
