"""Spawners without a hub on a fake cluster: how they are made, and a start as the hub makes one."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from fake_cluster import FakeCluster
from jupyterhub.spawner import SpawnException
from jupyterhub.utils import format_exception
from kubespawner import KubeSpawner
from tornado import web
from traitlets.config import Config

from hami_hub.spawner.kube import GpuKubeSpawner

HUB_PATIENCE = 30
TOKEN = "secret-token"


class Start:
    """One user's spawner, driven as `jupyterhub.user.User.spawn` drives it.

    Args:
        kind: KubeSpawner, or ours.
        user: whose.
        config: by class name, as in jupyterhub_config.py; what is for KubeSpawner holds for both.
    """

    def __init__(
        self, cluster: FakeCluster, kind: type[KubeSpawner] = GpuKubeSpawner, *, user: str = "alice", **config: Any
    ) -> None:
        usual = {
            "KubeSpawner": {
                "image": "img:1",
                "cmd": ["jupyterhub-singleuser"],
                "k8s_api_request_timeout": HUB_PATIENCE,
                "k8s_api_request_retry_timeout": HUB_PATIENCE,
            },
            "GpuCluster": {"token_file": str(cluster.token_file), "timeout": HUB_PATIENCE},
            "GpuSlices": {"journal_url": ""},
            "Spawner": {"start_timeout": 60},
        }
        merged = Config(usual)
        merged.merge(Config(config))
        self.cluster = cluster
        self.user = SimpleNamespace(
            name=user, id=1, groups=[], settings={}, url=f"/user/{user}/", escaped_name=user, db=None
        )
        hub = SimpleNamespace(public_host="", url="http://hub", base_url="/hub/", api_url="http://hub/api")
        self.spawner = kind(user=self.user, hub=hub, config=merged)
        self.spawner.log.setLevel(logging.DEBUG)
        self._outcome: asyncio.Future[Any] | None = None

    @property
    def name(self) -> str:
        """The pod's."""
        return str(self.spawner.pod_name)

    async def begin(self, options: Any) -> asyncio.Future[Any]:
        """Begin a start, as the hub does; what comes of it."""
        self.spawner.user_options = options
        self.spawner.clear_state()
        self.spawner.api_token = TOKEN
        await self.spawner._run_apply_user_options(options)
        starting = asyncio.ensure_future(self.spawner.start())
        self._outcome = asyncio.ensure_future(asyncio.wait_for(starting, self.spawner.start_timeout))
        return self._outcome

    async def end(self) -> None:
        """Cancel what still starts."""
        if self._outcome is not None:
            self._outcome.cancel()
            await asyncio.gather(self._outcome, return_exceptions=True)
        for name in ("_undoing", "_removing"):
            task = getattr(self.spawner, name, None)
            if task is not None:
                await asyncio.wait({task}, timeout=HUB_PATIENCE)

    async def run(self, options: Any) -> Any:
        """A start that is expected to go well: the URL."""
        return await asyncio.wait_for(await self.begin(options), HUB_PATIENCE)

    async def refused(self, options: Any) -> BaseException:
        """A start that is expected not to: with what."""
        outcome = await self.begin(options)
        await asyncio.wait({outcome}, timeout=HUB_PATIENCE)
        if not outcome.done():
            outcome.cancel()
            raise AssertionError("the start hangs")
        error = outcome.exception()
        assert error is not None, "the start went well"
        return error

    async def seen(self, condition: Any) -> Any:
        """What `condition` comes to once it is true."""
        end = asyncio.get_running_loop().time() + HUB_PATIENCE
        while not (found := condition()):
            assert asyncio.get_running_loop().time() < end, self.cluster.objects["pods"]
            await asyncio.sleep(0.02)
        return found

    async def pod(self) -> dict[str, Any]:
        """The pod, once it is there."""
        found: dict[str, Any] = await self.seen(lambda: self.cluster.pod(self.name))
        return found

    def told(self) -> list[str]:
        """What the progress page was told so far."""
        news = self.spawner._news
        return [each["message"] for each in news._told] if news is not None else []

    async def until_told(self, part: str) -> str:
        """What a person is told that has `part` in it, once they are."""
        found: str = await self.seen(lambda: next((said for said in self.told() if part in said), ""))
        return found


def as_shown(error: BaseException) -> str:
    """What the hub's progress page shows of it."""
    message, html_message = format_exception(error)
    return str(html_message or message)


def counts(error: BaseException) -> bool:
    """Whether the hub takes it for a sign of being broken: `consecutive_failure_limit` such ones end it."""
    if isinstance(error, SpawnException):
        return False
    return not (isinstance(error, web.HTTPError) and error.status_code < 500)


@contextmanager
def listening() -> Iterator[int]:
    """A port at which something listens, as a server does."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]
