"""What tests ask of a running JupyterHub over REST, whichever way it was started: by `hub_process` or `hub_site`."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote

import httpx

PATIENCE = 120.0  # seconds, on a busy machine
# httpcore closes idle connections beyond a limit, also one that another thread has just been given: so none is closed.
_KEEP_ALL = httpx.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=None)


def api_client(hub_url: str, token: str) -> httpx.Client:
    """What asks the API of the hub at `hub_url`, from any number of threads."""
    headers = {"Authorization": f"token {token}"}
    return httpx.Client(base_url=f"{hub_url}/hub/api", headers=headers, timeout=PATIENCE, limits=_KEEP_ALL)


class Failed(Exception):
    """A server was not started; the text is what the person read."""


class HubClient:
    """Servers, their progress, and groups with quotas.  `api` speaks to /hub/api with a service's token."""

    api: httpx.Client

    def progress(self, user: str, server: str = "") -> Iterator[dict[str, Any]]:
        """What the progress page is told, as it comes."""
        with self.api.stream("GET", self.place(user, server) + "/progress") as answer:
            for line in answer.iter_lines():
                if line.startswith("data: "):
                    yield json.loads(line.removeprefix("data: "))

    def until_started(self, user: str, server: str = "") -> list[str]:
        """Follow the progress to its end; all that was said.

        Raises:
            Failed: the server was not started, with what the person read.
        """
        told = self.until_over(user, server)
        if told[-1].get("failed"):
            raise Failed(told[-1]["message"].removeprefix("Spawn failed: "))
        return [event["message"] for event in told]

    def until_over(self, user: str, server: str = "") -> list[dict[str, Any]]:
        """Follow the progress to its end; all events, of which the last says what came of the start."""
        told: list[dict[str, Any]] = []
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            for event in self.progress(user, server):
                told.append(event)
                if event.get("failed") or event.get("ready"):
                    return told
            time.sleep(0.1)  # it failed, and the hub is only about to say so
        raise Failed("The progress ended without an end.")

    def start(self, user: str, options: Any, server: str = "") -> list[str]:
        """Start a server; what was told until it was ready.

        Raises:
            Failed: it was not started.
        """
        raise NotImplementedError

    def refused(self, user: str, options: Any, server: str = "") -> str:
        """What somebody reads whose server is not started."""
        try:
            self.start(user, options, server)
        except Failed as failed:
            return str(failed)
        raise AssertionError(f"{user}'s server was started")

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

    # --- groups

    def group(self, name: str, *members: str, **quota: Any) -> None:
        """Make a group with these people in it; `vram_per_user="8GiB"` is its property hami.vram-per-user."""
        self.make_people(members)
        place = f"/groups/{quote(name, safe='')}"
        self.api.post(place)
        self.api.post(f"{place}/users", json={"users": list(members)}).raise_for_status()
        self.properties(name, {f"hami.{key.replace('_', '-')}": value for key, value in quota.items()})

    def properties(self, name: str, properties: Any) -> None:
        """Set all properties of a group, as the admin page does."""
        self.api.put(f"/groups/{quote(name, safe='')}/properties", json=properties).raise_for_status()

    def make_people(self, names: Iterable[str]) -> None:
        """Make those users that aren't there."""
        if wanted := list(names):
            self.api.post("/users", json={"usernames": wanted})

    def delete_group(self, name: str) -> None:
        self.api.delete(f"/groups/{quote(name, safe='')}").raise_for_status()

    def delete_groups(self) -> None:
        for group in self.api.get("/groups").json():
            self.delete_group(group["name"])
