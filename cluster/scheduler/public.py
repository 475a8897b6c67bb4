"""The HTTPS side: the admission webhook, and the read-only inventory for whoever may ask."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone

import msgspec
from aiohttp import web

from . import webhook
from .access import Access, AccessDenied
from .books import Books
from .inventory import inventory, pod_state


def application(books: Books, access: Access, hook: webhook.Webhook) -> web.Application:
    """The server's routes."""

    async def whole(request: web.Request) -> web.Response:
        return await _answer(request, lambda: inventory(books, datetime.now(timezone.utc)))

    async def one(request: web.Request) -> web.Response:
        return await _answer(
            request, lambda: pod_state(books, request.match_info["namespace"], request.match_info["name"])
        )

    async def _answer(request: web.Request, made: Callable[[], msgspec.Struct]) -> web.Response:
        try:
            await access.check(request.headers.get("Authorization"))
        except AccessDenied as denied:
            return web.json_response({"message": denied.text}, status=denied.status)
        return web.Response(body=msgspec.json.encode(made()), content_type="application/json")

    routes = web.Application(client_max_size=webhook.MAX_BODY)
    routes.router.add_post("/webhook", hook.handle)
    routes.router.add_get("/v1/inventory", whole)
    routes.router.add_get("/v1/pods/{namespace}/{name}", one)
    return routes
