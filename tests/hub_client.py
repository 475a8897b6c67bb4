"""What tests ask of a running JupyterHub over REST, whichever way it was started: by `hub_process` or `hub_site`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx


class Failed(Exception):
    """A server was not started; the text is what the person read."""


class HubClient:
    """Servers and their progress.  `api` speaks to /hub/api with a service's token."""

    api: httpx.Client

    def progress(self, user: str, server: str = "") -> Iterator[dict[str, Any]]:
        """What the progress page is told, as it comes."""
        with self.api.stream("GET", self.place(user, server) + "/progress") as answer:
            for line in answer.iter_lines():
                if line.startswith("data: "):
                    yield json.loads(line.removeprefix("data: "))

    def stop(self, user: str, server: str = "") -> None:
        """Stop a server, or cancel its start, and return when that is done."""
        raise NotImplementedError

    def stop_all(self) -> None:
        for user in self.api.get("/users", params={"state": "active"}).json():
            for server in user["servers"]:
                self.stop(user["name"], server)

    def servers(self, user: str) -> dict[str, Any]:
        """The active servers of a user."""
        answer = self.api.get(f"/users/{user}", params={"include_stopped_servers": "0"})
        found: dict[str, Any] = answer.json().get("servers", {})
        return found

    @staticmethod
    def place(user: str, server: str) -> str:
        """The path of a server in the API."""
        return f"/users/{user}/servers/{server}" if server else f"/users/{user}/server"
