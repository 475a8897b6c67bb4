"""An API server of a few lines, over real HTTP: what the daemons' own client and watches are tested against."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

from cluster.apiserver import ApiServer, connect

Answer = Callable[[web.Request, Any], Any]


class ApiDouble:
    """Answers what `on` was told; everything asked stands in `asked` as (method, path, body)."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, Any]] = []
        self.queries: list[dict[str, str]] = []
        self._answers: dict[tuple[str, str], Answer] = {}

    def on(self, method: str, path: str, answer: Answer | dict[str, Any]) -> None:
        """`answer`: the JSON, or a function of request and body that gives a JSON or a response."""
        self._answers[method, path] = answer if callable(answer) else lambda _request, _body: answer

    def bodies(self, method: str, path: str) -> list[Any]:
        return [body for asked, where, body in self.asked if (asked, where) == (method, path)]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        text = await request.text()
        body = json.loads(text) if text else None
        self.asked.append((request.method, request.path, body))
        self.queries.append(dict(request.query))
        answer = self._answers.get((request.method, request.path))
        if answer is None:
            return refuse(404, f"{request.path} not found")
        made = answer(request, body)
        if asyncio.iscoroutine(made):
            made = await made
        return made if isinstance(made, web.StreamResponse) else web.json_response(made)


def refuse(status: int, message: str) -> web.Response:
    return web.json_response({"kind": "Status", "code": status, "message": message}, status=status)


@asynccontextmanager
async def serving(double: ApiDouble, folder: Path, port: int | None = None) -> AsyncIterator[ApiServer]:
    """A client of `double`, which listens on `port`."""
    application = web.Application(client_max_size=2**26)
    application.router.add_route("*", "/{path:.*}", double.handle)
    async with (
        TestServer(application, port=port) as server,
        connect(kubeconfig(folder, server.port or 0), user_agent="test") as api,
    ):
        yield api


def kubeconfig(folder: Path, port: int) -> Path:
    path = folder / "kubeconfig"
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
                "users": [{"name": "u", "user": {"token": "secret"}}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "x",
            }
        )
    )
    return path
