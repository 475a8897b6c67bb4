"""Servers of other accounts, started and stopped through the hub's REST API: how an admin shows two slices at once.

For the validation notebooks; everything is `async`, a notebook awaits it.  `kernel` runs code in a server.  Whether a
server may start, and on which slice, is the hub's decision alone.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import quote, urlsplit

import aiohttp

from .errors import HubError
from .kernel import Kernel

_STOP_SECONDS = 60
_POLL_SECONDS = 0.3
# What JupyterHub itself says first, before the spawner has said anything.
_REQUESTED = "Server requested"


class Hub:
    """The hub that this notebook's server belongs to, with that server's own rights.

    Args:
        api_url: the hub's REST API; by default this server's.
        token: an API token; by default this server's.
        public_url: where browsers find the hub; by default this server's.

    Raises:
        HubError: not in a server of a hub.
    """

    def __init__(self, *, api_url: str = "", token: str = "", public_url: str = "") -> None:
        self._api = (api_url or os.environ.get("JUPYTERHUB_API_URL", "")).rstrip("/")
        self._headers = {"Authorization": f"token {token or os.environ.get('JUPYTERHUB_API_TOKEN', '')}"}
        if not self._api:
            raise HubError("This notebook doesn't run in a server of a JupyterHub. Open it from the hub.")
        public = urlsplit(public_url or os.environ.get("JUPYTERHUB_PUBLIC_HUB_URL", ""))
        if not public.netloc:
            raise HubError(
                "This hub doesn't tell its servers where it is to be found. "
                "Set c.JupyterHub.public_url, or write Hub(public_url=...)."
            )
        self._origin = f"{public.scheme}://{public.netloc}"

    async def start(self, account: str, *, profile: str, **options: str) -> Server:
        """Start the account's server, print the hub's messages, and wait until it is ready.

        Args:
            account: its default server is started.
            profile: name of a profile, "gpu-4g".
            options: "vram" and "cores", for a profile that leaves them open.

        Raises:
            HubError: refused or failed; the hub's words.
        """
        server = await self.ask(account, profile=profile, **options)
        await server.ready()
        return server

    async def ask(self, account: str, *, profile: str, **options: str) -> Server:
        """As `start`, but don't wait: the server may still have to wait for room.

        Raises:
            HubError: refused.
        """
        # A body without "user_options" is the options themselves: in every version of JupyterHub.
        await self._request("POST", account, "/server", {"profile": profile, **options})
        return Server(self, account)

    async def running(self, account: str) -> bool:
        """Whether the account's default server runs, or is about to."""
        return "" in (await self._request("GET", account)).get("servers", {})

    async def progress(self, account: str) -> AsyncIterator[Mapping[str, Any]]:
        """The hub's messages about a server that starts, from the first on, until it is ready or has failed."""
        # a server may wait for room as long as the hub lets it
        forever = aiohttp.ClientTimeout(total=None, sock_read=None)
        try:
            async with (
                aiohttp.ClientSession(headers=self._headers, timeout=forever) as session,
                session.get(f"{self._api}/users/{quote(account)}/server/progress") as response,
            ):
                await self._check(response, account)
                async for line in response.content:
                    if line.startswith(b"data:"):
                        yield json.loads(line.removeprefix(b"data:"))
        except (aiohttp.ClientError, asyncio.TimeoutError) as error:
            raise self._silent(error) from None

    async def stop(self, account: str) -> None:
        """Stop the account's server, or what is left of its start, and wait until it is gone."""
        await self._request("DELETE", account, "/server")
        for _ in range(int(_STOP_SECONDS / _POLL_SECONDS)):
            if not await self.running(account):
                return
            await asyncio.sleep(_POLL_SECONDS)
        raise HubError(f"{account}'s server did not stop in {_STOP_SECONDS} s. Stop it on the hub's admin page.")

    def kernel(self, path: str) -> Kernel:
        """A kernel in the server whose path on the hub is `path`."""
        return Kernel(self._origin + path, self._headers)

    async def _request(self, method: str, account: str, path: str = "", body: Any = None) -> Mapping[str, Any]:
        url = f"{self._api}/users/{quote(account)}{path}"
        try:
            async with (
                aiohttp.ClientSession(headers=self._headers) as session,
                session.request(method, url, json=body) as response,
            ):
                await self._check(response, account)
                text = await response.text()
        except (aiohttp.ClientError, asyncio.TimeoutError) as error:
            raise self._silent(error) from None
        data = json.loads(text) if text else {}
        return data if isinstance(data, dict) else {}

    def _silent(self, error: Exception) -> HubError:
        return HubError(f"The hub at {self._api} doesn't answer: {str(error) or 'no answer in time'}.")

    async def _check(self, response: aiohttp.ClientResponse, account: str) -> None:
        if response.ok:
            return
        if response.status in (401, 403):
            raise HubError(
                f"This server's token doesn't reach the server of {account}. "
                "Open this notebook as an admin of the hub; in the demo, log in as admin."
            )
        if response.status == 404:
            raise HubError(f"The hub has no account {account}. Add it on the hub's admin page, or name another.")
        raise HubError(_message(await response.text(), account))


class Server:
    """An account's server that `Hub.ask` asked for."""

    def __init__(self, hub: Hub, account: str) -> None:
        self.account = account
        self._hub = hub
        self._kernel: Kernel | None = None

    def __repr__(self) -> str:
        return f"<{self.account}'s server>"

    async def waits(self) -> str:
        """Why the server doesn't start now, in the hub's words.

        Raises:
            HubError: it didn't have to wait, or failed.
        """
        async for event in self._hub.progress(self.account):
            self._failed(event)
            if event.get("ready"):
                raise HubError(f"{self.account}'s server did not have to wait: there is room for it.")
            if event["message"] != _REQUESTED:
                return str(event["message"])
        raise HubError(f"The hub stopped telling about {self.account}'s server. See the hub's log.")

    async def ready(self) -> None:
        """Wait until the server is ready, and print the hub's messages meanwhile.

        Raises:
            HubError: it failed; the hub's words.
        """
        async for event in self._hub.progress(self.account):
            self._failed(event)
            print(f"{self.account}: {event['message']}")
            if event.get("ready"):
                self._kernel = self._hub.kernel(str(event["url"]))
                return
        raise HubError(f"The hub stopped telling about {self.account}'s server. See the hub's log.")

    async def run(self, code: str) -> str:
        """What `code` prints in the server's kernel, the same one each time.

        Raises:
            HubError: the server isn't ready, or doesn't answer.
        """
        if self._kernel is None:
            raise HubError(f"{self.account}'s server is not ready. Wait for it with `await server.ready()`.")
        return await self._kernel.execute(code)

    async def stop(self) -> None:
        """Stop the server; its slice is free again at once."""
        self._kernel = None
        await self._hub.stop(self.account)
        print(f"{self.account}'s server is stopped.")

    def _failed(self, event: Mapping[str, Any]) -> None:
        if event.get("failed"):
            raise HubError(f"{self.account}: {event['message']}")


def _message(text: str, account: str) -> str:
    try:
        message = str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return f"The hub refused the server of {account} and did not say why. See the hub's log."
    if message.endswith("is already running"):
        return (
            f"{account}'s server already runs. Stop it on the hub's admin page first: "
            "this notebook doesn't take over what somebody uses."
        )
    return message
