"""Somebody at a hub's own pages, with a browser that has no JavaScript."""

from __future__ import annotations

import httpx
from hub_process import Hub

from tests.hub_client import PATIENCE


class Person:
    """`Person(hub, "alice").open("/hub/spawn")`: logged in.

    Args:
        hub: where.
        name: theirs.
        language: what the browser asks for, as Accept-Language has it; "": it doesn't say.
    """

    def __init__(self, hub: Hub, name: str, language: str = "") -> None:
        headers = {"Accept-Language": language} if language else {}
        self.browser = httpx.Client(base_url=hub.url, follow_redirects=True, timeout=PATIENCE, headers=headers)
        self.browser.get("/hub/login")
        self.send("/hub/login", {"username": name, "password": "x"})

    @property
    def xsrf(self) -> str:
        """What the hub wants to see with whatever changes something."""
        jar = self.browser.cookies.jar
        [token] = {cookie.value for cookie in jar if cookie.name == "_xsrf" and cookie.path == "/hub/"}
        return token or ""

    def open(self, place: str) -> str:
        """The page's HTML."""
        return self.browser.get(place).text

    def send(self, place: str, fields: dict[str, str]) -> str:
        """Send a form; the page that comes of it."""
        headers = {"Sec-Fetch-Mode": "navigate"}
        return self.browser.post(place, data={**fields, "_xsrf": self.xsrf}, headers=headers).text
