"""A person at a browser, as far as requests go: logs in, starts a server, asks the server's own API."""

from __future__ import annotations

import time

import requests

START_SECONDS = 150
PATIENCE = 60  # seconds, for an answer


class Person:
    """An account of a hub.

    Args:
        url: the hub, "http://127.0.0.1:8000".
        name, password: the account's.
    """

    def __init__(self, url: str, name: str, password: str) -> None:
        self.url, self.name, self.password = url, name, password
        self.session = requests.Session()

    def log_in(self) -> requests.Response:
        """What the hub answers to the login form."""
        self.session.get(f"{self.url}/hub/login", timeout=PATIENCE)
        form = {"username": self.name, "password": self.password, "_xsrf": self._xsrf("/hub/")}
        return self.session.post(f"{self.url}/hub/login?next=/hub/home", data=form, timeout=PATIENCE)

    def start(self, **options: str) -> None:
        """Start the account's server on a profile and wait until it answers."""
        answer = self.session.post(
            f"{self.url}/hub/api/users/{self.name}/server",
            json=options,
            headers=self._headers(),
            timeout=PATIENCE,
        )
        assert answer.status_code in (201, 202), answer.text
        deadline = time.monotonic() + START_SECONDS
        while not self._ready():
            assert time.monotonic() < deadline, "the server did not start"
            time.sleep(0.2)
        # the server sends its first visitor to the hub, which knows who it is
        assert self.get("/lab").status_code == 200

    def get(self, path: str) -> requests.Response:
        """What the account's server answers."""
        return self.session.get(f"{self.url}/user/{self.name}{path}", timeout=PATIENCE)

    def post(self, path: str, **json: object) -> requests.Response:
        """The same, with a body."""
        headers = {"X-XSRFToken": self._xsrf(f"/user/{self.name}/")}
        return self.session.post(f"{self.url}/user/{self.name}{path}", json=json, headers=headers, timeout=PATIENCE)

    def _ready(self) -> bool:
        answer = self.session.get(f"{self.url}/hub/api/users/{self.name}", headers=self._headers(), timeout=PATIENCE)
        return bool(answer.json().get("servers", {}).get("", {}).get("ready"))

    def _headers(self) -> dict[str, str]:
        return {"X-XSRFToken": self._xsrf("/hub/"), "Referer": f"{self.url}/hub/home"}

    def _xsrf(self, path: str) -> str:
        return next(
            (cookie.value or "" for cookie in self.session.cookies if cookie.name == "_xsrf" and cookie.path == path),
            "",
        )
