"""The plugin's HTTP side: /metrics for Prometheus, /healthz and /readyz for the kubelet."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder


@asynccontextmanager
async def serve(
    host: str, port: int, *, registry: CollectorRegistry, not_ready: Callable[[], str]
) -> AsyncIterator[int]:
    """Serve while the context lasts; gives the port.

    Args:
        host: address to listen at.
        port: 0: any free one.
        registry: what /metrics shows.
        not_ready: why /readyz says no; "": it says yes.

    Raises:
        OSError: the address is taken.
    """

    async def metrics(request: web.Request) -> web.Response:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return web.Response(body=await asyncio.to_thread(encode, registry), headers={"Content-Type": content_type})

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_: web.Request) -> web.Response:
        problem = not_ready()
        return web.Response(text=f"{problem}\n" if problem else "ok\n", status=503 if problem else 200)

    application = web.Application()
    application.add_routes([web.get("/metrics", metrics), web.get("/healthz", healthz), web.get("/readyz", readyz)])
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        await site.start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()
