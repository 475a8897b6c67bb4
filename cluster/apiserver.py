"""The API server as the daemons speak to it: bytes there, bytes back, one pool of connections.

The official client finds the server, its certificates and the token; its models are left out, because decoding
straight into what is kept of an object takes a tenth of the time and memory.  `watch` keeps a kind of object up to
date over this.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

import aiohttp
import msgspec
from kubernetes.aio import config
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.client.rest import RESTClientObject

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
# A server that fell silent (its node lost power) is noticed by the kernel after about half a minute.
_CONNECTIONS = 12
_KEEPALIVE = ((socket.TCP_KEEPIDLE, 15), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 3))


class ApiUnreachable(Exception):
    """No answer: whether the request did something isn't known."""


class ApiRefused(Exception):
    """An answer that is no success.

    Attributes:
        status: the HTTP status.
        message: the server's own words.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class _Status(msgspec.Struct):
    message: str = ""


@dataclass(frozen=True, slots=True)
class ApiServer:
    """An open connection; made by `connect`."""

    session: aiohttp.ClientSession
    configuration: Configuration
    user_agent: str

    async def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = JSON,
        timeout: float = 10.0,
    ) -> bytes:
        """The body of a successful answer.

        Raises:
            ApiRefused: any status from 300.
            ApiUnreachable: no answer in `timeout` seconds, or no connection.
        """
        limit = aiohttp.ClientTimeout(total=timeout)
        async with self._send(method, path, body, query, content_type, limit) as response:
            try:
                return await response.read()
            except (aiohttp.ClientError, asyncio.TimeoutError, OSError) as error:
                raise _unreachable(error) from None

    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str], silence: float
    ) -> AsyncIterator[aiohttp.StreamReader]:
        """The bytes of a GET that goes on; `silence` seconds without any end it.

        Raises:
            ApiRefused: any status from 300.
            ApiUnreachable: no connection.  Reading may raise what aiohttp raises.
        """
        limit = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=silence)
        async with self._send("GET", path, None, query, JSON, limit) as response:
            yield response.content

    @asynccontextmanager
    async def _send(
        self,
        method: str,
        path: str,
        body: bytes | None,
        query: Mapping[str, str] | None,
        content_type: str,
        limit: aiohttp.ClientTimeout,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        headers = {"Content-Type": content_type, "User-Agent": self.user_agent, "Accept-Encoding": "identity"}
        token = await self.configuration.get_api_key_with_prefix("BearerToken")
        if token:
            headers["Authorization"] = token
        try:
            response = await self.session.request(
                method,
                self.configuration.host + path,
                data=body,
                params=query,
                headers=headers,
                timeout=limit,
                proxy=self.configuration.proxy,
            )
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError) as error:
            raise _unreachable(error) from None
        async with response:
            if response.status >= HTTPStatus.MULTIPLE_CHOICES:
                raise ApiRefused(response.status, await _words(response))
            yield response


@asynccontextmanager
async def connect(kubeconfig: Path | None, *, user_agent: str) -> AsyncIterator[ApiServer]:
    """The API server named by `kubeconfig`; None: the one of the cluster that this pod runs in.

    Raises:
        kubernetes.aio.config.ConfigException: there is no such configuration.
    """
    configuration = Configuration()
    if kubeconfig is None:
        config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
    else:
        await config.load_kube_config(  # type: ignore[no-untyped-call]
            config_file=str(kubeconfig), client_configuration=configuration
        )
    # Reading the environment for a proxy and a netrc takes a thread for each request; a proxy may stand in kubeconfig.
    configuration.client_session_kwargs = {"trust_env": False}
    pool = _Pool(configuration)
    session = pool._create_pool_manager()
    try:
        yield ApiServer(session=session, configuration=configuration, user_agent=user_agent)
    finally:
        await session.close()


class _Pool(RESTClientObject):
    """The library's pool, with keep-alive probes and a bound: a burst gains nothing by a hundred handshakes."""

    def _create_connector(self) -> aiohttp.TCPConnector:
        return aiohttp.TCPConnector(
            ssl=self.ssl_context, limit=_CONNECTIONS, keepalive_timeout=60, socket_factory=_socket
        )


def _socket(address: tuple[object, ...]) -> socket.socket:
    family, kind, protocol = address[:3]
    made = socket.socket(family, kind, protocol)  # type: ignore[arg-type]
    made.setblocking(False)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEPALIVE:
        made.setsockopt(socket.IPPROTO_TCP, option, value)
    return made


async def _words(response: aiohttp.ClientResponse) -> str:
    """What the server said, from its Status object if it sent one."""
    try:
        body = await response.read()
    except (aiohttp.ClientError, asyncio.TimeoutError, OSError):
        body = b""
    try:
        said = msgspec.json.decode(body, type=_Status).message
    except msgspec.MsgspecError:
        said = body[:200].decode(errors="replace").strip()
    return said or f"status {response.status}"


def _unreachable(error: BaseException) -> ApiUnreachable:
    reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
    return ApiUnreachable(f"The API server doesn't answer ({reason or type(error).__name__}).")
