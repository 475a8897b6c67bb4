"""Somebody at the service's page: logs in as a browser does, and asks the API as its scripts do, or with a token."""

from __future__ import annotations

import contextlib
import re
import time
from typing import Any

import httpx

from tests.hub_client import PATIENCE

PAGE = "/services/hami/"


class Visitor:
    """`Visitor(hub.url, "ada")`: logged in, with the page's cookies."""

    def __init__(self, url: str, name: str) -> None:
        self.name = name
        self.client = httpx.Client(base_url=url, follow_redirects=True, timeout=PATIENCE)
        login = self.client.get("/hub/login")
        form = {"username": name, "password": "any", "_xsrf": _xsrf(login.text)}
        self.client.post("/hub/login", data=form, params={"next": "/hub/token"})
        self.page = self.client.get(PAGE)
        found = re.search('data-xsrf="([^"]*)"', self.page.text)
        self.xsrf = found[1] if found else ""

    def get(self, path: str, **query: Any) -> httpx.Response:
        """As the page's scripts ask."""
        headers = {"X-XSRFToken": self.xsrf, "Sec-Fetch-Mode": "cors", "Sec-Fetch-Site": "same-origin"}
        return self.client.get(f"{PAGE}{path}", params=query or None, headers=headers)

    def put(self, path: str, body: Any, **headers: str) -> httpx.Response:
        own = {"X-XSRFToken": self.xsrf, "Sec-Fetch-Mode": "cors", "Sec-Fetch-Site": "same-origin"}
        return self.client.put(f"{PAGE}{path}", json=body, headers={**own, **headers})

    def token(self, *scopes: str) -> str:
        """A token of their own, as the hub's page makes them."""
        headers = {"X-XSRFToken": self.client.cookies.get("_xsrf", path="/hub/") or ""}
        answer = self.client.post(f"/hub/api/users/{self.name}/tokens", json={"scopes": scopes}, headers=headers)
        return str(answer.json()["token"])

    def sections(self) -> dict[str, Any]:
        """What is live now."""
        answer = self.get("api/now")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()["sections"]
        return found


def until_page(url: str) -> None:
    """Wait until the hub has put its service behind the proxy."""
    end = time.monotonic() + PATIENCE
    while not _is_up(url):
        if time.monotonic() > end:
            raise TimeoutError("The page doesn't come up.")
        time.sleep(0.1)


def _is_up(url: str) -> bool:
    with contextlib.suppress(httpx.TransportError):  # the proxy knows the page before it answers
        return httpx.get(f"{url}{PAGE}static/page.css").status_code == 200
    return False


def _xsrf(html: str) -> str:
    found = re.search('name="_xsrf" value="([^"]+)"', html)
    assert found, html[:500]
    return found[1]
