"""The scheduler put together: what runs, in which order it starts and ends."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import signal
import ssl
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web

from cluster.apiserver import ApiServer, connect
from cluster.settings import Settings
from cluster.watch import Watch

from . import public
from .access import Access
from .binding import Binder
from .books import Books, NodeSink, PodSink
from .certificate_keeper import FileKeeper, SecretKeeper
from .events import Events
from .extender import Extender
from .health import Health
from .metrics import Metrics
from .publication import HubFacts, Publication
from .rules import pod_rules
from .serving import ServingTls
from .shapes import Node, Pod
from .wake import Waker
from .webhook import Webhook

_log = logging.getLogger(__name__)
USER_AGENT = "hami-hub-scheduler"
# Who is done with its containers holds nothing: kube-scheduler looks at the same selection.
_LIVE_PODS = {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"}
_EXPIRY_LOOKED_AT_EVERY = 1.0
_CAUGHT_UP_AFTER = 10.0
_SHUTDOWN = 3.0
# Longer than any caller keeps an idle connection: whoever closes first must not be the one that is just being asked.
_IDLE = 600.0


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        """From "127.0.0.1:9398" or "[::1]:9398".

        Raises:
            ValueError: it isn't like that.
        """
        host, colon, port = text.rpartition(":")
        if not colon or not port.isdigit() or not 0 <= int(port) < 65536:
            raise ValueError(f'"{text}" is not an address. Write it like 0.0.0.0:9443.')
        return cls(host.strip("[]"), int(port))


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the scheduler runs and what its objects are called.

    Attributes:
        namespace: its own.
        service: through which the API server and the hubs reach it, at port 443.
        webhook: name of the MutatingWebhookConfiguration.
        secret: for the certificates.
        config_map: that hubs read.
        tls_folder: certificates that somebody else renews; None: our own, in `secret`.
        extender, https, metrics: where it listens.
        drain_seconds: how long it still answers after it was told to stop: others learn of that a little later.
    """

    kubeconfig: Path | None
    namespace: str
    service: str
    webhook: str
    secret: str
    config_map: str
    tls_folder: Path | None
    extender: Address
    https: Address
    metrics: Address
    drain_seconds: float

    @property
    def hosts(self) -> tuple[str, ...]:
        """Names under which the service is reached."""
        name = f"{self.service}.{self.namespace}"
        return f"{name}.svc", f"{name}.svc.cluster.local", name, self.service


async def run(settings: Settings, place: Place) -> None:
    """Schedule until SIGTERM or SIGINT.

    Raises:
        Exception: what ended a part that should never end.
    """
    gc.disable()  # until the cluster is known: nothing is thrown away before
    async with connect(place.kubeconfig, user_agent=USER_AGENT) as api, AsyncExitStack() as servers:
        parts = _assemble(settings, place, api)
        await servers.enter_async_context(_server(parts.health.application(), place.metrics))
        await servers.enter_async_context(_server(parts.extender.application(), place.extender))
        tasks = [asyncio.create_task(work) for work in parts.work()]
        tasks.append(asyncio.create_task(_serve_https(parts, place.https, servers)))
        try:
            await _until_stopped(tasks)
            parts.health.stopping = True
            await asyncio.sleep(place.drain_seconds)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


