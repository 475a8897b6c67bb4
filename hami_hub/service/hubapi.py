"""The hub's REST API, as far as the service asks it: groups with their properties."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest

from .model import GroupSeen

_ANSWER_SECONDS = 15.0
_GROUPS_SECONDS = 30.0  # a group of ten thousand is work for the hub
_PAGE = 200
_PAGINATION = "application/jupyterhub-pagination+json"


class HubError(RuntimeError):
    """The hub said no, or nothing.  A sentence for people.

    Attributes:
        status: what the hub answered; 0: nothing.
    """

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class Hub:
    """The hub.

    Args:
        url: of its API, ".../hub/api".
        token: the service's own.
    """

    def __init__(self, url: str, token: str) -> None:
        self._url, self._token = url.rstrip("/"), token
        self._groups: tuple[GroupSeen, ...] = ()
        self._groups_until = 0.0
        self._lock = asyncio.Lock()
        self.problem = ""

    async def groups(self) -> tuple[GroupSeen, ...]:
        """All groups, at most half a minute old; those that were known last while the hub is away.  Never raises."""
        async with self._lock:
            if time.monotonic() >= self._groups_until:
                self._groups_until = time.monotonic() + _GROUPS_SECONDS
                try:
                    self._groups = tuple(_group(model) for model in await self._all_groups())
                    self.problem = ""
                except HubError as error:
                    self.problem = str(error)
                    self._groups_until = time.monotonic() + 2
        return self._groups

    def forget_groups(self) -> None:
        """Ask for the groups anew: one of them has been changed."""
        self._groups_until = 0.0

    async def group(self, name: str) -> GroupSeen:
        """One group, as it is now.

        Raises:
            HubError: there is none of that name (404), or the hub doesn't answer.
        """
        try:
            return _group(await self._ask("GET", f"/groups/{quote(name, safe='')}"))
        except HubError as error:
            if error.status != 404:
                raise
            there = (
                f'There is no group "{name[:80]}" in JupyterHub. Check the name, or make it in the admin page first.'
            )
            raise HubError(there, 404) from None

    async def set_properties(self, name: str, properties: Mapping[str, Any], token: str) -> GroupSeen:
        """Replace a group's properties, in the name of whoever has `token`.

        Raises:
            HubError: they may not, or the hub doesn't answer.
        """
        place = f"/groups/{quote(name, safe='')}/properties"
        return _group(await self._ask("PUT", place, body=dict(properties), token=token))

    async def _all_groups(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        while True:
            said = await self._ask("GET", f"/groups?offset={len(found)}&limit={_PAGE}")
            items = said.get("items", [])
            found += items
            if not items or said.get("_pagination", {}).get("next") is None:
                return found

    async def _ask(self, method: str, place: str, body: object = None, token: str = "") -> dict[str, Any]:
        request = HTTPRequest(
            f"{self._url}{place}",
            method=method,
            headers={"Authorization": f"token {token or self._token}", "Accept": _PAGINATION},
            body=None if body is None else json.dumps(body),
            request_timeout=_ANSWER_SECONDS,
            **_certificates(),
        )
        try:
            answer = await AsyncHTTPClient().fetch(request)
            said = json.loads(answer.body)
        except HTTPClientError as error:
            if error.response is not None and error.code < 500:
                raise HubError(_said(error), error.code) from None
            raise HubError("The hub doesn't answer.") from None
        except (OSError, ValueError):
            raise HubError("The hub doesn't answer.") from None
        return said if isinstance(said, dict) else {"items": said}


def _said(error: HTTPClientError) -> str:
    body = error.response.body if error.response is not None else b""
    try:
        return f"The hub says no: {json.loads(body)['message'].rstrip('.')}."
    except (ValueError, KeyError, TypeError, AttributeError):
        return f"The hub says no ({error.code})."


def _group(model: Mapping[str, Any]) -> GroupSeen:
    properties = model.get("properties")
    return GroupSeen(
        name=str(model["name"]),
        properties=properties if isinstance(properties, dict) else {},
        members=len(model.get("users") or ()),
    )


def _certificates() -> dict[str, Any]:
    """Those of a hub with `internal_ssl`."""
    names = {"client_key": "KEYFILE", "client_cert": "CERTFILE", "ca_certs": "CLIENT_CA"}
    paths = {option: os.environ.get(f"JUPYTERHUB_SSL_{name}", "") for option, name in names.items()}
    return {option: path for option, path in paths.items() if path}
