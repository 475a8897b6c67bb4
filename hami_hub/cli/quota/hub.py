"""The groups of a hub and their properties, by its REST API."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

import click
from tornado.httpclient import HTTPClient, HTTPClientError, HTTPRequest

_ANSWER_SECONDS = 30.0
_PAGE = 200
_PAGINATION = "application/jupyterhub-pagination+json"


@dataclass(frozen=True, slots=True)
class Group:
    """A group of the hub, as it is now."""

    name: str
    members: tuple[str, ...]
    properties: Mapping[str, Any]


class HubApi:
    """A hub.  Whatever goes wrong is a `click.ClickException` with what to do.

    Args:
        url: of the hub, or of its API.
        token: somebody's who may read groups.
    """

    def __init__(self, url: str, token: str) -> None:
        self.url = _api_url(url)
        if not token:
            raise click.ClickException(
                f"A token of the hub is needed. Make one as an admin at {self.url.removesuffix('/api')}/token, "
                "and put it into JUPYTERHUB_API_TOKEN or name its file with --token-file."
            )
        self._token = token

    def groups(self) -> tuple[Group, ...]:
        """All groups, by name."""
        found: list[Any] = []
        while True:
            said = self._ask("GET", f"/groups?offset={len(found)}&limit={_PAGE}", scope="list:groups")
            items = said if isinstance(said, list) else said["items"]
            found += items
            if not items or isinstance(said, list) or said["_pagination"].get("next") is None:
                return tuple(sorted(map(_group, found), key=lambda group: group.name))

    def group(self, name: str) -> Group:
        """One group."""
        try:
            return _group(self._ask("GET", f"/groups/{quote(name, safe='')}", scope=f"read:groups!group={name}"))
        except _NotThereError:
            raise click.ClickException(self._no_such(name)) from None

    def change(self, group: Group, properties: Mapping[str, Any]) -> Group:
        """Give `group` other properties, if it still is as it was."""
        if self.group(group.name) != group:
            raise click.ClickException(
                f"Somebody else has changed the group {group.name} at this very moment. Nothing was written; "
                f"look at it with hami-hub quota show {group.name}, and try again."
            )
        place = f"/groups/{quote(group.name, safe='')}/properties"
        try:
            return _group(self._ask("PUT", place, scope=f"groups!group={group.name}", body=dict(properties)))
        except _NotThereError:
            raise click.ClickException(self._no_such(group.name)) from None

    def _no_such(self, name: str) -> str:
        names = [group.name for group in self.groups()]
        near = difflib.get_close_matches(name.casefold(), [each.casefold() for each in names], n=1)
        if near:
            right = next(each for each in names if each.casefold() == near[0])
            return f'There is no group "{name}". Did you mean "{right}"?'
        there = (
            f"There are: {', '.join(names[:20])}" if names else "There are no groups yet; make one in the admin page"
        )
        return f'There is no group "{name}". {there}.'

    def _ask(self, method: str, place: str, *, scope: str, body: object = None) -> Any:
        request = HTTPRequest(
            self.url + place,
            method=method,
            headers={"Authorization": f"token {self._token}", "Accept": _PAGINATION},
            body=None if body is None else json.dumps(body),
            request_timeout=_ANSWER_SECONDS,
        )
        client = HTTPClient()
        try:
            return json.loads(client.fetch(request).body)
        except HTTPClientError as error:
            if error.code == 404 and _is_hubs(error):
                raise _NotThereError from None
            raise click.ClickException(self._refused(error, scope)) from None
        except OSError as error:
            raise click.ClickException(
                f"No hub answers at {self.url}: {error.strerror or error}. "
                "Start it, or give its address with --hub-url, like http://127.0.0.1:8000."
            ) from None
        except ValueError:
            raise click.ClickException(self._no_hub()) from None
        finally:
            client.close()

    def _refused(self, error: HTTPClientError, scope: str) -> str:
        if error.code == 403:
            return (
                f"The hub doesn't let this token do that, or doesn't know it any more. It needs the scope {scope}: "
                "use a token of an admin."
            )
        if error.code == 599:
            return f"The hub at {self.url} doesn't answer within {_ANSWER_SECONDS:g} seconds. Try again."
        if not _is_hubs(error):
            return self._no_hub()
        return f"The hub says no ({error.code}): {_message(error)}."

    def _no_hub(self) -> str:
        return f"What answers at {self.url} is no JupyterHub. Give its address with --hub-url."


class _NotThereError(Exception):
    """The hub knows no group of that name."""


def _api_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise click.ClickException(f'"{url}" is not the address of a hub. Write it like http://127.0.0.1:8000.')
    plain = url.rstrip("/")
    if plain.endswith("/hub/api"):
        return plain
    return f"{plain}/api" if plain.endswith("/hub") else f"{plain}/hub/api"


def _group(model: Any) -> Group:
    properties = model.get("properties")
    return Group(
        name=str(model["name"]),
        members=tuple(sorted(map(str, model.get("users") or ()))),
        properties=properties if isinstance(properties, dict) else {},
    )


def _message(error: HTTPClientError) -> str:
    try:
        return str(json.loads(error.response.body)["message"]).rstrip(".") if error.response else "no answer"
    except (ValueError, KeyError, TypeError):
        return ""


def _is_hubs(error: HTTPClientError) -> bool:
    return bool(_message(error))