@dataclass(frozen=True, slots=True)
class _Parts:
    books: Books
    extender: Extender
    health: Health
    public: web.Application
    tls: ServingTls
    events: Events
    waker: Waker
    keeper: SecretKeeper | FileKeeper
    watches: tuple[Watch[Any], ...]
    synced: asyncio.Event
    metrics: Metrics

    def work(self) -> list[Coroutine[Any, Any, None]]:
        """What runs for as long as the daemon does."""
        return [
            *(watch.run() for watch in self.watches),
            self.events.run(),
            self.waker.run(),
            self.keeper.run(),
            self._expire(),
            self._announce(),
        ]

    async def _expire(self) -> None:
        # A binding counts until the watch tells of it; a watch that was just away hasn't had its time to do so.
        seconds_alive = 0.0
        while True:
            await asyncio.sleep(_EXPIRY_LOOKED_AT_EVERY)
            alive = all(watch.lost_since is None for watch in self.watches)
            seconds_alive = seconds_alive + _EXPIRY_LOOKED_AT_EVERY if alive else 0.0
            if seconds_alive >= _CAUGHT_UP_AFTER:
                self.metrics.expired.inc(self.books.expire(time.monotonic()))

    async def _announce(self) -> None:
        for watch in self.watches:
            await watch.synced.wait()
        # What is known now stays: looking through it again and again would hold up calls by tens of milliseconds.
        gc.enable()
        gc.collect()
        gc.freeze()
        self.synced.set()
        _log.info("The cluster is known: %d nodes with cards.", len(self.books.nodes))
        await asyncio.Event().wait()


def _assemble(settings: Settings, place: Place, api: ApiServer) -> _Parts:
    rules = pod_rules(settings)
    books, metrics, tls, synced = (
        Books(rules, node_selector=settings.scheduler.node_selector),
        Metrics(),
        ServingTls(),
        asyncio.Event(),
    )
    events = Events(api, sent=metrics.api_writes.labels("event").inc)
    seconds = float(settings.scheduler.reservation_seconds)
    binder = Binder(books, api, events, metrics, reservation_seconds=seconds)
    publication = Publication(
        api,
        webhook=None if place.tls_folder else place.webhook,
        config_map=place.config_map,
        namespaces=settings.scheduler.hub_namespaces,
        facts=HubFacts(
            url=f"https://{place.hosts[0]}:443",
            scheduler_name=settings.scheduler.name,
            resources=msgspec.json.encode(settings.resources).decode(),
        ),
    )
    keeper: SecretKeeper | FileKeeper
    if place.tls_folder:
        keeper = FileKeeper(place.tls_folder, tls=tls, publish=publication.tell)
    else:
        keeper = SecretKeeper(
            api,
            namespace=place.namespace,
            name=place.secret,
            hosts=place.hosts,
            tls=tls,
            publish=publication.tell,
            clock=lambda: datetime.now(timezone.utc),
        )
    watches: tuple[Watch[Any], ...] = (
        Watch(api, "/api/v1/nodes", Node, NodeSink(books), name="nodes"),
        Watch(api, "/api/v1/pods", Pod, PodSink(books), name="pods", query=_LIVE_PODS),
    )
    return _Parts(
        books=books,
        extender=Extender(books, binder, events, metrics, synced=synced, reservation_seconds=seconds),
        health=Health(books, watches, tls, metrics),
        public=public.application(books, Access(api), Webhook(rules, metrics)),
        tls=tls,
        events=events,
        waker=Waker(books, api, woken=metrics.api_writes.labels("wake").inc),
        keeper=keeper,
        watches=watches,
        synced=synced,
        metrics=metrics,
    )


async def _serve_https(parts: _Parts, address: Address, servers: AsyncExitStack) -> None:
    await parts.tls.loaded.wait()
    await servers.enter_async_context(_server(parts.public, address, parts.tls.context))
    await asyncio.Event().wait()


@asynccontextmanager
async def _server(
    application: web.Application, address: Address, tls: ssl.SSLContext | None = None
) -> AsyncIterator[None]:
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=_SHUTDOWN, keepalive_timeout=_IDLE)
    await runner.setup()
    try:
        await web.TCPSite(runner, address.host, address.port, ssl_context=tls, backlog=512).start()
        yield
    finally:
        await runner.cleanup()


async def _until_stopped(tasks: list[asyncio.Task[None]]) -> None:
    """Until a signal comes; a task that ends is a fault."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    waiting = asyncio.create_task(stopped.wait())
    try:
        done, _ = await asyncio.wait([waiting, *tasks], return_when=asyncio.FIRST_COMPLETED)
        for task in done - {waiting}:
            task.result()
    finally:
        waiting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await waiting
