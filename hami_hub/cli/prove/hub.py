"""A hub to prove on: `hami-hub demo` on a free port, and the environment that its admin's own server has."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import IO

import aiohttp

from ...notebook.errors import HubError
from ...notebook.hub import Hub
from ..demo.processes import end_with_parent
from ..demo.settings import ADMIN
from .bench import HAMI_HUB

_START_SECONDS = 120
_END_SECONDS = 30
_POLL_SECONDS = 0.2
_OWN_VARIABLES = """
import json, os
print(json.dumps({name: value for name, value in os.environ.items() if name.startswith("JUPYTERHUB_")}))
"""


class DemoHubError(RuntimeError):
    """The demo didn't start, or didn't do what a person in it can do; with its last words."""


@contextlib.asynccontextmanager
async def demo_hub(folder: Path, *, simulated: bool, environment: Mapping[str, str]) -> AsyncIterator[dict[str, str]]:
    """Start a demo in `folder`, and end it after.

    Yields:
        The JUPYTERHUB_ variables of the admin's own server: with them, a notebook is in that server.

    Raises:
        DemoHubError: see there.
    """
    port = _free_port()
    with (folder.parent / f"{folder.name}.log").open("w+") as log:
        options = ["--port", str(port), "--dir", str(folder), *(["--simulated"] * simulated)]
        process = _start(options, environment, folder.parent, log)
        try:
            yield await _admins_variables(f"http://127.0.0.1:{port}", folder, process, log)
        finally:
            await asyncio.to_thread(_end, process)


async def _admins_variables(url: str, folder: Path, process: subprocess.Popen[bytes], log: IO[str]) -> dict[str, str]:
    try:
        await _answers(url, process, log)
        token = await _log_in(url, (folder / "password").read_text().strip())
        hub = Hub(api_url=f"{url}/hub/api", token=token, public_url=url)
        with contextlib.redirect_stdout(None):
            server = await hub.start(ADMIN, profile="cpu")
        variables = json.loads(await server.run(_OWN_VARIABLES))
    except (aiohttp.ClientError, HubError, OSError, ValueError, KeyError) as error:
        raise DemoHubError(f"The demo's admin can't get a server: {error!r}. {_last_words(log)}") from error
    return {str(name): str(value) for name, value in variables.items()}


async def _answers(url: str, process: subprocess.Popen[bytes], log: IO[str]) -> None:
    async with aiohttp.ClientSession() as session:
        for _ in range(int(_START_SECONDS / _POLL_SECONDS)):
            if process.poll() is not None:
                raise DemoHubError(f"`hami-hub demo` ended at once. {_last_words(log)}")
            with contextlib.suppress(aiohttp.ClientError):
                async with session.get(f"{url}/hub/api") as response:
                    if response.ok:
                        return
            await asyncio.sleep(_POLL_SECONDS)
    raise DemoHubError(f"`hami-hub demo` doesn't answer after {_START_SECONDS} s. {_last_words(log)}")


async def _log_in(url: str, password: str) -> str:
    """A token of the admin, got as a person gets one: by logging in to the hub's pages."""
    jar = aiohttp.CookieJar(unsafe=True)  # cookies of an IP address too
    async with aiohttp.ClientSession(cookie_jar=jar, raise_for_status=True) as session:
        await session.get(f"{url}/hub/login")
        form = {"username": ADMIN, "password": password, "_xsrf": _xsrf(jar)}
        await session.post(f"{url}/hub/login", data=form)
        await session.get(f"{url}/hub/token")
        headers = {"X-XSRFToken": _xsrf(jar), "Referer": f"{url}/hub/token"}
        async with session.post(f"{url}/hub/api/users/{ADMIN}/tokens", json={}, headers=headers) as response:
            return str((await response.json())["token"])


def _xsrf(jar: aiohttp.CookieJar) -> str:
    # the hub sets one for its own path, others may have one too
    return next(cookie.value for cookie in jar if cookie.key == "_xsrf" and cookie["path"].endswith("/hub/"))


def _start(
    options: Sequence[str], environment: Mapping[str, str], where: Path, log: IO[str]
) -> subprocess.Popen[bytes]:
    command = [*HAMI_HUB, "demo", *options]
    return subprocess.Popen(
        command,
        env=dict(environment),
        cwd=where,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        preexec_fn=end_with_parent,
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the demo as Ctrl-C does; it ends what it started."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _last_words(log: IO[str]) -> str:
    log.seek(0)
    return " ".join(log.read().split()[-60:])


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
