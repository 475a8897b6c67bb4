"""Waiting for a server's first answer, so that one never does is no fault of the hub's."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

from jupyterhub.utils import url_path_join, wait_for_http_server

from ..core.language import say

_RETRY_SECONDS = 0.05
_ANY_ADDRESS = {"", "0.0.0.0", "::"}  # noqa: S104
_LOOPBACK = "127.0.0.1"


class NoAnswerError(RuntimeError):
    """A server runs, but doesn't answer.  One plain sentence with what to do."""


async def until_answering(url: str | tuple[str, int] | None, base_url: str | None, *, timeout: float) -> None:
    """Return when the server at `url` answers.

    Args:
        url: what `Spawner.start` returned; None: the spawner doesn't say, so there is nothing to wait for.
        base_url: path below which it answers; None: it is enough that it listens.
        timeout: seconds.

    Raises:
        NoAnswerError: it took longer than that.
    """
    if not url:
        return
    scheme, host, port = _parts(url)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout
    while not await _listens(host, port):
        if loop.time() >= deadline:
            raise _silent(timeout)
        await asyncio.sleep(_RETRY_SECONDS)
    if base_url is None or scheme != "http":
        return
    place = f"[{host}]" if ":" in host else host
    try:
        api = url_path_join(f"http://{place}:{port}", base_url, "api")
        left = max(1.0, deadline - loop.time())
        # Its own deadline is looked at between requests only, and one that is never answered takes minutes.
        await asyncio.wait_for(wait_for_http_server(api, timeout=left), left)
    except (TimeoutError, asyncio.TimeoutError):
        raise _silent(timeout) from None


def _parts(url: str | tuple[str, int]) -> tuple[str, str, int]:
    if isinstance(url, str):
        split = urlsplit(url)
        scheme, host, port = split.scheme, split.hostname or "", split.port or (443 if split.scheme == "https" else 80)
    else:
        scheme, (host, port) = "http", url
    return scheme, _LOOPBACK if host in _ANY_ADDRESS else host, int(port)


async def _listens(host: str, port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(host, port)
    except OSError:
        return False
    writer.close()
    return True


def _silent(timeout: float) -> NoAnswerError:
    return NoAnswerError(
        say(
            "Your server started but did not answer within {seconds} seconds. Start it again; "
            "if that doesn't help, ask an admin to look into the hub's log.",
            seconds=f"{timeout:g}",
        )
    )
